//! Checks of a spec that its types cannot express: sizes, names, absence of NUL.

use super::{JobSpec, Setup, Source, TemplateSpec};
use crate::limits;
use globset::GlobBuilder;
use std::path::{Component, Path};
use std::time::Duration;

impl JobSpec {
    /// Checks sizes, names and absence of NUL.
    ///
    /// # Errors
    /// The first invalid field, with its valid values.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.fallback.as_ref().is_some_and(|reason| reason.len() > limits::TEXT_BYTES_MAX) {
            return Err(SpecError::new("fallback", format!("longer than {} bytes", limits::TEXT_BYTES_MAX)));
        }
        if let Some(trace) = self.trace.as_ref().filter(|trace| !is_trace_context(trace)) {
            let reason =
                format!("`{}` is not a W3C traceparent, as in `00-HEX32-HEX16-HEX2`", trace.escape_debug());
            return Err(SpecError::new("trace", reason));
        }
        if let Some(seal) = self.stdin.as_ref().and_then(|stdin| stdin.seal.as_ref()) {
            check_bytes("stdin", &seal.blake3, limits::NAME_BYTES_MAX)?;
            if seal.length > limits::STDIN_BYTES_MAX {
                let reason = format!("{} bytes; at most {} are valid", seal.length, limits::STDIN_BYTES_MAX);
                return Err(SpecError::new("stdin", reason));
            }
        }
        self.check_command()?;
        self.check_environment()?;
        for (field, length) in [
            ("label", self.selectors.len()),
            ("resource", self.resources.len()),
            ("secret", self.secrets.len()),
            ("report", self.reports.len()),
            ("artifact", self.artifacts.len()),
        ] {
            if length > limits::LIST_MAX {
                return Err(SpecError::new(
                    field,
                    format!("{length} given; at most {} are valid", limits::LIST_MAX),
                ));
            }
        }
        for selector in &self.selectors {
            check_name("label", &selector.key)?;
            check_bytes("label", selector.value.as_deref().unwrap_or_default(), limits::TEXT_BYTES_MAX)?;
        }
        for (name, units) in &self.resources {
            check_name("resource", name)?;
            if *units > limits::UNITS_MAX {
                let reason = format!("{units} units of `{name}`; at most {} are valid", limits::UNITS_MAX);
                return Err(SpecError::new("resource", reason));
            }
        }
        check_bytes("project", &self.project, limits::PROJECT_BYTES_MAX)?;
        self.check_source()?;
        self.setup.as_ref().map_or(Ok(()), Setup::check)?;
        self.template.as_ref().map_or(Ok(()), TemplateSpec::check)?;
        for pattern in &self.reports {
            check_bytes("report", pattern, limits::PATH_BYTES_MAX)?;
        }
        check_duration("wait_for_worker", self.wait_for_worker, limits::DURATION_MAX)?;
        if let Some(group) = &self.concurrency_group {
            check_name("concurrency_group", group)?;
        }
        for name in &self.secrets {
            check_given_variable("secret", name)?;
        }
        for pattern in &self.artifacts {
            check_artifact(pattern)?;
        }
        for pattern in &self.reports {
            check_report(pattern)?;
        }
        check_duration("grace", self.grace, limits::GRACE_MAX)?;
        for (field, value) in [("timeout", self.timeout), ("idle_timeout", self.idle_timeout)] {
            if value.is_some_and(|value| value.is_zero()) {
                return Err(SpecError::new(
                    field,
                    "0 would end the job before it starts; leave it out for no limit",
                ));
            }
            check_duration(field, value, limits::TIMEOUT_MAX)?;
        }
        Ok(())
    }

    fn check_source(&self) -> Result<(), SpecError> {
        match &self.source {
            Source::InPlace { directory } => check_bytes("directory", directory, limits::PATH_BYTES_MAX),
            Source::Snapshot { id, project, directory, head, manifest } => {
                let names = [Some(id), head.as_ref(), manifest.as_ref()];
                for name in names.into_iter().flatten() {
                    check_bytes("snapshot", name, limits::NAME_BYTES_MAX)?;
                }
                check_bytes("project", project, limits::PROJECT_BYTES_MAX)?;
                check_bytes("directory", directory, limits::PATH_BYTES_MAX)
            }
            Source::Empty => Ok(()),
        }
    }

    fn check_command(&self) -> Result<(), SpecError> {
        let argv = self.command.argv();
        if argv.first().is_none_or(String::is_empty) {
            return Err(SpecError::new("command", "is empty; name a program"));
        }
        if argv.len() > limits::ARGUMENTS_MAX {
            return Err(SpecError::new(
                "command",
                format!("has {} arguments; at most {} are valid", argv.len(), limits::ARGUMENTS_MAX),
            ));
        }
        let bytes: usize = argv.iter().map(String::len).sum();
        if bytes > limits::COMMAND_BYTES_MAX {
            return Err(SpecError::new(
                "command",
                format!("has {bytes} bytes; at most {} are valid", limits::COMMAND_BYTES_MAX),
            ));
        }
        if argv.iter().any(|argument| argument.contains('\0')) {
            return Err(SpecError::new("command", "contains a NUL byte, which no process can be given"));
        }
        Ok(())
    }

    fn check_environment(&self) -> Result<(), SpecError> {
        if self.given_env.len() > self.env.len() {
            return Err(SpecError::new("given_env", "has more names than `env`"));
        }
        if let Some(name) = self.given_env.iter().find(|name| !self.env.contains_key(*name)) {
            return Err(SpecError::new("given_env", format!("`{}` is not in `env`", name.escape_debug())));
        }
        let mut bytes = 0;
        for (name, value) in &self.env {
            check_variable("env", name)?;
            if value.contains('\0') {
                return Err(SpecError::new("env", format!("the value of `{name}` contains a NUL byte")));
            }
            bytes += name.len() + value.len();
        }
        if bytes > limits::ENVIRONMENT_BYTES_MAX {
            return Err(SpecError::new(
                "env",
                format!("has {bytes} bytes; at most {} are valid", limits::ENVIRONMENT_BYTES_MAX),
            ));
        }
        Ok(())
    }
}

