//! Compilers and runtimes of languages that have no table of their own: Elixir, Dart, Haskell, .NET, PHP, Perl, Lua, R,
//! Clojure, Ruby's exceptions, LaTeX, Terraform.

use super::{
    Act, Draft, ERROR, FATAL, Kind, Level, Next, Rule, Sign, indented, indented_or_blank, one_more, problem,
    set_place,
};
use crate::tool::ToolId;

/// A stack in the words of .NET, Elixir or Lua: indented lines, its heading included.
fn stack(so_far: &[String], line: &str) -> Next {
    if line.starts_with("stack traceback:") { Next::Part } else { indented(so_far, line) }
}

/// Up to the blank line that ends the report of one test.
fn report(so_far: &[String], line: &str) -> Next {
    let other = ["  Passed ", "  Skipped ", "  Failed "].iter().any(|start| line.starts_with(start));
    if other || line.trim().is_empty() || so_far.len() > 40 { Next::Beyond } else { Next::Part }
}

/// Lines of a box with a drawn left side.
fn in_box(_: &[String], line: &str) -> Next {
    if line.starts_with('│') { Next::Part } else { Next::Beyond }
}

fn php_lines(so_far: &[String], line: &str) -> Next {
    let frame = line.starts_with('#') || line.starts_with("Stack trace:") || line.starts_with("  thrown in");
    if frame && so_far.len() < 40 { Next::Part } else { Next::Beyond }
}

/// TeX prints the position on a line `l.12 …`, and the unread rest on the next one.
fn tex_lines(so_far: &[String], line: &str) -> Next {
    let last = so_far.last().is_some_and(|line| line.starts_with("l."));
    if last {
        Next::Last
    } else if line.trim().is_empty() || so_far.len() > 8 {
        Next::Beyond
    } else {
        Next::Part
    }
}

/// `in F:line N` of .NET, `in F on line N` and `in F:N` of PHP.
fn after_in(draft: &mut Draft) {
    for line in &draft.lines {
        let Some((_, place)) = line.rsplit_once(" in ") else { continue };
        let place = place.replace(" on line ", ":").replace(":line ", ":");
        if let Some(found) = super::place(&place) {
            (draft.file, draft.line, draft.column) = found;
            return;
        }
    }
}

/// The place of a PHP error. The first frame outside of `vendor` replaces a place inside a dependency.
fn php_place(draft: &mut Draft) {
    after_in(draft);
    let is_foreign = |file: &str| file.contains("/vendor/") || file.starts_with("vendor/");
    if !draft.file.as_deref().is_some_and(is_foreign) {
        return;
    }
    let frames = draft.lines.iter().filter_map(|line| {
        let (place, _) = line.strip_prefix('#')?.split_once(' ')?.1.split_once("): ")?;
        let (file, row) = place.rsplit_once('(')?;
        Some((file.to_owned(), row.parse::<u32>().ok()?))
    });
    if let Some((file, row)) = frames.into_iter().find(|(file, _)| !is_foreign(file)) {
        (draft.file, draft.line, draft.column) = (Some(file), Some(row), None);
    }
}

/// `on main.tf line 12`.
fn on_line(draft: &mut Draft) {
    for line in &draft.lines {
        if let Some((_, place)) = line.split_once("  on ")
            && let Some((file, rest)) = place.split_once(" line ")
        {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            draft.file = Some(file.to_owned());
            draft.line = digits.parse().ok();
            return;
        }
    }
}

/// The first frame of the program's own: `(app 0.1.0) lib/app.ex:12: App.load/0`.
fn elixir_frame(draft: &mut Draft) {
    let places: Vec<String> = draft
        .lines
        .iter()
        .skip(1)
        .flat_map(|line| line.split_whitespace())
        .filter(|word| word.contains(".ex"))
        .map(str::to_owned)
        .collect();
    let _found = places.iter().any(|place| set_place(draft, place));
}

fn names_a_program(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(program, _)| !program.is_empty() && !program.contains(' '))
}

