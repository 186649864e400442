//! Task runners at the root of a JavaScript monorepo without a script in package.json: nx and
//! turbo.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use buildpool_protocol::shell::quoted;

enum Monorepo {
    Nx,
    Turbo,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    if let Some(marker) = directory.first_file(&["nx.json"]) {
        return Some(Detected::new(Monorepo::Nx, marker));
    }
    Some(Detected::new(Monorepo::Turbo, directory.first_file(&["turbo.json", "turbo.jsonc"])?))
}

impl Monorepo {
    fn name(&self) -> &'static str {
        match self {
            Self::Nx => "nx",
            Self::Turbo => "turbo",
        }
    }
}

impl Tool for Monorepo {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        if filter.is_some() {
            let instead = "give the directory of one package as `cwd`";
            return Err(no_option(self.name(), "filter", instead));
        }
        Ok(match self {
            Self::Nx => "npx nx run-many --target=test",
            Self::Turbo => "npx turbo run test",
        }
        .to_owned())
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        if release {
            return Err(no_option(self.name(), "release", "give the whole command as `command`"));
        }
        Ok(match (self, target) {
            (Self::Nx, None) => "npx nx run-many --target=build".to_owned(),
            (Self::Nx, Some(project)) => format!("npx nx build {}", quoted(project)),
            (Self::Turbo, None) => "npx turbo run build".to_owned(),
            (Self::Turbo, Some(package)) => format!("npx turbo run build --filter={}", quoted(package)),
        })
    }
}
