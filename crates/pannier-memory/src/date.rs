//! Parses dates in headings and tags: `2026-07-25` and `2026-07-25-194549`, both in UTC.

use pannier_core::Timestamp;

/// The result of parsing a text that begins with the digits of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedDate {
    /// The time, if the day exists.
    pub(crate) date: Option<Timestamp>,
    /// A warning, if the date is not valid.
    pub(crate) problem: Option<String>,
}

/// Returns the first ten characters if they have the form of a day.
pub(crate) fn day(text: &str) -> Option<&str> {
    text.get(..10).filter(|day| has_form(day, "dddd-dd-dd"))
}

/// Parses a date. If its time is invalid, the day counts. Returns `None` if `text` does not begin with a day.
pub(crate) fn parse(text: &str) -> Option<ParsedDate> {
    let day = day(text)?;
    let time = &text[10..];
    let instant = |time: &str| format!("{day}T{time}Z").parse::<Timestamp>().ok();
    let Some(midnight) = instant("00:00:00") else {
        let problem = format!("{day} is not a valid date, so the entry counts as undated");
        return Some(ParsedDate { date: None, problem: Some(problem) });
    };
    let exact = match time {
        "" => Some(midnight),
        _ if has_form(time, "-dddddd") => {
            instant(&format!("{}:{}:{}", &time[1..3], &time[3..5], &time[5..7]))
        }
        _ => None,
    };
    let problem = exact.is_none().then(|| {
        format!("'{text}' has no time of the form -HHMMSS after its day, so only the day counts")
    });
    Some(ParsedDate { date: exact.or(Some(midnight)), problem })
}

/// Returns whether `text` matches `form`, in which `d` is any digit.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            _ => byte == form,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_times_are_parsed_in_utc() {
        let date = |text: &str| parse(text).map(|parsed| parsed.date.map(|date| date.to_string()));
        let expected = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(date("2026-07-25"), expected("2026-07-25T00:00:00Z"));
        assert_eq!(date("2026-07-25-194549"), expected("2026-07-25T19:45:49Z"));
        assert_eq!(parse("2026-07-25-194549").unwrap().problem, None);
        for other in ["", "2026", "YYYY-MM-DD", "2026-7-25", "x2026-07-25", "２０２６-07-25"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn invalid_days_and_times_are_reported() {
        let invalid = parse("2026-13-45").unwrap();
        assert_eq!(invalid.date, None);
        assert!(invalid.problem.unwrap().contains("2026-13-45"));
        for text in ["2026-07-25-256199", "2026-07-25-1945", "2026-07-25 19:45", "2026-07-25é"] {
            let parsed = parse(text).unwrap();
            assert_eq!(parsed.date, "2026-07-25T00:00:00Z".parse().ok(), "{text}");
            assert!(parsed.problem.unwrap().contains(text));
        }
    }
}
