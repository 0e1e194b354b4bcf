//! The type and the scope of a snippet.

use serde::Serialize;

use crate::SnippetsError;
use crate::id::excerpt;

/// Declares an enum whose values have a name in front matter.
macro_rules! named_enum {
    (
        $(#[$doc:meta])*
        $enum:ident, $unknown:ident, { $($(#[$value_doc:meta])* $value:ident = $name:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $enum {
            $($(#[$value_doc])* $value,)+
        }

        impl $enum {
            /// All values, in order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Returns the name, as in front matter.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// Returns the value with this name.
            ///
            /// # Errors
            ///
            #[doc = concat!("[`SnippetsError::", stringify!($unknown), "`], which lists the valid names.")]
            pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
                Self::find(name).ok_or_else(|| SnippetsError::$unknown { name: excerpt(name) })
            }

            pub(crate) fn find(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.name() == name)
            }
        }
    };
}

named_enum! {
    /// The type of a snippet.
    SnippetType, UnknownType, {
        /// A belief that guides decisions.
        Principle = "principle",
        /// A definition.
        Concept = "concept",
        /// A rule.
        Policy = "policy",
        /// A sequence of steps.
        Procedure = "procedure",
        /// The structure of something, and its reasons.
        Design = "design",
        /// An exact requirement.
        Spec = "spec",
    }
}

named_enum! {
    /// The scope of a snippet, broadest first.
    Scope, UnknownScope, {
        /// All projects.
        Global = "global",
        /// The projects of one domain.
        Domain = "domain",
        /// One project.
        Project = "project",
    }
}

/// Returns the names of all types, for messages.
pub(crate) fn type_names() -> String {
    SnippetType::ALL.map(SnippetType::name).join(", ")
}

/// Returns the names of all scopes, for messages.
pub(crate) fn scope_names() -> String {
    Scope::ALL.map(Scope::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive_and_errors_list_them() {
        for known in SnippetType::ALL {
            assert_eq!(SnippetType::from_name(known.name()).unwrap(), known);
        }
        for known in Scope::ALL {
            assert_eq!(Scope::from_name(known.name()).unwrap(), known);
        }
        let error = SnippetType::from_name("Policy").unwrap_err().to_string();
        assert!(error.contains("principle, concept, policy, procedure, design, spec"), "{error}");
        let error = Scope::from_name("team").unwrap_err().to_string();
        assert!(error.contains("global, domain, project"), "{error}");
    }
}
