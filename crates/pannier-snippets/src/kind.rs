//! What sort of thing a snippet is, and how far it reaches.

use serde::Serialize;

use crate::SnippetsError;
use crate::id::excerpt;

/// What sort of thing a snippet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SnippetType {
    /// What is held to be true and good.
    Principle,
    /// What a word means.
    Concept,
    /// What must be done, or not.
    Policy,
    /// How something is done, step by step.
    Procedure,
    /// How something is built, and why.
    Design,
    /// What something must be, exactly.
    Spec,
}

impl SnippetType {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Principle, Self::Concept, Self::Policy, Self::Procedure, Self::Design, Self::Spec];

    /// What it is called.
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

    /// The type of this name.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownType`], which lists those there are.
    pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
        let found = Self::find(name);
        found.ok_or_else(|| SnippetsError::UnknownType { name: excerpt(name) })
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// How far a snippet reaches. What reaches further comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Everything.
    Global,
    /// All projects of a field.
    Domain,
    /// One project.
    Project,
}

impl Scope {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Global, Self::Domain, Self::Project];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Domain => "domain",
            Self::Project => "project",
        }
    }

    /// The scope of this name.
    ///
    /// # Errors
    ///
    /// [`SnippetsError::UnknownScope`], which lists those there are.
    pub fn from_name(name: &str) -> Result<Self, SnippetsError> {
        let found = Self::find(name);
        found.ok_or_else(|| SnippetsError::UnknownScope { name: excerpt(name) })
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
}

/// The names of all types, for messages.
pub(crate) fn type_names() -> String {
    SnippetType::ALL.map(SnippetType::name).join(", ")
}

/// The names of all scopes, for messages.
pub(crate) fn scope_names() -> String {
    Scope::ALL.map(Scope::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_and_errors_list_them() {
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
