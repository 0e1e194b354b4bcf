//! The parameters of a session, as data.

/// The parameters of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionPolicy {
    /// The share of the budget to which a batch cuts.
    pub low_water: f64,
}

impl SessionPolicy {
    /// Returns the default: a balance of cost and completeness.
    pub fn balanced() -> Self {
        Self { low_water: 0.65 }
    }
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self::balanced()
    }
}