/// The first frame in the project: not in Ruby's own library, and not in a gem.
fn ruby_frame(draft: &mut Draft) {
    let is_foreign =
        |file: &str| file.contains("/lib/ruby/") || file.contains("/gems/") || file.starts_with("<internal:");
    if !draft.file.as_deref().is_some_and(is_foreign) {
        return;
    }
    let frames = draft.lines.iter().filter_map(|line| line.trim_start().strip_prefix("from "));
    let own = frames.filter_map(|frame| {
        let (place, _) = frame.split_once(":in ")?;
        let (file, row) = place.rsplit_once(':')?;
        (!is_foreign(file)).then(|| Some((file.to_owned(), row.parse().ok()?))).flatten()
    });
    if let Some((file, row)) = own.into_iter().next() {
        (draft.file, draft.line, draft.column) = (Some(file), Some(row), None);
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "elixir.logged",
        pattern: r"^\s{0,5}\*\* \(CompileError\) .*\(errors have been logged\)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Consequence, 60)), Act::Alone],
    },
    Rule {
        name: "elixir.exception",
        pattern: r"^\s{0,5}\*\* \([A-Z][\w. #<>]*\) (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 88).follow(stack).refine(elixir_frame))],
    },
    Rule {
        name: "dart.issue",
        pattern: r"^\s*(?P<s>error|warning|info) (?:\xe2\x80\xa2|-) (?:(?P<m>.*?) (?:\xe2\x80\xa2|-) )?(?P<f>[^\s:]+\.dart):(?P<l>\d+):(?P<c>\d+) (?:\xe2\x80\xa2|-) ",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule { name: "dart.found", pattern: r"^[1-9]\d* issues? found\.", acts: &[Act::Summary] },
    Rule {
        name: "dart.good",
        pattern: r"^No issues found!",
        acts: &[Act::Sign(Sign::Success(ToolId::Dart)), Act::Summary],
    },
    Rule {
        name: "verilator",
        pattern: r"^%(?P<s>Error|Warning)(?:-\w+)?: (?P<f>[^\s:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 92).follow(indented))],
    },
    Rule {
        name: "haskell.exception",
        pattern: r"^CallStack \(from HasCallStack\):$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 82).follow(indented).lead(names_a_program))],
    },
    Rule {
        name: "dotnet.exception",
        pattern: r"^Unhandled [Ee]xception[.:] (?P<m>.*)",
        acts: &[Act::Problem(problem(FATAL, Kind::Runtime, 93).follow(stack).refine(after_in))],
    },
    Rule {
        name: "dotnet.failed",
        pattern: r"^\s+Failed (?P<t>\S.*) \[[<\d.,]+ ?m?s\]$",
        acts: &[Act::Problem(problem(ERROR, Kind::Test, 93).follow(report).owning().refine(after_in))],
    },
    Rule {
        name: "dotnet.build",
        pattern: r"^Build (?:FAILED\.?|failed(?: with \d+ (?:error|warning).*| in [\d.]+.*|[.!])?)$",
        acts: &[Act::Sign(Sign::Failure(ToolId::Build)), Act::Summary],
    },
    Rule {
        name: "dotnet.built",
        pattern: r"^Build succeeded\.$",
        acts: &[Act::Sign(Sign::Success(ToolId::Dotnet)), Act::Summary],
    },
    Rule {
        name: "php.error",
        pattern: r"^PHP (?P<s>(?:Parse|Fatal|Recoverable fatal) error|Warning|Deprecated|Notice): +(?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Runtime, 90).follow(php_lines).refine(php_place))],
    },
    Rule {
        name: "perl.died",
        pattern: r"^(?P<m>\S.*) at (?P<f>\S+\.(?:pl|pm|t|PL)) line (?P<l>\d+)(?:\.|, (?:near|at|<).*)$",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 65))],
    },
    Rule {
        name: "lua.error",
        pattern: r"^(?:lua[\w.]*|luajit\S*): (?P<f>[^\s:]+):(?P<l>\d+): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 90).follow(stack).owning())],
    },
    Rule {
        name: "r.error",
        pattern: r"^Error in (?P<m>\S.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 78).follow(indented))],
    },
    Rule {
        name: "r.halted",
        pattern: r"^Execution halted$",
        acts: &[Act::Sign(Sign::Failure(ToolId::R)), Act::Summary],
    },
    Rule {
        name: "clojure.error",
        pattern: r"^(?:Syntax|Execution) error .*\((?P<f>[^\s():]+):(?P<l>\d+)(?::(?P<c>\d+))?\)\.$",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92).follow(one_more))],
    },
    Rule {
        name: "ruby.syntax",
        pattern: r"^(?:ruby: )?(?P<f>[^\s:]+\.\w+):(?P<l>\d+): syntax errors?\b(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 90))],
    },
    Rule {
        name: "ruby.exception",
        pattern: r"^(?P<f>[^\s:]+\.\w+):(?P<l>\d+):in [`'][^']*': (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Runtime, 90).follow(indented).refine(ruby_frame))],
    },
    Rule {
        name: "tex.error",
        pattern: r"^! (?P<m>(?:[A-Z]| ==> ).*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 84).follow(tex_lines))],
    },
    Rule {
        name: "terraform.error",
        pattern: r"^\xe2\x94\x82 (?P<s>Error|Warning): (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 92).follow(in_box).owning().refine(on_line))],
    },
    Rule {
        name: "terraform.good",
        pattern: r"^(?:Success! The configuration is valid|Apply complete!|No changes\. )",
        acts: &[Act::Sign(Sign::Success(ToolId::Terraform)), Act::Summary],
    },
    Rule {
        name: "make.syntax",
        pattern: r"^(?P<f>[^\s:]*[Mm]akefile[^\s:]*|[^\s:]+\.mk):(?P<l>\d+): \*\*\* (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 92)), Act::Sign(Sign::Failure(ToolId::Make))],
    },
    Rule {
        name: "bazel.error",
        pattern: r"^ERROR: (?P<f>/[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 84))],
    },
    Rule {
        name: "bazel.bad",
        pattern: r"^(?:INFO|ERROR|FAILED): Build did NOT complete successfully",
        acts: &[Act::Sign(Sign::Failure(ToolId::Bazel)), Act::Summary, Act::Harmless],
    },
    Rule {
        name: "bazel.good",
        pattern: r"^INFO: Build completed successfully",
        acts: &[Act::Sign(Sign::Success(ToolId::Bazel)), Act::Summary],
    },
    Rule {
        name: "packages.unsolved",
        pattern: r"^(?:Because .*(?:version solving failed|requirements are unsatisfiable)|Could not find (?:gem|compatible versions) |Your requirements could not be resolved|E: [A-Z])(?P<m>.*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 88).follow(indented_or_blank))],
    },
    Rule {
        name: "packages.bang",
        pattern: r"^\[!\] (?P<m>[A-Z].*)",
        acts: &[Act::Problem(problem(ERROR, Kind::Build, 80).follow(indented))],
    },
];
