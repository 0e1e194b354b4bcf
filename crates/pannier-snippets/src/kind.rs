//! The type and the scope of a snippet.

use serde::Serialize;

use crate::SnippetsError;
use crate::id::excerpt;

/// The type of a snippet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SnippetType {
    /// A belief that guides decisions.
    Principle,
    /// A definition.
    Concept,
    /// A rule.
    Policy,
    /// A sequence of steps.
    Procedure,
    /// The structure of something, and its reasons.
    Design,
    /// An exact requirement.
    Spec,
}

impl SnippetType {
    /// All types.
    pub const ALL: [Self; 6] =
        [Self::Principle, Self::Concept, Self::Policy, Self::Procedure, Self::Design, Self::Spec];

    /// Returns the name, as in front matter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Principle => "principle",
            Self::Concept => "concept",
            Self::Policy => "policy",
            Self::Procedure => "procedure",
            Self::Design => "design",
            Self::Spec => "spec",
        }
    }

    /// Returns the type with this name.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownType`], which lists the valid names.
    pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
        Self::find(name).ok_or_else(|| SnippetsError::UnknownType { name: excerpt(name) })
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The scope of a snippet, broadest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// All projects.
    Global,
    /// The projects of one domain.
    Domain,
    /// One project.
    Project,
}

impl Scope {
    /// All scopes, broadest first.
    pub const ALL: [Self; 3] = [Self::Global, Self::Domain, Self::Project];

    /// Returns the name, as in front matter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Domain => "domain",
            Self::Project => "project",
        }
    }

    /// Returns the scope with this name.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownScope`], which lists the valid names.
    pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
        Self::find(name).ok_or_else(|| SnippetsError::UnknownScope { name: excerpt(name) })
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
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
