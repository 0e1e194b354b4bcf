//! The expected use of a tool result per token, in integers, so that every machine orders results alike.

use pannier_policy::SessionWeights;

use super::call::CallKind;

/// The steps per unit of logarithms and weights.
pub(super) const STEPS: i64 = 256;

/// The natural logarithm of 2 in steps of 2^-16.
const LN_2: i64 = 45_426;

/// What a batch knows about a result.
pub(super) struct Evidence {
    pub(super) kind: CallKind,
    /// The tokens of the whole result, and of its current form.
    pub(super) tokens: i64,
    pub(super) current_tokens: i64,
    /// The number of results after it.
    pub(super) age: usize,
    /// The number of its rare names that later messages contain.
    pub(super) named: usize,
    pub(super) is_superseded: bool,
    /// Whether its file was edited after it was read.
    pub(super) is_edited: bool,
    /// The share of the query's terms that it contains, in steps.
    pub(super) queried: i64,
}

impl Evidence {
    /// Returns the logarithm of the value per token, in steps.
    pub(super) fn density(&self, weights: &SessionWeights) -> i64 {
        let kind = match self.kind {
            CallKind::Read => weights.read,
            CallKind::Search => weights.search,
            CallKind::Command => weights.command,
            CallKind::Edit => weights.edit,
            CallKind::Write | CallKind::Plan => weights.acknowledgement,
            CallKind::Other => weights.other,
        };
        let flag = |is_set: bool, weight: f64| if is_set { steps(weight) } else { 0 };
        steps(kind)
            + product(weights.size, ln(self.tokens.max(2) as u64))
            + product(weights.age, ln(1 + self.age as u64))
            + product(weights.named, ln(1 + self.named as u64))
            + flag(self.named == 0, weights.unnamed)
            + flag(self.is_superseded, weights.superseded)
            + flag(self.is_edited && self.kind == CallKind::Read, weights.edited)
            + product(weights.query, self.queried)
            - ln(self.current_tokens.max(1) as u64)
    }
}

/// Returns a weight in steps. Multiplication by a power of two and rounding are exact everywhere.
fn steps(weight: f64) -> i64 {
    (weight * STEPS as f64).round() as i64
}

fn product(weight: f64, logarithm: i64) -> i64 {
    steps(weight) * logarithm / STEPS
}

/// Returns the natural logarithm of a positive number in steps, rounded down.
///
/// Squaring the mantissa yields the binary digits of the logarithm to the base 2, one by one.
fn ln(number: u64) -> i64 {
    let exponent = number.max(1).ilog2();
    let mut mantissa = (u128::from(number.max(1)) << 32) >> exponent;
    let mut log2 = i64::from(exponent);
    for _ in 0..STEPS.ilog2() {
        mantissa = (mantissa * mantissa) >> 32;
        let digit = (mantissa >> 33) as i64;
        mantissa >>= digit;
        log2 = 2 * log2 + digit;
    }
    (log2 * LN_2) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_close_to_those_of_floats() {
        for number in (1..5_000_u64).chain([1 << 40, u64::MAX]) {
            let expected = (number as f64).ln() * STEPS as f64;
            assert!(
                (expected - ln(number) as f64).abs() < 2.0,
                "{number}: {} {expected}",
                ln(number)
            );
        }
    }

    #[test]
    fn named_and_queried_results_are_denser_than_superseded_ones() {
        let evidence = |named, is_superseded, queried| Evidence {
            kind: CallKind::Read,
            tokens: 500,
            current_tokens: 500,
            age: 3,
            named,
            is_superseded,
            is_edited: false,
            queried,
        };
        let density = |named, is_superseded, queried| {
            evidence(named, is_superseded, queried).density(&SessionWeights::default())
        };
        assert!(density(4, false, 0) > density(1, false, 0));
        assert!(density(1, false, 0) > density(0, false, 0));
        assert!(density(0, false, 0) > density(4, true, 0));
        assert!(density(0, true, STEPS) > density(0, true, STEPS / 2));
        assert!(density(0, true, STEPS) > density(0, false, 0));
    }
}
