//! Hostile peers for the soak test. Reads the target as a line of JSON, attacks until stdin ends,
//! and prints the number of attacks as JSON.

use buildpool_tests::hostile::{Target, attack};
use std::io::BufRead;
use std::process::ExitCode;

#[expect(clippy::print_stdout, reason = "the soak test reads it")]
fn main() -> ExitCode {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    let target = read.ok().and_then(|_| serde_json::from_str::<Target>(&line).ok());
    let Some(target) = target else {
        eprintln!("usage: hostile, with the target as one line of JSON on stdin");
        return ExitCode::from(2);
    };
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
    else {
        return ExitCode::FAILURE;
    };
    let attacks = runtime.block_on(attack(&target));
    println!("{}", serde_json::json!(attacks));
    // Reads of stdin block a thread of the runtime for ever.
    runtime.shutdown_background();
    ExitCode::SUCCESS
}
