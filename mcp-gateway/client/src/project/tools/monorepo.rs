//! Task runners at the root of a JavaScript monorepo without a script in package.json: nx and
//! turbo.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

enum Runner {
    Nx,
    Turbo,
}

struct Monorepo {
    runner: Runner,
    /// Runs a program of the project's packages.
    exec: &'static str,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let exec = super::node::exec(directory);
    if let Some(marker) = directory.first_file(&["nx.json"]) {
        return Some(Detected::new(Monorepo { runner: Runner::Nx, exec }, marker));
    }
    let marker = directory.first_file(&["turbo.json", "turbo.jsonc"])?;
    Some(Detected::new(Monorepo { runner: Runner::Turbo, exec }, marker))
}

impl Monorepo {
    fn name(&self) -> &'static str {
        match self.runner {
            Runner::Nx => "nx",
            Runner::Turbo => "turbo",
        }
    }
}

impl Tool for Monorepo {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        if filter.is_some() {
            let instead = "give the directory of one package as `cwd`";
            return Err(no_option(self.name(), "filter", instead));
        }
        Ok(match self.runner {
            Runner::Nx => format!("{} nx run-many --target=test", self.exec),
            Runner::Turbo => format!("{} turbo run test", self.exec),
        })
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option(self.name(), "release", "give the whole command as `command`"));
        }
        let command = match (&self.runner, target) {
            (Runner::Nx, None) => "nx run-many --target=build".to_owned(),
            (Runner::Nx, Some(project)) => format!("nx build {}", quoted(project)),
            (Runner::Turbo, None) => "turbo run build".to_owned(),
            (Runner::Turbo, Some(package)) => format!("turbo run build --filter={}", quoted(package)),
        };
        Ok(format!("{} {command}", self.exec))
    }
}
