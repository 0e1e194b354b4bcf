//! An instant on the UTC time line. It wraps the type of the `jiff` crate, so that the crate can be replaced.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use crate::Error;

/// A point in time, to the nanosecond, between the years -9999 and 9999.
///
/// Two spellings of the same instant are the same timestamp:
///
/// ```
/// use pannier_core::Timestamp;
///
/// let utc: Timestamp = "2026-03-01T12:00:00Z".parse()?;
/// let paris: Timestamp = "2026-03-01T13:00:00+01:00".parse()?;
/// assert_eq!(utc, paris);
/// assert_eq!(paris.to_string(), "2026-03-01T12:00:00Z");
/// # Ok::<(), pannier_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self(jiff::Timestamp::UNIX_EPOCH);

    /// Returns the instant `seconds` after 1970-01-01T00:00:00Z.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidTimestamp`] outside the years -9999 to 9999.
    pub fn from_unix_seconds(seconds: i64) -> Result<Self, Error> {
        jiff::Timestamp::from_second(seconds).map(Self).map_err(|error| Error::InvalidTimestamp {
            text: seconds.to_string(),
            problem: error.to_string(),
        })
    }

    /// Returns the nanoseconds since 1970-01-01T00:00:00Z.
    pub fn unix_nanoseconds(self) -> i128 {
        self.0.as_nanosecond()
    }

    /// Returns the seconds since 1970-01-01T00:00:00Z, rounded down, and the nanoseconds beyond them.
    pub(crate) fn parts(self) -> (i64, u32) {
        let (seconds, nanoseconds) = (self.0.as_second(), self.0.subsec_nanosecond());
        match nanoseconds {
            0.. => (seconds, nanoseconds as u32),
            _ => (seconds - 1, (nanoseconds + 1_000_000_000) as u32),
        }
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let nanoseconds = self.unix_nanoseconds().saturating_sub(earlier.unix_nanoseconds()).max(0);
        // Twenty thousand years are about 6.3e11 seconds: both parts fit.
        Duration::new((nanoseconds / 1_000_000_000) as u64, (nanoseconds % 1_000_000_000) as u32)
    }
}

impl From<SystemTime> for Timestamp {
    /// Converts a reading of the system clock; a time outside the range is clamped.
    fn from(time: SystemTime) -> Self {
        let fallback =
            if time < SystemTime::UNIX_EPOCH { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        let nanoseconds = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()),
            Err(before) => i128::try_from(before.duration().as_nanos()).map(|nanos| -nanos),
        };
        let timestamp = nanoseconds.ok().and_then(|n| jiff::Timestamp::from_nanosecond(n).ok());
        Self(timestamp.unwrap_or(fallback))
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// Parses a date and a time with an offset or `Z`: RFC 3339, and the other forms of ISO 8601 that
    /// name an instant.
    fn from_str(text: &str) -> Result<Self, Error> {
        text.parse().map(Self).map_err(|error: jiff::Error| Error::InvalidTimestamp {
            text: text.to_owned(),
            problem: error.to_string(),
        })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(feature = "serde")]
serde_as_text!(Timestamp);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_times_convert_and_saturate() {
        assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH).unix_nanoseconds(), 0);
        let before = SystemTime::UNIX_EPOCH - Duration::new(1, 500_000_000);
        assert_eq!(Timestamp::from(before).unix_nanoseconds(), -1_500_000_000);
        assert_eq!(Timestamp::from(before).parts(), (-2, 500_000_000));
        if let Some(far) = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(1 << 60)) {
            assert_eq!(Timestamp::from(far).0, jiff::Timestamp::MAX);
        }
    }

    #[test]
    fn elapsed_time_is_never_negative() {
        let early = Timestamp::from_unix_seconds(10).unwrap();
        let late: Timestamp = "1970-01-01T00:00:12.25Z".parse().unwrap();
        assert_eq!(late.since(early), Duration::from_millis(2250));
        assert_eq!(early.since(late), Duration::ZERO);
        let (first, last) = (Timestamp(jiff::Timestamp::MIN), Timestamp(jiff::Timestamp::MAX));
        assert!(last.since(first) > Duration::from_secs(600_000_000_000));
    }

    #[test]
    fn a_date_without_an_offset_is_refused() {
        let error = "2026-03-01T12:00:00".parse::<Timestamp>().unwrap_err();
        assert!(error.to_string().contains("2026-03-01T12:00:00"), "{error}");
    }
}
