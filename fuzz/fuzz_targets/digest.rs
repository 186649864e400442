//! Fuzzes the digest with any bytes as a log. It must not panic, chunking must not change the
//! answer, and no answer may exceed its budget.

#![no_main]

use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::Verbosity;
use libfuzzer_sys::fuzz_target;

/// Character limits of an answer, from SPEC's table.
const BUDGETS: [(Verbosity, usize); 3] =
    [(Verbosity::Minimal, 5_000), (Verbosity::Normal, 40_000), (Verbosity::Full, 200_000)];

fuzz_target!(|input: (u8, &[u8])| {
    let (piece_bytes, log) = input;
    let whole = answers(log, log.len().max(1));
    assert_eq!(whole, answers(log, usize::from(piece_bytes).max(1)));
    for (answer, (verbosity, most)) in whole.iter().zip(BUDGETS) {
        assert!(answer.chars().count() <= most, "{verbosity:?}: {} characters", answer.chars().count());
    }
});

fn answers(log: &[u8], piece_bytes: usize) -> [String; 3] {
    BUDGETS.map(|(verbosity, _)| {
        let mut digester = Digester::new(Options::default());
        for piece in log.chunks(piece_bytes) {
            digester.push(Stream::Stdout, piece);
        }
        let mut result = JobResult::default();
        digester.finish(&Facts::default()).render(verbosity, None, None, &mut result);
        text(&result)
    })
}
