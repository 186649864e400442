use super::*;

/// Complete logs of tools, each with planted failures.
pub(crate) const TOOLS: &[Case] = &[
    Case {
        tool: "behave",
        log: include_str!("tools/behave.log"),
        facts: &[
            ("ASSERT FAILED: expected 7 but got 8", "features/steps/s.py", 8),
            ("KeyError: 'missing'", "features/steps/s.py", 7),
            ("undefined one", "features/a.feature", 18),
        ],
        tests: [1, 3, 0],
    },
    Case {
        tool: "Robot Framework, dotted",
        log: include_str!("tools/robot.log"),
        facts: &[("2 != 3", NOWHERE, 0), ("No keyword with name 'No Such Keyword' found.", NOWHERE, 0)],
        tests: [1, 2, 0],
    },
    Case {
        tool: "PHPUnit, data sets",
        log: include_str!("tools/phpunit.log"),
        facts: &[
            ("with data set \"one and two\" (1, 2, 4)", "pu/CalcTest.php", 5),
            ("RuntimeException: kaput", "pu/CalcTest.php", 8),
        ],
        tests: [3, 3, 0],
    },
    Case {
        tool: "busted",
        log: include_str!("tools/busted.log"),
        facts: &[
            ("calc subs", "calc_spec.lua", 3),
            ("calc raises", "calc_spec.lua", 4),
        ],
        tests: [1, 3, 1],
    },
    Case {
        tool: "Catch2",
        log: include_str!("tools/catch2.log"),
        facts: &[
            ("subtracts numbers", "t.cpp", 5),
            ("REQUIRE( x - 1 == 2 )", "t.cpp", 5),
            ("throws", "t.cpp", 6),
            ("due to unexpected exception with message:", "t.cpp", 6),
        ],
        tests: [1, 2, 0],
    },
    Case {
        tool: "vitest, TAP",
        log: include_str!("tools/vitest.log"),
        facts: &[("expected 1 to be 3", "/w/vi/a.test.js", 4), ("kaput", "/w/vi/a.test.js", 5)],
        tests: [1, 2, 1],
    },
    Case {
        tool: "eslint, JSON with metadata",
        log: include_str!("tools/eslint.log"),
        facts: &[("'b' is not defined.", "/w/es/a.js", 2)],
        tests: NO_TESTS,
    },
    Case {
        tool: "gcc, JSON",
        log: include_str!("tools/gcc.log"),
        facts: &[("‘y’ undeclared (first use in this function)", "a.c", 2)],
        tests: NO_TESTS,
    },
    Case {
        tool: "node --test, a syntax error",
        log: include_str!("tools/node_test.log"),
        facts: &[("SyntaxError: Unexpected token ';'", "/w/nt/a.test.js", 2)],
        tests: [1, 1, 0],
    },
    Case {
        tool: "PHP, an exception of a dependency",
        log: include_str!("tools/php.log"),
        facts: &[("not callable: nothing here", "/w/ph/src/app.php", 4)],
        tests: NO_TESTS,
    },
    Case {
        tool: "rspec",
        log: include_str!("tools/rspec.log"),
        facts: &[("expected: 7", "./a_spec.rb", 4)],
        tests: [4, 2, 0],
    },
    Case {
        tool: "rspec, list of failures",
        log: include_str!("tools/rspec_list.log"),
        facts: &[("muls", "./a_spec.rb", 4), ("has lists", "./a_spec.rb", 7)],
        tests: NO_TESTS,
    },
    Case {
        tool: "rspec, JSON",
        log: include_str!("tools/rspec_json.log"),
        facts: &[("expected: 7", "./a_spec.rb", 4), ("expected: [1, 2, 4]", "./a_spec.rb", 7)],
        tests: [4, 2, 0],
    },
    Case {
        tool: "ruby, a syntax error",
        log: include_str!("tools/ruby_syntax.log"),
        facts: &[("syntax error, unexpected end-of-input", "syn.rb", 1)],
        tests: NO_TESTS,
    },
];
