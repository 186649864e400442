//! Output filters (templates) that a project can use.

use super::config::Configuration;
use buildpool_digest::templates;
use buildpool_protocol::spec::TemplateSpec;
use std::path::{Path, PathBuf};

/// Valid templates of a project by name, and the problems of the invalid ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Templates {
    list: Vec<TemplateSpec>,
    problems: Vec<(String, String)>,
    file: Option<PathBuf>,
}

impl Templates {
    /// Returns the templates of the configuration and the built-in ones. The former take
    /// precedence.
    pub fn from_configuration(configuration: &Configuration) -> Self {
        let raw = TemplateSpec {
            name: buildpool_digest::RAW.to_owned(),
            description: "both streams unfiltered, as much as fits".to_owned(),
            ..TemplateSpec::default()
        };
        let file = configuration.file().map(Path::to_owned);
        let name = file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
        let loaded = templates::parse(&name, configuration.text().unwrap_or_default());
        let mut list = templates::merged(&loaded.templates);
        list.retain(|template| template.name != raw.name);
        list.push(raw);
        list.sort_by(|left, right| left.name.cmp(&right.name));
        let of_file =
            configuration.problems().iter().map(|problem| (problem.key.clone(), problem.to_string()));
        let of_templates = loaded.errors.iter().map(|error| (error.key.clone(), error.to_string()));
        let mut problems: Vec<_> = of_file.chain(of_templates).collect();
        problems.dedup_by(|left, right| left.0 == right.0);
        Self { list, problems, file }
    }

    /// Returns the templates, sorted by name.
    pub fn list(&self) -> &[TemplateSpec] {
        &self.list
    }

    /// Returns all names.
    pub fn names(&self) -> Vec<String> {
        self.list.iter().map(|template| template.name.clone()).collect()
    }

    /// Returns the template with this name.
    pub fn get(&self, name: &str) -> Option<&TemplateSpec> {
        self.list.iter().find(|template| template.name == name)
    }

    /// Returns the problem of a configured template with this name, if it is invalid.
    pub fn problem_of(&self, name: &str) -> Option<&str> {
        let key = format!("templates.{name}");
        let is_about =
            |of: &String| *of == key || of.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.'));
        self.problems.iter().find(|(of, _)| is_about(of)).map(|(_, problem)| problem.as_str())
    }

    /// Returns all problems of the configuration, each with file, key and reason.
    pub fn problems(&self) -> Vec<String> {
        self.problems.iter().map(|(_, problem)| problem.clone()).collect()
    }

    /// Returns the configuration file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::Templates;
    use crate::project::Configuration;
    use std::fs;

    #[test]
    fn own_templates_go_before_built_in_ones_and_a_bad_one_is_explained() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".quiet-shell/config.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = "templates:\n  tsc: {description: mine, include_regex: x}\n  bad: {include_regex: '('}\n";
        fs::write(&file, text).unwrap();
        let templates = Templates::from_configuration(&Configuration::load(directory.path()));
        assert_eq!(templates.names(), ["maven-build", "maven-test", "raw", "tsc", "vitest"]);
        assert_eq!(templates.get("tsc").unwrap().description, "mine");
        let problem = templates.problem_of("bad").unwrap();
        assert!(
            problem.contains("config.yaml") && problem.contains("templates.bad.include_regex"),
            "{problem}"
        );
        assert_eq!(templates.problem_of("other"), None);

        fs::write(&file, "templates: [").unwrap();
        let templates = Templates::from_configuration(&Configuration::load(directory.path()));
        assert_eq!(templates.problems().len(), 1);
        assert_eq!(templates.names().len(), 5);
    }
}
