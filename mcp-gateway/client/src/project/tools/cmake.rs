//! CMake with CTest, by a preset if the project has presets.

use super::{Detected, Parallel, Refusal, Tool, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;
use serde_json::Value;

struct Cmake {
    presets: Option<Presets>,
}

/// The parts of CMakePresets.json that the commands need (cmake-presets(7)).
struct Presets {
    configure: Vec<Configure>,
    build: Vec<Step>,
    test: Vec<Step>,
}

/// A configure preset that is not hidden.
struct Configure {
    name: String,
    /// The build directory, relative to the project or absolute.
    directory: String,
}

/// A build or test preset that is not hidden.
struct Step {
    name: String,
    /// Its configure preset.
    configure: String,
}

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = directory.first_file(&["CMakeLists.txt"])?;
    let presets = directory.text("CMakePresets.json").and_then(|text| Presets::read(&text));
    Some(Detected::new(Cmake { presets }, marker))
}

impl Presets {
    /// Reads the visible presets. Returns `None` if there is no visible configure preset.
    fn read(text: &str) -> Option<Self> {
        let file: Value = serde_json::from_str(text).ok()?;
        let list = |key: &str| file.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let all = list("configurePresets");
        let configure = all.iter().filter(|preset| is_visible(preset)).filter_map(|preset| {
            let name = text_of(preset, "name")?.to_owned();
            let directory = inherited_directory(&all, preset, 0).unwrap_or("${sourceDir}/build");
            let directory = directory
                .replace("${sourceDir}/", "")
                .replace("${sourceDir}", ".")
                .replace("${presetName}", &name);
            Some(Configure { name, directory })
        });
        let configure: Vec<Configure> = configure.collect();
        let steps = |key: &str| {
            let step = |preset: &Value| {
                let (name, configure) = (text_of(preset, "name")?, text_of(preset, "configurePreset")?);
                Some(Step { name: name.to_owned(), configure: configure.to_owned() })
            };
            list(key).iter().filter(|preset| is_visible(preset)).filter_map(step).collect()
        };
        let presets = Self { build: steps("buildPresets"), test: steps("testPresets"), configure };
        (!presets.configure.is_empty()).then_some(presets)
    }

    /// Returns the only preset, or the one named `default`.
    fn chosen(&self) -> Result<&Configure, Refusal> {
        if let [only] = self.configure.as_slice() {
            return Ok(only);
        }
        self.configure.iter().find(|preset| preset.name == "default").ok_or_else(|| {
            let names: Vec<&str> = self.configure.iter().map(|preset| preset.name.as_str()).collect();
            Refusal::Option(format!(
                "CMakePresets.json has several configure presets and none is named default: {}; \
                 give the whole command as `command`, e.g. cmake --workflow --preset {}",
                names.join(", "),
                names.first().copied().unwrap_or_default()
            ))
        })
    }
}

fn is_visible(preset: &Value) -> bool {
    preset.get("hidden").and_then(Value::as_bool) != Some(true)
}

fn text_of<'a>(preset: &'a Value, key: &str) -> Option<&'a str> {
    preset.get(key).and_then(Value::as_str)
}

/// Returns the `binaryDir` of a preset, or of the first preset from which it inherits one. The
/// depth limit ends cycles.
fn inherited_directory<'a>(all: &'a [Value], preset: &'a Value, depth: usize) -> Option<&'a str> {
    if let Some(directory) = text_of(preset, "binaryDir") {
        return Some(directory);
    }
    if depth > all.len() {
        return None;
    }
    let parents: Vec<&str> = match preset.get("inherits") {
        Some(Value::String(parent)) => vec![parent],
        Some(Value::Array(parents)) => parents.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    parents.into_iter().find_map(|name| {
        let parent = all.iter().find(|preset| text_of(preset, "name") == Some(name))?;
        inherited_directory(all, parent, depth + 1)
    })
}

/// The commands of the three steps, without the options of a call.
struct Steps {
    configure: String,
    build: String,
    test: String,
}

impl Cmake {
    fn steps(&self) -> Result<Steps, Refusal> {
        let Some(presets) = &self.presets else {
            return Ok(Steps {
                configure: "cmake -S . -B build".to_owned(),
                build: "cmake --build build".to_owned(),
                test: "ctest --test-dir build".to_owned(),
            });
        };
        let preset = presets.chosen()?;
        let step = |steps: &[Step], command: &str, directory: &str| {
            let found = steps.iter().find(|step| step.configure == preset.name);
            match found {
                Some(step) => format!("{command} --preset {}", quoted(&step.name)),
                None => format!("{command} {directory}{}", quoted(&preset.directory)),
            }
        };
        Ok(Steps {
            configure: format!("cmake --preset {}", quoted(&preset.name)),
            build: step(&presets.build, "cmake --build", ""),
            test: step(&presets.test, "ctest", "--test-dir "),
        })
    }
}

impl Tool for Cmake {
    fn test(&self, filter: Option<&str>, parallel: Parallel) -> Result<String, Refusal> {
        let steps = self.steps()?;
        let test = format!("{} --output-on-failure", steps.test);
        let filter = filter.map(filter::pattern);
        Ok(format!(
            "{} && {} --parallel {} && {}",
            steps.configure,
            steps.build,
            parallel.word(),
            with_filter(&test, "--tests-regex ", filter.as_deref())
        ))
    }

    fn build(&self, target: Option<&str>, release: bool, parallel: Parallel) -> Result<String, Refusal> {
        let steps = self.steps()?;
        let (configure, config) = match release {
            true => (" -DCMAKE_BUILD_TYPE=Release", " --config Release"),
            false => ("", ""),
        };
        let target = target.map(|target| format!(" --target {}", quoted(target))).unwrap_or_default();
        let word = parallel.word();
        Ok(format!("{}{configure} && {} --parallel {word}{config}{target}", steps.configure, steps.build))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cmake, Parallel, Presets, Refusal, Tool};

    fn cmake(presets: &str) -> Cmake {
        Cmake { presets: Presets::read(presets) }
    }

    #[test]
    fn one_preset_or_the_default_one_is_used() {
        let one = cmake(
            r#"{"configurePresets":[{"name":"base","hidden":true,"binaryDir":"${sourceDir}/out/${presetName}"},
            {"name":"dev","inherits":"base"}],"testPresets":[{"name":"quick","configurePreset":"dev"}]}"#,
        );
        assert_eq!(
            one.test(Some("adds"), Parallel(None)).unwrap(),
            "cmake --preset dev && cmake --build out/dev --parallel \"$(getconf _NPROCESSORS_ONLN)\" && \
             ctest --preset quick --output-on-failure --tests-regex adds"
        );
        let default = cmake(
            r#"{"configurePresets":[{"name":"a"},{"name":"default","inherits":["b"]},{"name":"b","inherits":"default"}]}"#,
        );
        let parallel = Parallel(std::num::NonZeroU32::new(4));
        assert_eq!(
            default.build(None, false, parallel).unwrap(),
            "cmake --preset default && cmake --build build --parallel 4"
        );
        let several = cmake(r#"{"configurePresets":[{"name":"a"},{"name":"b"}]}"#);
        let Err(Refusal::Option(reason)) = several.test(None, Parallel(None)) else { panic!("two presets") };
        assert!(reason.contains("a, b"), "{reason}");
        assert!(Presets::read(r#"{"configurePresets":[{"name":"a","hidden":true}]}"#).is_none());
    }
}
