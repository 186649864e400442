//! The setup command of a workspace: the configured one, and the one that a project's files
//! suggest.

use super::config::{ConfigProblem, Configuration};
use buildpool_protocol::spec::Setup;
use std::path::Path;

/// Default of `setup_inputs`: the lock files of common package managers, at any depth.
pub const DEFAULT_INPUTS: [&str; 24] = [
    "**/package-lock.json",
    "**/npm-shrinkwrap.json",
    "**/pnpm-lock.yaml",
    "**/yarn.lock",
    "**/bun.lock",
    "**/bun.lockb",
    "**/deno.lock",
    "**/uv.lock",
    "**/poetry.lock",
    "**/pdm.lock",
    "**/Pipfile.lock",
    "**/requirements*.txt",
    "**/Cargo.lock",
    "**/go.sum",
    "**/Gemfile.lock",
    "**/Podfile.lock",
    "**/Package.resolved",
    "**/Cartfile.resolved",
    "**/composer.lock",
    "**/mix.lock",
    "**/gradle.lockfile",
    "**/packages.lock.json",
    "**/pubspec.lock",
    "**/flake.lock",
];

/// Returns the setup that a configuration defines for the project at `top`.
///
/// # Errors
/// If an entry of the configuration is invalid; the error contains the file and the key.
pub fn configured(configuration: &Configuration, top: &Path) -> Result<Option<Setup>, ConfigProblem> {
    if !configuration.is_below(top) {
        return Ok(None);
    }
    let Some((command, inputs)) = configuration.setup()? else { return Ok(None) };
    let directory = configuration.root().strip_prefix(top).unwrap_or(Path::new(""));
    let defaults = || DEFAULT_INPUTS.map(str::to_owned).to_vec();
    Ok(Some(Setup {
        command: command.to_owned(),
        directory: directory.to_string_lossy().into_owned(),
        inputs: inputs.map_or_else(defaults, <[String]>::to_vec),
    }))
}

/// Returns the command that creates missing directories at these paths, relative to `top`. The
/// command runs in `directory` below it. Returns `None` if the project's files indicate no such
/// command.
pub fn suggested(top: &Path, directory: &str, missing: &[String]) -> Option<String> {
    let mut commands: Vec<String> = Vec::new();
    for path in missing {
        let path = Path::new(path);
        let (Some(name), Some(parent)) = (path.file_name().and_then(|name| name.to_str()), path.parent())
        else {
            continue;
        };
        let Some(command) = command_for(&top.join(parent), name) else { continue };
        let depth = Path::new(directory).components().count();
        let command = match parent == Path::new(directory) {
            true => command,
            // A missing directory is in the command's directory or at the top.
            false => format!("(cd {} && {command})", vec![".."; depth].join("/")),
        };
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    (!commands.is_empty()).then(|| commands.join(" && "))
}

fn command_for(place: &Path, name: &str) -> Option<String> {
    let first = |table: &[(&str, &str)]| {
        let found = table.iter().find(|(file, _)| place.join(file).is_file());
        found.map(|(_, command)| (*command).to_owned())
    };
    match name {
        "node_modules" => first(&[
            ("package-lock.json", "npm ci"),
            ("npm-shrinkwrap.json", "npm ci"),
            ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
            ("bun.lock", "bun install --frozen-lockfile"),
            ("bun.lockb", "bun install --frozen-lockfile"),
            // Yarn 2 and later renamed the option.
            (".yarnrc.yml", "yarn install --immutable"),
            ("yarn.lock", "yarn install --frozen-lockfile"),
            ("package.json", "npm install"),
        ]),
        ".venv" | "venv" => first(&[
            ("uv.lock", "uv sync --frozen"),
            ("poetry.lock", "poetry install"),
            ("pdm.lock", "pdm install --frozen-lockfile"),
            ("Pipfile.lock", "pipenv sync --dev"),
        ])
        .or_else(|| {
            let what = first(&[("requirements.txt", "-r requirements.txt"), ("pyproject.toml", "-e .")])?;
            Some(format!("python3 -m venv {name} && {name}/bin/pip install {what}"))
        }),
        "Pods" => first(&[("Podfile", "pod install")]),
        "Carthage" => first(&[("Cartfile.resolved", "carthage bootstrap")]),
        "vendor" => first(&[
            ("Gemfile.lock", "bundle install"),
            ("composer.lock", "composer install"),
            ("go.mod", "go mod vendor"),
        ]),
        "deps" => first(&[("mix.exs", "mix deps.get")]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{DEFAULT_INPUTS, configured, suggested};
    use crate::project::Configuration;
    use buildpool_protocol::spec::check_setup_input;
    use std::fs;

    #[test]
    fn the_files_of_a_project_suggest_its_setup() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        fs::create_dir(top.join("app")).unwrap();
        let missing = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(suggested(top, "", &missing(&["node_modules", "build"])), None);
        fs::write(top.join("package-lock.json"), "{}").unwrap();
        fs::write(top.join("requirements.txt"), "").unwrap();
        assert_eq!(suggested(top, "", &missing(&["build", "node_modules"])).unwrap(), "npm ci");
        assert_eq!(
            suggested(top, "", &missing(&["node_modules", ".venv"])).unwrap(),
            "npm ci && python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
        );
        fs::write(top.join("app/yarn.lock"), "").unwrap();
        let both = missing(&["node_modules", "app/node_modules"]);
        assert_eq!(
            suggested(top, "app", &both).unwrap(),
            "(cd .. && npm ci) && yarn install --frozen-lockfile"
        );
    }

    #[test]
    fn the_configured_setup_wins_and_its_inputs_have_a_default() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        let write = |text: &str| {
            fs::create_dir_all(top.join("app/.buildpool")).unwrap();
            fs::write(top.join("app/.buildpool/config.yaml"), text).unwrap();
        };
        let of = || configured(&Configuration::load(&top.join("app")), top);
        assert_eq!(of(), Ok(None));
        write("setup: npm ci");
        let setup = of().unwrap().unwrap();
        assert_eq!((setup.command.as_str(), setup.directory.as_str()), ("npm ci", "app"));
        assert_eq!(setup.inputs, DEFAULT_INPUTS);
        assert!(DEFAULT_INPUTS.iter().all(|glob| check_setup_input(glob).is_ok()));
        write("{setup: make deps, setup_inputs: [deps.txt, 'lib/**']}");
        assert_eq!(of().unwrap().unwrap().inputs, ["deps.txt", "lib/**"]);
        for (text, said) in [
            ("{setup: [npm, ci]}", "setup: invalid value"),
            ("{setup: npm ci, setup_inputs: package.json}", "setup_inputs: invalid value"),
            ("{setup: npm ci, setup_inputs: ['../x']}", "leads out of the directory"),
            ("{setup_inputs: [a]}", "has no effect without `setup`"),
        ] {
            write(text);
            let problem = of().unwrap_err().to_string();
            assert!(problem.contains(said), "{text}: {problem}");
        }
        let above = configured(&Configuration::load(&top.join("app")), &top.join("app/inner"));
        assert_eq!(above, Ok(None));
    }
}
