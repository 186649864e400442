//! Runs the simulation manually: `simulate --seed N [--trace]`, `simulate --seeds A..B`.

use buildpool_tests::sim::{Counts, Options, run, run_and_explain};
use std::ops::Range;
use std::process::ExitCode;

const USAGE: &str = "usage: simulate (--seed N | --seeds A..B) [--trace] [--calm] [--jobs N] [--crash-at BOUNDARY] [--coordinators N]";

struct Arguments {
    seeds: Range<u64>,
    options: Options,
}

#[expect(clippy::print_stdout, reason = "this is a program for a person")]
fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut total = Counts::default();
    let mut failed = 0;
    for seed in arguments.seeds.clone() {
        let options = Options { seed, ..arguments.options.clone() };
        if options.traces
            && let Err(failure) = run(&options)
        {
            println!("{}", failure.trace.join("\n"));
        }
        match run_and_explain(&options) {
            Ok(counts) => total.add(&counts),
            Err(report) => {
                failed += 1;
                println!("seed {seed} FAILED\n{report}\n");
            }
        }
    }
    println!("{} seeds, {failed} failed; {total:?}", arguments.seeds.end - arguments.seeds.start);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut seeds = None;
    let mut options = Options::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => {
                let seed: u64 = words.next()?.parse().ok()?;
                seeds = Some(seed..seed + 1);
            }
            "--seeds" => {
                let (from, to) = words.next()?.split_once("..").map(|(a, b)| (a.to_owned(), b.to_owned()))?;
                seeds = Some(from.parse().ok()?..to.parse().ok()?);
            }
            "--trace" => options.traces = true,
            "--calm" => options.is_calm = true,
            "--jobs" => options.jobs = Some(words.next()?.parse().ok()?),
            "--coordinators" => options.coordinators = words.next()?.parse().ok()?,
            "--crash-at" => options.crash_at = Some(words.next()?.parse().ok()?),
            _ => return None,
        }
    }
    seeds.map(|seeds| Arguments { seeds, options })
}