impl Setup {
    /// Checks lengths, the absence of NUL, and that directory and inputs stay inside the snapshot.
    ///
    /// # Errors
    /// The first invalid field, with its valid values.
    pub fn check(&self) -> Result<(), SpecError> {
        check_bytes("setup", &self.command, limits::SETUP_COMMAND_BYTES_MAX)?;
        check_bytes("setup", &self.directory, limits::PATH_BYTES_MAX)?;
        if self.command.trim().is_empty() || self.command.contains('\0') {
            return Err(SpecError::new("setup", "is empty or contains a NUL byte; give a shell command"));
        }
        if Path::new(&self.directory).components().any(|part| !matches!(part, Component::Normal(_))) {
            let reason =
                format!("the directory `{}` leads out of the snapshot", self.directory.escape_debug());
            return Err(SpecError::new("setup", reason));
        }
        if self.inputs.len() > limits::LIST_MAX {
            let reason = format!("{} given; at most {} are valid", self.inputs.len(), limits::LIST_MAX);
            return Err(SpecError::new("setup_inputs", reason));
        }
        self.inputs.iter().try_for_each(|glob| check_setup_input(glob))
    }
}

/// Returns the reason why a text is not a glob. The worker matches files with the same crate.
fn glob_problem(glob: &str) -> Option<String> {
    let error = GlobBuilder::new(glob).literal_separator(true).build().err()?;
    Some(format!("is not a glob: {}", error.kind()))
}

/// Checks a glob of `setup_inputs`.
///
/// # Errors
/// If it is empty or too long, is not a glob, or leads out of the directory of the configuration.
pub fn check_setup_input(glob: &str) -> Result<(), SpecError> {
    let leads_out = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    let reason = if glob.is_empty() || glob.len() > limits::PATH_BYTES_MAX || glob.contains('\0') {
        format!("is not a path; 1 to {} bytes without NUL are valid", limits::PATH_BYTES_MAX)
    } else if Path::new(glob).components().any(leads_out) {
        "leads out of the directory of the configuration; use a relative glob without `..`, for example `**/package-lock.json`"
            .to_owned()
    } else if let Some(problem) = glob_problem(glob) {
        problem
    } else {
        return Ok(());
    };
    Err(SpecError::new("setup_inputs", format!("`{}` {reason}", glob.escape_debug())))
}

impl TemplateSpec {
    /// Checks the lengths of a template's texts.
    ///
    /// # Errors
    /// The first field over its limit.
    pub fn check(&self) -> Result<(), SpecError> {
        let mut next = Some(self);
        while let Some(template) = next {
            check_bytes("template name", &template.name, limits::TEXT_BYTES_MAX)?;
            check_bytes("template description", &template.description, limits::PATTERN_BYTES_MAX)?;
            for pattern in [&template.include_regex, &template.exclude_regex].into_iter().flatten() {
                check_bytes("template pattern", pattern, limits::PATTERN_BYTES_MAX)?;
            }
            next = template.on_success.as_deref();
        }
        Ok(())
    }
}

fn check_bytes(field: &'static str, text: &str, most: usize) -> Result<(), SpecError> {
    if text.len() <= most {
        return Ok(());
    }
    Err(SpecError::new(field, format!("has {} bytes; at most {most} are valid", text.len())))
}

/// An invalid field of a spec.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SpecError {
    /// Name of the field.
    pub field: &'static str,
    /// The problem and the valid values.
    pub reason: String,
}

impl SpecError {
    pub(super) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

/// Checks the name of a label, resource, worker or token.
///
/// # Errors
/// Fails if it is empty, too long, or has characters other than letters, digits, `_`, `-`, `.`,
/// `/`.
pub fn check_name(field: &'static str, name: &str) -> Result<(), SpecError> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err(SpecError::new(
            field,
            format!("a name has {} bytes; valid are 1 to {}", name.len(), limits::NAME_BYTES_MAX),
        ));
    }
    if !name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/')) {
        return Err(SpecError::new(
            field,
            format!("`{name}` is not a valid name; use letters, digits, `_`, `-`, `.`, `/`"),
        ));
    }
    Ok(())
}

