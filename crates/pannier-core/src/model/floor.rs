use crate::Error;

/// The score below which items are dropped before anything is selected.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Floor {
    /// A score.
    Score(f64),
    /// A share of the best score in the pool, from 0 to 1. Has no effect if the best score is not above 0.
    ShareOfBest(f64),
}

impl Floor {
    /// Checks the number.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidFloor`] if the score is not finite, or the share is not from 0 to 1.
    pub fn checked(self) -> Result<Self, Error> {
        let problem = match self {
            Self::Score(score) if !score.is_finite() => {
                format!("the score is {score}; it must be a finite number")
            }
            Self::ShareOfBest(share) if !(0.0..=1.0).contains(&share) => {
                format!("share_of_best is {share}; it must be from 0 to 1")
            }
            _ => return Ok(self),
        };
        Err(Error::InvalidFloor { problem })
    }

    /// Returns the lowest score that stays, among these.
    pub(crate) fn score(self, scores: impl Iterator<Item = f64>) -> f64 {
        match self {
            Self::Score(score) => score,
            Self::ShareOfBest(share) => match scores.fold(0.0, f64::max) {
                best if best > 0.0 => share * best,
                _ => f64::NEG_INFINITY,
            },
        }
    }
}
