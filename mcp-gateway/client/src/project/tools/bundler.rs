//! Ruby with Bundler: RSpec, or the Rakefile's task `test`.

use super::{Detected, Parallel, Refusal, Tool, no_option};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Bundler {
    has_specs: bool,
    has_rakefile: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["Gemfile", "gems.rb"])?;
    let has_specs = directory.has(".rspec") || directory.has("spec");
    let has_rakefile = directory.first_file(&["Rakefile", "rakefile", "Rakefile.rb"]).is_some();
    Some(Detected::new(Bundler { has_specs, has_rakefile }, marker))
}

impl Tool for Bundler {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        match (self.has_specs, self.has_rakefile, filter) {
            (true, _, None) => Ok("bundle exec rspec".to_owned()),
            (true, _, Some(path)) if path.contains(".rb") => {
                Ok(format!("bundle exec rspec {}", quoted(path)))
            }
            (true, _, Some(name)) => Ok(format!("bundle exec rspec --example {}", quoted(name))),
            (false, true, None) => Ok("bundle exec rake test".to_owned()),
            // The Rakefile of a test task takes a file from the variable `TEST`.
            (false, true, Some(file)) if file.ends_with(".rb") => {
                Ok(format!("bundle exec rake test TEST={}", quoted(file)))
            }
            (false, true, Some(name)) => {
                // Minitest takes a name or an expression between slashes.
                let option = format!("--name=/{}/", filter::pattern(name).replace('/', "\\/"));
                Ok(format!("bundle exec rake test TESTOPTS={}", quoted(&option)))
            }
            (false, false, _) => Err(Refusal::Goal("it has neither specs nor a Rakefile".to_owned())),
        }
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        match target {
            _ if release => Err(no_option("rake", "release", "give the task as `target`")),
            Some(task) if self.has_rakefile => Ok(format!("bundle exec rake {}", quoted(task))),
            _ => Err(Refusal::Goal(
                "a Ruby project has no build; give a task of the Rakefile as `target`".to_owned(),
            )),
        }
    }
}