fn check_duration(field: &'static str, value: Option<Duration>, most: Duration) -> Result<(), SpecError> {
    match value.filter(|value| *value > most) {
        None => Ok(()),
        Some(value) => {
            let (value, most) = (value.as_secs(), most.as_secs());
            Err(SpecError::new(field, format!("{value}s is too long; valid is up to {most}s")))
        }
    }
}

/// Prefix of the pool's own variables.
pub const OWN_VARIABLES: &str = "BUILDPOOL_";

/// Checks the name of a variable that a user sets explicitly. Inherited variables may have other
/// names, which no shell can read and which do no harm.
///
/// # Errors
/// Fails if it is empty, begins with a digit or with [`OWN_VARIABLES`], or has `=`, white space or
/// a control character.
pub fn check_given_variable(field: &'static str, name: &str) -> Result<(), SpecError> {
    let is_odd = |c: char| c == '=' || c.is_whitespace() || c.is_control();
    if name.starts_with(OWN_VARIABLES) {
        return Err(SpecError::new(
            field,
            format!("`{name}` is the pool's own, as all that begins with {OWN_VARIABLES}; use another name"),
        ));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || name.contains(is_odd) {
        return Err(SpecError::new(
            field,
            format!(
                "`{}` is not a valid variable name; valid is one that does not begin with a digit and has no `=`, white space or control character",
                name.escape_debug()
            ),
        ));
    }
    Ok(())
}

/// Returns true for a W3C `traceparent`: version, trace, parent and flags in lower-case hexadecimal
/// digits.
pub fn is_trace_context(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    parts.iter().map(|part| part.len()).eq([2, 32, 16, 2]) && parts.iter().all(is_hex)
}

/// Checks the glob of an artifact and returns it in normal form: without `.` components, empty
/// components and a trailing `/`.
///
/// # Errors
/// Fails if it is empty, too long, not a valid glob, or leads out of the command's directory.
pub fn check_artifact(pattern: &str) -> Result<String, SpecError> {
    let wrong =
        |reason: &str| Err(SpecError::new("artifact", format!("`{}` {reason}", pattern.escape_debug())));
    let leads_out = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(pattern).components().any(leads_out) {
        return wrong(
            "leads out of the command's directory; valid is a glob relative to it, without `..`, as in `out/**/*.xml`",
        );
    }
    let names: Vec<&str> = pattern.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let plain = names.join("/");
    if plain.is_empty() {
        return wrong(
            "is the command's directory itself; valid is a glob relative to it, without `..`, as in `out/**/*.xml`, or `**` for all files",
        );
    }
    if pattern.len() > limits::PATH_BYTES_MAX || pattern.contains('\0') {
        return wrong(&format!(
            "is not a path; at most {} bytes without NUL are valid",
            limits::PATH_BYTES_MAX
        ));
    }
    match glob_problem(&plain) {
        Some(problem) => wrong(&format!("{problem}; a backslash before a character takes it as it is")),
        None => Ok(plain),
    }
}

/// Checks the path or glob of a test report.
///
/// # Errors
/// Fails if it is empty, too long, absolute, not a valid glob, or contains `..`.
pub fn check_report(pattern: &str) -> Result<(), SpecError> {
    let leads_out = |part: Component<'_>| !matches!(part, Component::Normal(_) | Component::CurDir);
    let reason = if pattern.is_empty() || pattern.len() > limits::PATH_BYTES_MAX || pattern.contains('\0') {
        format!("is not a path; 1 to {} bytes without NUL are valid", limits::PATH_BYTES_MAX)
    } else if Path::new(pattern).components().any(leads_out) {
        "leads out of the command's directory; valid is a path or glob relative to it, without `..`, as in `out/**/*.xml`".to_owned()
    } else if let Some(problem) = glob_problem(pattern) {
        format!("{problem}; valid is a path or glob, as in `out/**/*.xml`")
    } else {
        return Ok(());
    };
    Err(SpecError::new("report", format!("`{}` {reason}", pattern.escape_debug())))
}

fn check_variable(field: &'static str, name: &str) -> Result<(), SpecError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(SpecError::new(
            field,
            format!(
                "`{}` is not a valid variable name: it must not be empty, nor contain `=` or NUL",
                name.escape_debug()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{check_artifact, check_report};

    #[test]
    fn a_pattern_that_is_no_glob_is_refused_with_the_reason() {
        for pattern in ["[", "out/{a,b", "a/***/[b"] {
            let error = check_report(pattern).expect_err(pattern);
            assert!(error.reason.contains("is not a glob: "), "{}", error.reason);
            assert!(check_artifact(pattern).is_err(), "{pattern}");
        }
        for pattern in ["out/**/*.xml", "report.xml", "out/{a,b}[1-9].xml"] {
            check_report(pattern).expect(pattern);
        }
    }
}
