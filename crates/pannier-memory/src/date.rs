//! Dates as people write them into headings and tags: `2026-07-25` and `2026-07-25-194549`, both in UTC.

use pannier_core::Timestamp;

/// A date that was looked for and found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedDate {
    /// The instant, if there is such a one.
    pub(crate) date: Option<Timestamp>,
    /// What is wrong with it.
    pub(crate) problem: Option<String>,
}

/// The day that a text begins with, if it looks like one.
pub(crate) fn day(text: &str) -> Option<&str> {
    text.get(..10).filter(|day| has_form(day, "dddd-dd-dd"))
}

/// Reads what looks like a date. Of a date with a time that cannot be, the day still counts.
pub(crate) fn read(text: &str) -> Option<ParsedDate> {
    let day = day(text)?;
    let time = &text[10..];
    let instant = |time: &str| format!("{day}T{time}Z").parse::<Timestamp>().ok();
    let Some(midnight) = instant("00:00:00") else {
        let problem = format!("there is no day {day}, so the entry counts as undated");
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
        format!("'{text}' has no time of the form -HHMMSS behind its day, so only the day counts")
    });
    Some(ParsedDate { date: exact.or(Some(midnight)), problem })
}

/// Whether a text has this form, in which `d` is any digit.
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
    fn days_and_times_are_read_in_utc() {
        let date = |text: &str| read(text).map(|found| found.date.map(|date| date.to_string()));
        let at = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(date("2026-07-25"), at("2026-07-25T00:00:00Z"));
        assert_eq!(date("2026-07-25-194549"), at("2026-07-25T19:45:49Z"));
        assert_eq!(read("2026-07-25-194549").unwrap().problem, None);
        for other in ["", "2026", "YYYY-MM-DD", "2026-7-25", "x2026-07-25", "２０２６-07-25"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        let none = read("2026-13-45").unwrap();
        assert_eq!(none.date, None);
        assert!(none.problem.unwrap().contains("2026-13-45"));
        for text in ["2026-07-25-256199", "2026-07-25-1945", "2026-07-25 19:45", "2026-07-25é"] {
            let found = read(text).unwrap();
            assert_eq!(found.date, "2026-07-25T00:00:00Z".parse().ok(), "{text}");
            assert!(found.problem.unwrap().contains(text));
        }
    }
}
