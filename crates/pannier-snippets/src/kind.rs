//! The type and the scope of a snippet.

use serde::Serialize;

use crate::SnippetsError;
use crate::id::excerpt;

/// The type of a snippet. The six of the specification come first, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Another type, as written: one word of up to 64 bytes.
    Other(Box<str>),
}

/// The maximum length of a type.
const MAX_TYPE_BYTES: usize = 64;

impl SnippetType {
    /// The types of the specification, in order.
    pub const SPECIFIED: [Self; 6] =
        [Self::Principle, Self::Concept, Self::Policy, Self::Procedure, Self::Design, Self::Spec];

    /// Returns the name, as in front matter.
    pub fn name(&self) -> &str {
        match self {
            Self::Principle => "principle",
            Self::Concept => "concept",
            Self::Policy => "policy",
            Self::Procedure => "procedure",
            Self::Design => "design",
            Self::Spec => "spec",
            Self::Other(name) => name,
        }
    }

    /// Returns the type with this name.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownType`] if it is not one word of up to 64 bytes.
    pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
        Self::find(name).ok_or_else(|| SnippetsError::UnknownType { name: excerpt(name) })
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        let specified = Self::SPECIFIED.into_iter().find(|known| known.name() == name);
        specified.or_else(|| {
            let is_part = |part: char| part.is_alphanumeric() || matches!(part, '-' | '_' | '.');
            let is_word = !name.is_empty() && name.chars().all(is_part);
            (is_word && name.len() <= MAX_TYPE_BYTES).then(|| Self::Other(name.into()))
        })
    }
}

impl Serialize for SnippetType {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
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
    /// All values, in order.
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
    SnippetType::SPECIFIED.each_ref().map(SnippetType::name).join(", ")
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
        for known in SnippetType::SPECIFIED {
            assert_eq!(SnippetType::from_name(known.name()).unwrap(), known);
        }
        for known in Scope::ALL {
            assert_eq!(Scope::from_name(known.name()).unwrap(), known);
        }
        let error = SnippetType::from_name("two words").unwrap_err().to_string();
        assert!(error.contains("principle, concept, policy, procedure, design, spec"), "{error}");
        let error = Scope::from_name("team").unwrap_err().to_string();
        assert!(error.contains("global, domain, project"), "{error}");
    }

    #[test]
    fn other_types_come_last_as_written() {
        let mut types =
            ["skill", "spec", "Rule", "principle"].map(|name| SnippetType::find(name).unwrap());
        types.sort();
        assert_eq!(types.each_ref().map(SnippetType::name), ["principle", "spec", "Rule", "skill"]);
        for name in ["", "a b", "a\nb", "a/b", &"x".repeat(65)] {
            assert_eq!(SnippetType::find(name), None, "{name}");
        }
    }
}
