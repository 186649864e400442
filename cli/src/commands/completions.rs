//! `buildpool completions SHELL`

use crate::arguments::{CompletionsArguments, Shell};
use crate::completion::VARIABLE;
use crate::failure::{self, Failure};
use crate::terminal;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use std::process::ExitCode;

/// The program that the script calls, found on the user's `PATH`.
const PROGRAM: &str = "buildpool";
/// zsh runs a file of its `fpath` as the function itself. The first call then also completes.
const ZSH_FIRST_CALL: &str =
    "if [[ \"$funcstack[1]\" == \"_buildpool\" ]]; then _clap_dynamic_completer_buildpool \"$@\"; fi\n";

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<ExitCode, Failure> {
    let shell: &dyn EnvCompleter = match arguments.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .map_err(|error| failure::of_stdout(&error))?;
    let mut script = String::from_utf8_lossy(&script).trim_start().to_owned();
    if arguments.shell == Shell::Zsh {
        script.push_str(ZSH_FIRST_CALL);
    }
    terminal::print(&script)?;
    Ok(ExitCode::SUCCESS)
}
