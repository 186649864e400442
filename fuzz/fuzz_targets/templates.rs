//! Fuzzes template files, each applied to a log. It must not panic, and errors must contain the
//! problem.

#![no_main]

use buildpool_digest::templates;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8])| {
    let (file, log) = input;
    let loaded = templates::parse("templates.yaml", file);
    for template in &loaded.templates {
        for passed in [true, false] {
            let _shown = templates::apply(template, passed, log);
        }
    }
    for error in templates::check_examples("templates.yaml", &loaded) {
        assert!(!error.to_string().is_empty());
    }
});
