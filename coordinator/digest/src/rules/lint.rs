//! Linters that have a shape of their own.

use super::{Act, ERROR, Kind, Level, Rule, Sign, WARNING, indented, problem};

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "eslint.row",
        pattern: r"^\s+(?P<l>\d+):(?P<c>\d+)\s+(?P<s>error|warning|info)\s+(?P<m>\S.*)$",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "rubocop.place",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CWEFRI]): (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85).follow(indented))],
    },
    Rule {
        name: "rubocop.total",
        pattern: r"^\d+ files? inspected, [1-9]\d* offenses? ",
        acts: &[Act::Sign(Sign::Failure("rubocop")), Act::Summary],
    },
    Rule {
        name: "ruff.found",
        pattern: r"^Found (?P<n>[1-9]\d*) errors?\.?(?: \(.*)?$",
        acts: &[Act::Sign(Sign::Failure("linter")), Act::Summary],
    },
    Rule {
        name: "ruff.passed",
        pattern: r"^(?:All checks passed!|Found 0 errors?\.?)$",
        acts: &[Act::Sign(Sign::Success("linter")), Act::Summary],
    },
    Rule {
        name: "pylint.code",
        pattern: r"^(?P<f>[^\s:]+):(?P<l>\d+):(?P<c>\d+): (?P<s>[CRWEF])\d{4}: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 85))],
    },
    Rule {
        name: "puppet_lint.on_line",
        pattern: r"^(?:(?P<f>\S+) - )?(?P<s>ERROR|WARNING): (?P<m>.*) on line (?P<l>\d+)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 88))],
    },
    Rule {
        name: "swiftlint",
        pattern: r"^(?P<f>/[^:]+):(?P<l>\d+)(?::(?P<c>\d+))?: (?P<s>error|warning): (?P<m>.* \([a-z_]+\))$",
        acts: &[Act::Problem(problem(Level::Word, Kind::Lint, 90))],
    },
    Rule {
        name: "lint.bracketed_place",
        pattern: r"^(?P<f>[^\s:\[\]]+\.\w+)\[(?P<l>\d+), ?(?P<c>\d+)\]: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Remark, Kind::Lint, 72))],
    },
    Rule {
        name: "lint.shellcheck",
        pattern: r"^In (?P<f>\S+) line (?P<l>\d+):$",
        acts: &[Act::Problem(problem(WARNING, Kind::Lint, 80).follow(super::paragraph))],
    },
    Rule {
        name: "lint.lintrunner",
        pattern: r"^>>> Lint for (?P<f>\S+):$",
        acts: &[
            Act::Problem(problem(ERROR, Kind::Lint, 88).follow(super::indented_or_blank)),
            Act::Sign(Sign::Failure("lintrunner")),
        ],
    },
    Rule {
        name: "modelsim",
        pattern: r"^(?:# )?\*\* (?P<s>Error|Warning|Fatal|Note)(?: \([^)]*\))?: (?P<m>.*)",
        acts: &[Act::Problem(problem(Level::Word, Kind::Build, 88).follow(indented))],
    },
];
