//! PHP with Composer: the script `test`, or PHPUnit.

use super::{Detected, Parallel, Refusal, Tool, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use serde_json::Value;

struct Composer {
    has_phpunit: bool,
    has_script: bool,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["composer.json"])?;
    let text = directory.text(&marker).unwrap_or_default();
    let package: Value = serde_json::from_str(&text).unwrap_or_default();
    let has_script = package.get("scripts").and_then(|scripts| scripts.get("test")).is_some();
    let has_phpunit =
        directory.first_file(&["phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"]).is_some()
            || text.contains("\"phpunit/phpunit\"");
    Some(Detected::new(Composer { has_phpunit, has_script }, marker))
}

impl Tool for Composer {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        if self.has_phpunit {
            if let Some(file) = filter.filter(|filter| filter.ends_with(".php")) {
                return Ok(with_filter("vendor/bin/phpunit", "", Some(file)));
            }
            // PHPUnit prints `Class::method`; `--filter` is an expression over that form.
            let pattern = filter.map(filter::pattern);
            return Ok(with_filter("vendor/bin/phpunit", "--filter ", pattern.as_deref()));
        }
        if !self.has_script {
            return Err(Refusal::Goal("it has neither PHPUnit nor a script `test`".to_owned()));
        }
        match filter {
            None => Ok("composer test".to_owned()),
            Some(_) => Err(super::no_option("composer", "filter", "give the whole command as `command`")),
        }
    }

    fn build(&self, _: Option<&str>, _: bool, _: Parallel) -> Result<String, Refusal> {
        Err(Refusal::Goal("a PHP project has no build".to_owned()))
    }
}
