//! Natural order of names: numbers compare by value, so that `w2` is before `w10`.

use std::cmp::Ordering;

/// Compares two names. Different names are never equal.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (mut a, mut b) = (left, right);
    while let (Some((first, rest_of_a)), Some((second, rest_of_b))) = (part(a), part(b)) {
        let order = match (number(first), number(second)) {
            (Some(first), Some(second)) => first.len().cmp(&second.len()).then_with(|| first.cmp(second)),
            _ => first.cmp(second),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_of_a, rest_of_b);
    }
    a.len().cmp(&b.len()).then_with(|| left.cmp(right))
}

/// Splits off the digits or the other characters at the start of a name.
fn part(text: &str) -> Option<(&str, &str)> {
    let is_digit = text.chars().next()?.is_ascii_digit();
    let end = text.find(|c: char| c.is_ascii_digit() != is_digit).unwrap_or(text.len());
    Some(text.split_at(end))
}

/// Returns the digits of a number without leading zeros. They compare by length, then as text, so
/// their number is not limited.
fn number(part: &str) -> Option<&str> {
    part.starts_with(|c: char| c.is_ascii_digit()).then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::compare;

    #[test]
    fn numbers_in_names_compare_by_value() {
        let sorted =
            ["", "1", "2", "10", "mac", "mac-1", "mac-1-2", "mac-1-10", "mac-2", "mac-02", "w2", "w10", "x"];
        let huge = format!("x{}", "9".repeat(60));
        let mut names: Vec<&str> = sorted.into_iter().chain([huge.as_str()]).rev().collect();
        names.sort_by(|left, right| compare(left, right));
        let place = |name: &str| names.iter().position(|known| *known == name).expect("there");
        for pair in [
            ["1", "2"],
            ["2", "10"],
            ["mac-1-2", "mac-1-10"],
            ["mac-1-10", "mac-2"],
            ["w2", "w10"],
            ["x", &huge],
        ] {
            assert!(place(pair[0]) < place(pair[1]), "{names:?}");
        }
        assert!(compare("mac-2", "mac-02").is_ne() && compare("w1", "w1").is_eq());
    }
}
