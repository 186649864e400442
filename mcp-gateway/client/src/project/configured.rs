//! Commands from the configuration. Each option of a call becomes one argument of the command.

use super::choose::{ChooseError, Chosen, Goal};
use buildpool_protocol::shell::quoted;
use std::path::Path;

/// Fills the placeholders of a configured command.
///
/// # Errors
/// [`ChooseError::NoPlace`] if the command has no placeholder for an option of the call; [`ChooseError::Quoted`] if a
/// placeholder stands inside quotes or after `<<`, where the value could run commands of its own.
pub(super) fn configured(
    file: &Path,
    root: &Path,
    command: &str,
    goal: Goal<'_>,
) -> Result<Chosen, ChooseError> {
    let values: Vec<(&'static str, Option<String>)> = match goal {
        Goal::Test { filter } => vec![("filter", filter.map(quoted))],
        Goal::Build { target, release } => {
            vec![("target", target.map(quoted)), ("release", release.then(|| "release".to_owned()))]
        }
    };
    let mut text = command.to_owned();
    for (option, value) in values {
        let placeholder = format!("{{{option}}}");
        if is_quoted(command, &placeholder) {
            return Err(ChooseError::Quoted { file: file.to_owned(), goal: goal.name(), option });
        }
        if value.is_some() && !command.contains(&placeholder) {
            return Err(ChooseError::NoPlace { file: file.to_owned(), goal: goal.name(), option });
        }
        text = text.replace(&placeholder, &value.unwrap_or_default());
    }
    Ok(Chosen {
        command: text.trim_end().to_owned(),
        directory: root.to_owned(),
        because: format!("{} configures it", file.display()),
        reports: Vec::new(),
    })
}

/// Returns true if the text is inside single quotes, double quotes or backquotes of a shell
/// command, or after the start of a here-document. The shell expands a here-document as it expands
/// double quotes, and the quotes of the value do not count there.
pub(super) fn is_quoted(command: &str, placeholder: &str) -> bool {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in command.char_indices() {
        if quote.is_some() && command[at..].starts_with(placeholder) {
            return true;
        }
        if quote.is_none() && !escaped && command[at..].starts_with("<<") {
            return command[at..].contains(placeholder);
        }
        match (quote, c) {
            _ if escaped => escaped = false,
            (None | Some('"' | '`'), '\\') => escaped = true,
            (None, '\'' | '"' | '`') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_quoted;

    #[test]
    fn placeholders_inside_quotes_are_found() {
        for (command, expected) in [
            ("just test {filter}", false),
            ("sh -c 'just test {filter}'", true),
            ("just test \"{filter}\"", true),
            ("just test \"a\" {filter} 'b'", false),
            ("just test it\\'s {filter}", false),
            ("just test \"\\\"{filter}\"", true),
            ("echo `just {filter}`", true),
            ("just test --x={filter}", false),
            ("just {filter} '{filter}'", true),
            ("cat <<EOF\n{filter}\nEOF", true),
            ("just {filter} <<EOF\nEOF", false),
            ("echo '<<' {filter}", false),
        ] {
            assert_eq!(is_quoted(command, "{filter}"), expected, "{command}");
        }
    }
}
