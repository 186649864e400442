//! Converts test filters from the form that a test runner prints to the form that its option
//! accepts.

use regex::Regex;

/// Returns the filter as a regular expression.
///
/// A name such as `adds (1 + 2)` is a valid expression that does not match itself. Such a filter is
/// escaped, unless it has an anchor or an operator that is rare in names.
pub(super) fn pattern(filter: &str) -> String {
    let Ok(regex) = Regex::new(filter) else { return regex::escape(filter) };
    let has_operator = filter.starts_with('^')
        || filter.ends_with('$')
        || ["|", ".*", ".+", "\\"].iter().any(|operator| filter.contains(operator));
    if has_operator || regex.is_match(filter) { filter.to_owned() } else { regex::escape(filter) }
}

/// Extensions of JavaScript's test files.
pub(super) const SCRIPTS: [&str; 8] = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"];

/// Extensions of test files for the JVM.
pub(super) const JVM: [&str; 4] = [".java", ".kt", ".groovy", ".scala"];

/// Separators between a file, its suites and a test in the names that runners print.
const SEPARATORS: [&str; 3] = [" › ", " > ", "::"];

/// Splits a filter into a file with one of these extensions and the name of a test in it. Each part
/// can be absent: `a.test.ts`, `a.test.ts > suite > test`, `suite > test`.
pub(super) fn file_and_name<'a>(filter: &'a str, extensions: &[&str]) -> (Option<&'a str>, Option<&'a str>) {
    let ends = SEPARATORS.iter().filter_map(|separator| Some((filter.find(separator)?, separator.len())));
    let (end, length) = ends.min().unwrap_or((filter.len(), 0));
    let file = filter[..end].trim();
    // The name of a suite may end like a file: `reads a.ts > fails`.
    let is_sentence = file.contains(' ') && !file.contains('/');
    if is_sentence
        || !extensions.iter().any(|extension| file.len() > extension.len() && file.ends_with(extension))
    {
        return (None, Some(filter));
    }
    (Some(file), Some(filter[end + length..].trim()).filter(|name| !name.is_empty()))
}

/// Returns the name of a file without directory and extension, if the filter is a file with one of
/// these extensions. Most languages name a file after its class.
pub(super) fn class_of_file<'a>(filter: &'a str, extensions: &[&str]) -> Option<&'a str> {
    let (Some(file), None) = file_and_name(filter, extensions) else { return None };
    let name = file.rsplit('/').next()?;
    name.split_once('.').map(|(stem, _)| stem)
}

/// Joins the parts of a name by single spaces, if the runner prints it with separators
/// (`suite › test`, `suite > test`). JavaScript runners match their name option against that form.
pub(super) fn spaced(name: &str) -> String {
    parts(name).join(" ")
}

/// Returns the last part of a name: the test without its suites.
pub(super) fn own_name(name: &str) -> &str {
    parts(name).last().copied().unwrap_or(name)
}

fn parts(name: &str) -> Vec<&str> {
    name.split(" › ").flat_map(|part| part.split(" > ")).map(str::trim).collect()
}

/// Returns the class and the method of a test name in the form of JVM tools: `a.b.Class.method`,
/// `Class#method`, `Class > method()`. Returns `None` for other forms, such as a class alone or a
/// glob.
pub(super) fn class_and_method(filter: &str) -> Option<(&str, &str)> {
    let name = filter.strip_suffix("()").unwrap_or(filter);
    let (class, method) =
        name.split_once(" > ").or_else(|| name.split_once('#')).or_else(|| name.rsplit_once('.'))?;
    let last = class.rsplit('.').next().unwrap_or(class);
    let is_class = last.starts_with(char::is_uppercase);
    let is_method = method.starts_with(char::is_lowercase) && !method.contains(['*', '.']);
    (is_class && is_method).then_some((class, method))
}

/// Returns `Module/Class/method` for a test in the form of XCTest: `-[Module.Class method]`.
pub(super) fn from_objective_c(filter: &str) -> Option<String> {
    let (class, method) = filter.strip_prefix("-[")?.strip_suffix(']')?.split_once(' ')?;
    Some(format!("{}/{method}", class.replacen('.', "/", 1)))
}

#[cfg(test)]
mod tests {
    use super::{
        SCRIPTS, class_and_method, class_of_file, file_and_name, from_objective_c, own_name, pattern, spaced,
    };

    #[test]
    fn a_filter_that_does_not_match_itself_is_taken_literally() {
        for (filter, expected) in [
            ("adds", "adds"),
            ("a|b", "a|b"),
            ("^TestOne$", "^TestOne$"),
            ("Test(A|B)", "Test(A|B)"),
            ("Test.*", "Test.*"),
            ("adds (1 + 2)", r"adds \(1 \+ 2\)"),
            ("item[0]", r"item\[0\]"),
            ("broken(", r"broken\("),
        ] {
            assert_eq!(pattern(filter), expected, "{filter}");
        }
    }

    #[test]
    fn a_file_is_separated_from_the_name_of_a_test() {
        for (filter, file, name) in [
            ("src/a.test.ts > math > adds", Some("src/a.test.ts"), Some("math > adds")),
            ("a.test.ts", Some("a.test.ts"), None),
            ("a.test.ts › adds", Some("a.test.ts"), Some("adds")),
            ("tests/a.ts::adds > b", Some("tests/a.ts"), Some("adds > b")),
            ("reads a.ts > b", None, Some("reads a.ts > b")),
            ("math > a.ts", None, Some("math > a.ts")),
            (".ts", None, Some(".ts")),
        ] {
            assert_eq!(file_and_name(filter, &SCRIPTS), (file, name), "{filter}");
        }
        assert_eq!(class_of_file("src/test/java/a/BarTest.java", &[".java"]), Some("BarTest"));
        assert_eq!(class_of_file("BarTest", &[".java"]), None);
    }

    #[test]
    fn printed_names_become_names_that_options_accept() {
        assert_eq!(spaced("math › adds › two"), "math adds two");
        assert_eq!(spaced("math > adds"), "math adds");
        assert_eq!(spaced("a>b"), "a>b");
        assert_eq!(own_name("math › adds > two"), "two");
        assert_eq!(class_and_method("com.a.BarTest.adds"), Some(("com.a.BarTest", "adds")));
        assert_eq!(class_and_method("BarTest > adds()"), Some(("BarTest", "adds")));
        assert_eq!(class_and_method("BarTest#adds"), Some(("BarTest", "adds")));
        for other in ["BarTest", "com.a.BarTest", "Bar*", "com.a.*", "BarTest#a*"] {
            assert_eq!(class_and_method(other), None, "{other}");
        }
        assert_eq!(from_objective_c("-[AppTests.Login testA]").as_deref(), Some("AppTests/Login/testA"));
        assert_eq!(from_objective_c("AppTests/Login"), None);
    }
}
