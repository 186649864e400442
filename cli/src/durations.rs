//! Durations as users write them: `90s`, `5m`, `1h30m`, `2d`, `250ms`; a bare number is in seconds.

use buildpool_protocol::limits::{REGISTER_TRIAL_MAX, TOKEN_LASTS_MAX};
use std::time::Duration;

/// Units. If one is a prefix of another, the longer one comes first.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a duration.
///
/// # Errors
/// A message for the argument parser with the invalid text and valid examples.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; valid are 90s, 5m, 1h30m, 2d, 250ms");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or_else(wrong)?;
        rest = &rest[letters..];
        total = number.checked_mul(*millis).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(total)) }
}

/// Parses a duration that is greater than zero.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_some(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(format!("`{text}` is zero; valid are 90s, 5m, 1h30m, 2d, 250ms")),
        some => Ok(some),
    }
}

/// Parses the lifetime of a token.
///
/// # Errors
/// As [`parse_some`], and if the lifetime exceeds the maximum.
pub(crate) fn parse_lasting(text: &str) -> Result<Duration, String> {
    let lasting = parse_some(text)?;
    if lasting > TOKEN_LASTS_MAX {
        let days = TOKEN_LASTS_MAX.as_secs() / 86_400;
        return Err(format!("`{text}` is too long; valid is up to {days}d; without it a token has no end"));
    }
    Ok(lasting)
}

/// Parses the time limit for a new program of a worker to register.
///
/// # Errors
/// As [`parse_some`], and if it exceeds the maximum.
pub(crate) fn parse_trial(text: &str) -> Result<Duration, String> {
    let limit = parse_some(text)?;
    if limit > REGISTER_TRIAL_MAX {
        return Err(format!("`{text}` is too long; valid is up to {}", show(REGISTER_TRIAL_MAX)));
    }
    Ok(limit)
}

/// Formats a duration for users: `0.4s`, `42s`, `5m02s`, `1h03m`, `2d04h`.
pub(crate) fn show(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Formats a duration with one unit: `42s`, `5m`, `3h`, `2d`.
pub(crate) fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::{coarse, parse, show};
    use std::time::Duration;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("250ms", 250),
            ("1m250ms", 60_250),
            ("90", 90_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "s", "5x", "5 m", "-5s", "1h30", "1.5h", "99999999999999999999s", "99999999999999d", "5m "]
        {
            let error = parse(text).unwrap_err();
            assert!(error.contains("valid are 90s"), "{text}: {error}");
        }
    }

    #[test]
    fn a_trial_takes_some_time_and_at_most_an_hour() {
        assert_eq!(super::parse_trial("1h"), Ok(Duration::from_secs(3_600)));
        for (text, reason) in [("0s", "is zero"), ("61m", "valid is up to 1h00m"), ("-1s", "not a duration")]
        {
            assert!(super::parse_trial(text).is_err_and(|error| error.contains(reason)), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_with_two_figures() {
        for (millis, text) in [
            (0, "0.0s"),
            (420, "0.4s"),
            (42_900, "42s"),
            (302_000, "5m02s"),
            (3_780_000, "1h03m"),
            (187_200_000, "2d04h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
    #[test]
    fn a_coarse_duration_has_one_unit() {
        let of = |seconds| coarse(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(119), of(7_199), of(172_800)], ["0s", "59s", "1m", "1h", "2d"]);
    }
}
