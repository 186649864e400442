//! Checks that comments, pages and messages stay in plain English.
//!
//! Some words stand in for the name of a thing ("what it is told") and make technical prose hard to read.
//! This test counts them for each crate and for the pages, and fails above a limit.

use buildpool_tests::source_files;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Words that often hide the subject of a sentence. A correct "what" is fine, so the limits are not zero.
const HARD: [&str; 34] = [
    "what", "whatever", "who", "whoever", "whom", "whose", "nobody", "none", "somebody", "anybody", "told",
    "tell", "tells", "telling", "said", "say", "says", "saying", "hear", "hears", "heard", "speak", "speaks",
    "spoken", "knows", "asked", "asks", "wants", "amiss", "beside", "likewise", "thereof", "whereof",
    "wherein",
];
/// Hard words allowed in 1,000 words of comments, of pages, and of text in string literals.
const LIMITS: [(Kind, u32); 3] = [(Kind::Comment, 5), (Kind::Page, 5), (Kind::Text, 3)];
/// Crates above these limits, with the figure that they must not exceed. Lower it after each improvement.
const ABOVE: [(&str, Kind, u32); 1] = [("coordinator/digest", Kind::Text, 5)];
/// Fewer words than this give no stable figure.
const WORDS_MIN: u32 = 500;
/// Shorter literals are names and fragments, not prose.
const LITERAL_MIN: usize = 12;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Comment,
    Page,
    Text,
}

#[derive(Default, Debug)]
struct Count {
    words: u32,
    hard: u32,
    worst: Vec<String>,
}

#[test]
fn comments_pages_and_messages_are_plain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut counts: BTreeMap<(String, Kind), Count> = BTreeMap::new();
    // The words of this test are data.
    for file in source_files(&root).into_iter().filter(|file| !file.ends_with("prose.rs")) {
        let text = fs::read_to_string(root.join(&file)).unwrap();
        for (line, kind, prose) in pieces(&file, &text) {
            let count = counts.entry((area(&file), kind)).or_default();
            count.add(&prose, || format!("{}:{line}: {}", file.display(), prose.trim()));
        }
    }
    let mut failures = Vec::new();
    for ((area, kind), count) in &counts {
        let above = ABOVE.iter().find(|(of, known, _)| of == area && known == kind).map(|above| above.2);
        let limit = above.unwrap_or_else(|| LIMITS.iter().find(|(of, _)| of == kind).unwrap().1);
        if count.words >= WORDS_MIN && count.hard * 1000 > limit * count.words {
            let figure = f64::from(count.hard) * 1000.0 / f64::from(count.words);
            let lines = count.worst.iter().take(20).map(|line| format!("\n    {line}"));
            failures.push(format!(
                "{area}, {kind:?}: {figure:.1} hard words in 1,000; at most {limit}.{}",
                lines.collect::<String>()
            ));
        }
    }
    assert!(counts.len() > 10, "the files of the project were found: {counts:?}");
    assert!(
        failures.is_empty(),
        "name the thing instead of using words like \"what\" or \"told\":\n{}",
        failures.join("\n")
    );
}

#[test]
fn hard_words_are_counted_in_prose_only() {
    let rust = "/// Says what it is told.\nlet what = \"nobody knows what is asked here\"; // what\nlet x = \"what\";\n";
    let found: Vec<_> = pieces(Path::new("a.rs"), rust).collect();
    assert_eq!(
        found,
        [
            (1, Kind::Comment, "Says what it is told.".to_owned()),
            (2, Kind::Text, "nobody knows what is asked here".to_owned()),
        ]
    );
    let page = "What `what` is.\n```\nwhat\n```\nwho\n";
    let found: Vec<_> = pieces(Path::new("a.md"), page).collect();
    assert_eq!(found, [(1, Kind::Page, "What  is.".to_owned()), (5, Kind::Page, "who".to_owned())]);
    let mut count = Count::default();
    count.add("Says what it is told.", String::new);
    assert_eq!((count.words, count.hard), (5, 3));
}

impl Count {
    fn add(&mut self, prose: &str, place: impl Fn() -> String) {
        let lower = prose.to_lowercase();
        let words =
            lower.split(|c: char| !c.is_ascii_lowercase() && c != '\'').filter(|word| !word.is_empty());
        let mut hard = 0;
        for word in words {
            self.words += 1;
            hard += u32::from(HARD.contains(&word));
        }
        self.hard += hard;
        if hard > 0 {
            self.worst.push(place());
        }
    }
}

/// The crate of a Rust file, and `pages` for Markdown.
fn area(file: &Path) -> String {
    if file.extension().is_some_and(|extension| extension == "md") {
        return "pages".to_owned();
    }
    let nested =
        ["coordinator/pool", "coordinator/digest", "worker/evidence", "protocol/objects", "protocol/trust"];
    let of_nested = nested.into_iter().find(|place| file.starts_with(place));
    of_nested
        .map_or_else(|| file.iter().next().expect("a path").to_string_lossy().into_owned(), str::to_owned)
}

/// Line number, kind and text of each piece of prose in a file.
fn pieces<'a>(file: &Path, text: &'a str) -> impl Iterator<Item = (usize, Kind, String)> + 'a {
    let page = file.extension().is_some_and(|extension| extension == "md");
    let mut fenced = false;
    text.lines().enumerate().flat_map(move |(number, line)| {
        let found = if page {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            if fence || fenced { Vec::new() } else { vec![(Kind::Page, without_code(line))] }
        } else if let Some(comment) = line.trim_start().strip_prefix("//") {
            let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment);
            vec![(Kind::Comment, without_code(comment.strip_prefix(' ').unwrap_or(comment)))]
        } else {
            literals(line).into_iter().map(|literal| (Kind::Text, literal)).collect()
        };
        found.into_iter().map(move |(kind, prose)| (number + 1, kind, prose))
    })
}

/// A line without the parts between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// A format string without the names of its arguments.
fn without_placeholders(literal: &str) -> String {
    let parts = literal.split('{').enumerate();
    let texts = parts.map(|(number, part)| match part.split_once('}') {
        Some((_, text)) if number > 0 => text,
        _ => part,
    });
    texts.collect()
}

/// String literals of a line of Rust that read as prose.
fn literals(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once('"') {
        let mut escaped = false;
        let end = after.find(|c| {
            let closes = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            closes
        });
        let Some(end) = end else { break };
        let literal = &after[..end];
        let spaces = literal.matches(' ').count();
        let pattern = ["(?", "\\d", "\\s", "\\S", "\\w", "SELECT", "INSERT", "UPDATE", "DELETE "];
        let prose = literal.len() >= LITERAL_MIN
            && spaces >= 3
            && !literal.starts_with([',', '.', ':', ';', ')'])
            && !pattern.iter().any(|part| literal.contains(part));
        if prose {
            found.push(without_placeholders(literal));
        }
        rest = &after[end + 1..];
    }
    found
}
