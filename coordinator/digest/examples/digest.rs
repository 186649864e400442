//! Digests a log from standard input: `cargo run -p buildpool-digest --example digest -- --exit-code 1 < LOG`.
#![expect(clippy::print_stdout, reason = "it is a program whose output is the digest")]

use buildpool_digest::{Digester, Facts, Options, text};
use buildpool_protocol::outcome::Ending;
use buildpool_protocol::output::Stream;
use buildpool_protocol::report::JobResult;
use buildpool_protocol::spec::{Purpose, Verbosity};
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut facts = Facts::log_only();
    let mut verbosity = Verbosity::Minimal;
    let (mut json, mut explain) = (false, false);
    let mut options = Options { purpose: Purpose::Build, ..Options::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--exit-code" => facts.ending = Some(Ending::Exited { code: value()?.parse()? }),
            "--signal" => {
                facts.ending = Some(Ending::Signaled { signal: 0, name: value()?, core_dump: false });
            }
            "--verbosity" => verbosity = value()?.parse()?,
            "--command" => options.command = value()?,
            "--root" => options.roots.push(value()?),
            "--without" => options.without_rules = Some(value()?),
            "--json" => json = true,
            "--explain" => explain = true,
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let mut digester = Digester::new(options);
    let mut buffer = vec![0; 64 << 10];
    let mut input = std::io::stdin().lock();
    loop {
        let length = input.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        digester.push(Stream::Stdout, &buffer[..length]);
    }
    let digest = digester.finish(&facts);
    let mut result = JobResult::default();
    if json {
        digest.render_json(verbosity, None, None, 0, &mut result);
    } else {
        digest.render(verbosity, None, None, &mut result);
    }
    if explain {
        println!("{}", digest.explain());
    } else if json {
        println!("{}", result.to_json());
    } else {
        print!("{}", text(&result));
    }
    Ok(())
}
