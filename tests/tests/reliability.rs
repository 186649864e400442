//! Checks the statements of `docs/reliability.md` about tests.

use std::path::Path;

#[test]
fn every_test_that_the_table_of_faults_names_is_there() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let text = std::fs::read_to_string(docs.join("reliability.md")).unwrap();
    let mut named = 0;
    for link in text.split("](").zip(text.split("](").skip(1)) {
        let (before, after) = link;
        let Some((path, _)) = after.split_once(')') else { continue };
        let Some(name) = before.rsplit('[').next().filter(|_| path.ends_with(".rs")) else { continue };
        let name = name.trim_matches('`');
        let file = docs.join(path);
        let code =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(code.contains(&format!("fn {name}(")), "{path} has no test `{name}`");
        named += 1;
    }
    assert!(named > 100, "{named} tests are named");
    for number in (1..=24).chain(26..=37).chain(40..=43) {
        assert!(text.contains(&format!("\n| {number} |")), "fault {number} is not in the table");
    }
}
