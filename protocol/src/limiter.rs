//! Limits of the fields of a message. The parser refuses a message with a field over its limit. A
//! sender can shorten its own message to the same limits.
//!
//! Each implementation of [`Limited`] lists all fields of its type. A new field does not compile
//! before it has a limit.

use crate::error::{ErrorCode, LinkError};
use crate::limits;

mod client;
mod outcome;
mod transfer;
mod worker;

/// A message, or a part of one, with limits on its fields.
pub trait Limited {
    /// Applies the limit of each field.
    fn limit(&mut self, limiter: &mut Limiter);
}

/// Refuses or shortens values over their limits.
#[derive(Debug)]
pub struct Limiter {
    shortens: bool,
    first: Option<LinkError>,
}

/// Checks the limits of all fields.
///
/// # Errors
/// `invalid` with the first field over its limit, its size and the limit.
pub fn check<M: Limited>(message: &mut M) -> Result<(), LinkError> {
    let mut limiter = Limiter { shortens: false, first: None };
    message.limit(&mut limiter);
    limiter.first.map_or(Ok(()), Err)
}

/// Shortens texts and lists and lowers numbers to their limits.
///
/// # Errors
/// As [`check`], for a field that cannot be shortened because it is a name.
pub fn shorten<M: Limited>(message: &mut M) -> Result<(), LinkError> {
    let mut limiter = Limiter { shortens: true, first: None };
    message.limit(&mut limiter);
    limiter.first.map_or(Ok(()), Err)
}

impl Limiter {
    /// Limits a text for users, in bytes.
    fn text(&mut self, field: &'static str, text: &mut String, most: usize) {
        if text.len() <= most {
            return;
        }
        if self.shortens {
            text.truncate(text.floor_char_boundary(most));
        } else {
            self.refuse(field, &format!("{} bytes; at most {most} are valid", text.len()));
        }
    }

    fn optional(&mut self, field: &'static str, text: &mut Option<String>, most: usize) {
        if let Some(text) = text {
            self.text(field, text, most);
        }
    }

    /// Limits a list of texts.
    fn texts(&mut self, field: &'static str, texts: &mut Vec<String>, most: usize, bytes: usize) {
        self.list(field, texts, most);
        for text in texts {
            self.text(field, text, bytes);
        }
    }

    /// Limits the number of entries of a list.
    fn list<T>(&mut self, field: &'static str, list: &mut Vec<T>, most: usize) {
        if self.shortens {
            list.truncate(most);
        } else {
            self.count(field, list.len(), most);
        }
    }

    /// Limits the number of entries of a list or map that cannot be shortened.
    fn count(&mut self, field: &'static str, length: usize, most: usize) {
        if length > most {
            self.refuse(field, &format!("{length} entries; at most {most} are valid"));
        }
    }

    /// Limits a name or a path. It is never shortened, because another party uses it for lookups.
    fn name(&mut self, field: &'static str, name: &str, most: usize) {
        if name.len() > most {
            self.refuse(field, &format!("{} bytes; at most {most} are valid", name.len()));
        }
    }

    fn number(&mut self, field: &'static str, number: &mut u64, most: u64) {
        if *number <= most {
            return;
        }
        if self.shortens {
            *number = most;
        } else {
            self.refuse(field, &format!("{number} is above the limit of {most}"));
        }
    }

    /// Limits a time in milliseconds since 1970.
    fn time(&mut self, field: &'static str, time: &mut i64) {
        const MOST: i64 = limits::TIME_MS_MAX;
        if (-MOST..=MOST).contains(time) {
            return;
        }
        if self.shortens {
            *time = (*time).clamp(-MOST, MOST);
        } else {
            self.refuse(
                field,
                &format!("{time} ms since 1970 is not a valid time; valid are {} to {MOST}", -MOST),
            );
        }
    }

    /// Limits a duration in seconds.
    fn seconds(&mut self, field: &'static str, seconds: &mut f64) {
        let most = limits::DURATION_MAX.as_secs_f64();
        if (0.0..=most).contains(seconds) {
            return;
        }
        if self.shortens {
            *seconds = 0.0_f64.max(*seconds).min(most);
        } else {
            self.refuse(field, &format!("{seconds} seconds; valid are 0 to {most}"));
        }
    }

    fn result(&mut self, result: Result<(), LinkError>) {
        if let Err(error) = result {
            self.first.get_or_insert(error);
        }
    }

    fn refuse(&mut self, field: &'static str, reason: &str) {
        self.first.get_or_insert_with(|| LinkError::new(ErrorCode::Invalid, format!("{field}: {reason}")));
    }
}

impl Limited for LinkError {
    fn limit(&mut self, limiter: &mut Limiter) {
        let Self { code: _, message } = self;
        limiter.text("error", message, limits::ERROR_BYTES_MAX);
    }
}
