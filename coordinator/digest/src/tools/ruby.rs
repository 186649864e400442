//! Output of Ruby.

use super::compiler::DIED;
use crate::rules::{Diagnostic, ERROR, Effect, Fails, Indicator, Kind, Next, Rule, problem};
use crate::tool::Tool;

pub(super) const TOOL: Tool = Tool { rules: RULES, ..Tool::named("Ruby") };

/// The first frame in the project: not in Ruby's own library, and not in a gem.
fn ruby_frame(diagnostic: &mut Diagnostic) {
    let is_foreign =
        |file: &str| file.contains("/lib/ruby/") || file.contains("/gems/") || file.starts_with("<internal:");
    if !diagnostic.file.as_deref().is_some_and(is_foreign) {
        return;
    }
    let frames = diagnostic.lines.iter().filter_map(|line| line.trim_start().strip_prefix("from "));
    let own = frames.filter_map(|frame| {
        let (place, _) = frame.split_once(":in ")?;
        let (file, row) = place.rsplit_once(':')?;
        (!is_foreign(file)).then(|| Some((file.to_owned(), row.parse().ok()?))).flatten()
    });
    if let Some((file, row)) = own.into_iter().next() {
        (diagnostic.file, diagnostic.line, diagnostic.column) = (Some(file), Some(row), None);
    }
}

fn is_of_main(diagnostic: &Diagnostic) -> bool {
    diagnostic.lines.iter().any(|line| line.contains("<main>") || line.contains("<top (required)>"))
}

/// The excerpt below the message, and the frames.
fn ruby_lines(so_far: &[String], line: &str) -> Next {
    let text = line.trim_start();
    if so_far.len() > 40 {
        Next::Beyond
    } else if line.starts_with(['\t', ' ']) && !text.is_empty() {
        Next::Part
    } else if so_far.len() < 4 {
        Next::Maybe
    } else {
        Next::Beyond
    }
}

/// The lines of a task's exception, up to its name.
fn aborted(so_far: &[String], line: &str) -> Next {
    if line.starts_with("Tasks: TOP") || so_far.len() > 40 {
        Next::Last
    } else if line.trim().is_empty() {
        Next::Maybe
    } else {
        Next::Part
    }
}

/// The message is the first line, or the one below the heading of a migration. The place is the first frame of the project.
fn raised(diagnostic: &mut Diagnostic) {
    let is_heading =
        |line: &String| line.trim().is_empty() || line.starts_with("StandardError: An error has occurred");
    diagnostic.head = diagnostic.lines.iter().skip(1).position(|line| !is_heading(line)).map(|at| at + 1);
    let frames = diagnostic.lines.iter().filter(|line| line.contains(":in ")).cloned().collect::<Vec<_>>();
    for frame in frames {
        let is_foreign = frame.contains("/gems/") || frame.contains("/lib/ruby/");
        let place = frame.split(":in ").next().unwrap_or_default();
        if !is_foreign && crate::rules::set_place(diagnostic, place) {
            return;
        }
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "ruby.bug",
        pattern: concat!(
            r"^(?:[A-Z][\w:]*#\w+ = )?(?:[^\s:]+:\d+: )?\[BUG\] (?:(?P<sig>",
            words!(),
            r")\b)?"
        ),
        effects: &[Effect::Problem(DIED), Effect::Crash(Indicator::Died(""))],
    },
    Rule {
        name: "ruby.syntax",
        pattern: r"^(?:ruby: )?(?P<f>[^\s:]+\.\w+):(?P<l>\d+): syntax errors?\b(?P<m>.*)",
        effects: &[Effect::Problem(problem(ERROR, Kind::Build, 90))],
    },
    Rule {
        name: "ruby.rake",
        pattern: r"^(?:(?:bin/)?(?:rake|rails)) aborted!$",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 92).follow(aborted).refine(raised).owning().fails(Fails::Always),
        )],
    },
    Rule {
        name: "ruby.bundler",
        pattern: r"^(?:bundler: (?:command not found|failed to load command): |Could not (?:fetch specs from|find gem|find \S+ in (?:locally|any)|locate Gemfile|reach host)|Bundler could not find compatible versions)\b?(?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Build, 88).follow(crate::rules::one_more).fails(Fails::Always),
        )],
    },
    Rule {
        name: "ruby.exception",
        pattern: r"^(?P<f>[^\s:]+\.\w+|-e|<internal:[^>]+>):(?P<l>\d+):in [`'][^']*': (?P<m>.*)",
        effects: &[Effect::Problem(
            problem(ERROR, Kind::Runtime, 90).follow(ruby_lines).refine(ruby_frame).ended(is_of_main),
        )],
    },
];
