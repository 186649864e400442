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
const SCRIPTS: [&str; 8] = [".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts"];

/// Joins the parts of a name by single spaces, if the runner prints it with separators
/// (`suite › test`, `suite > test`). JavaScript runners match their name option against that form.
/// A file before the name (vitest: `a.test.ts > suite > test`) is not part of it.
pub(super) fn spaced(filter: &str) -> String {
    let mut parts: Vec<&str> =
        filter.split(" › ").flat_map(|part| part.split(" > ")).map(str::trim).collect();
    if parts.len() > 1 && SCRIPTS.iter().any(|extension| parts[0].ends_with(extension)) {
        parts.remove(0);
    }
    parts.join(" ")
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
    use super::{class_and_method, from_objective_c, pattern, spaced};

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
    fn printed_names_become_names_that_options_accept() {
        assert_eq!(spaced("math › adds › two"), "math adds two");
        assert_eq!(spaced("math > adds"), "math adds");
        assert_eq!(spaced("src/a.test.ts > math > adds"), "math adds");
        assert_eq!(spaced("a.test.ts"), "a.test.ts");
        assert_eq!(spaced("a>b"), "a>b");
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
