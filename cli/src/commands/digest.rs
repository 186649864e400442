//! `buildpool digest`

use crate::arguments::DigestArguments;
use crate::failure::{Failure, REFUSED, USAGE};
use crate::terminal;
use buildpool_digest::{Digester, Facts, Options};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::{JobResult, JobState};
use buildpool_protocol::spec::Purpose;
use nix::sys::signal::Signal;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

/// Bytes of the log that are read at a time.
const READ_BYTES: usize = 256 << 10;

pub(crate) fn run(arguments: &DigestArguments) -> Result<ExitCode, Failure> {
    let ending = ending(arguments)?;
    let evidence = buildpool_evidence::read_reports(&arguments.reports)
        .map_err(|error| Failure::from_error(REFUSED, &error))?;
    let roots =
        std::env::current_dir().ok().and_then(|directory| directory.into_os_string().into_string().ok());
    let template =
        arguments.template.as_deref().map(|name| super::template(name, Path::new("."))).transpose()?;
    let mut digester = Digester::new(Options {
        roots: roots.into_iter().collect(),
        // The log is the output already, so the text of a passed run is one line.
        purpose: Purpose::Build,
        template: template.clone(),
        ..Options::default()
    });
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => digester.push(Stream::Stdout, &buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(Failure::while_doing(REFUSED, "standard input can't be read", &error));
            }
        }
    }
    let digest = digester.finish(&Facts { ending, evidence, ..Facts::log_only() });
    if arguments.explain {
        terminal::print(&digest.explain())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut result = JobResult::default();
    if arguments.form.json {
        digest.render_json(arguments.verbosity, template.as_ref(), None, 0, &mut result);
        terminal::print_value(&without_pool_fields(result))?;
    } else {
        digest.render(arguments.verbosity, template.as_ref(), None, &mut result);
        terminal::print(&buildpool_digest::text(&result))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn ending(arguments: &DigestArguments) -> Result<Option<Ending>, Failure> {
    if let Some(code) = arguments.exit_code.filter(|code| *code >= 0) {
        return Ok(Some(Ending::Exited { code }));
    }
    if let Some(code) = arguments.exit_code {
        let signal = Signal::try_from(-code).map_err(|_| {
            Failure::new(USAGE, format!("--exit-code: {code} is not a signal of this system"))
        })?;
        return Ok(Some(died_of(signal)));
    }
    let Some(name) = &arguments.signal else { return Ok(None) };
    let full = if name.starts_with("SIG") { name.clone() } else { format!("SIG{name}") };
    let signal: Signal = full.parse().map_err(|_| {
        let valid = "valid are names such as SIGSEGV, SIGABRT, SIGKILL, SIGTRAP";
        Failure::new(USAGE, format!("--signal: `{name}` is not a signal of this system; {valid}"))
    })?;
    Ok(Some(died_of(signal)))
}

fn died_of(signal: Signal) -> Ending {
    Ending::Signaled { signal: signal as i32, name: signal.as_str().to_owned(), core_dump: false }
}

/// Returns the result as JSON, without the fields that only a pool can fill. The command of a log has ended, so that
/// `success` and `exit_code` are present.
fn without_pool_fields(mut result: JobResult) -> serde_json::Value {
    result.state = JobState::Done;
    let mut value = result.to_json();
    if let Some(fields) = value.as_object_mut() {
        for name in JobResult::POOL_FIELDS {
            fields.remove(*name);
        }
    }
    value
}
