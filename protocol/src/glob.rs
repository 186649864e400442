//! Checks if a text is a valid glob of the crate `globset`. Pure.

/// Returns the reason why a text is not a valid glob: unbalanced brackets or a trailing backslash.
pub(crate) fn problem(glob: &str) -> Option<&'static str> {
    let mut characters = glob.chars();
    let mut open = 0_u32;
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.next().is_none() => return Some("ends in a backslash"),
            '{' => open += 1,
            '}' if open == 0 => return Some("has a `}` without a `{` before it"),
            '}' => open -= 1,
            '[' => {
                if let Some(problem) = class_problem(&mut characters) {
                    return Some(problem);
                }
            }
            _ => {}
        }
    }
    (open > 0).then_some("has a `{` without a `}` behind it")
}

/// Checks a character class after its `[`, up to its `]`.
fn class_problem(characters: &mut std::str::Chars<'_>) -> Option<&'static str> {
    let mut rest = characters.clone();
    if matches!(rest.next(), Some('!' | '^')) {
        *characters = rest;
    }
    let mut last: Option<char> = None;
    let mut is_range = false;
    loop {
        let Some(character) = characters.next() else { return Some("has a `[` without a `]` behind it") };
        match (character, last) {
            (']', Some(_)) => return None,
            ('-', Some(_)) if !is_range => is_range = true,
            (end, Some(begin)) if is_range => {
                if end < begin {
                    return Some("has a range in `[…]` that ends before it begins");
                }
                is_range = false;
            }
            (one, _) => last = Some(one),
        }
    }
}
