//! Checks that the values of secrets are on no disk, in any encoding.

use buildpool_tests::{Pool, wait_until};
use std::path::Path;

const SECRET: &str = "s3cret/Wort mit+Zeichen=?&";
/// Longer than a line of base64.
const LONG: &str = "Ein (langes) Wort, das keine Zeile fasst: 0123456789 abcdefghij klmnopqrstuvwxyz! ~*'/";

/// Calls `see` for each file below a directory, with its content.
fn each_file(directory: &Path, see: &mut impl FnMut(&Path, &[u8])) {
    // Files that disappear during the walk are ignored.
    for entry in std::fs::read_dir(directory).into_iter().flatten() {
        let Ok(path) = entry.map(|entry| entry.path()) else { continue };
        if path.is_symlink() {
        } else if path.is_dir() {
            each_file(&path, see);
        } else if let Ok(bytes) = std::fs::read(&path) {
            see(&path, &bytes);
        }
    }
}

/// Writes a text complete and truncated at every byte: plain, in base64 at each shift, and
/// percent-encoded. Then waits for the file that its argument names.
const WRITER: &str = r#"
import base64, os, subprocess, sys, time, urllib.parse
value = os.environ["WORD"].encode()
def cut(fd, text):
    for at in range(len(text) + 1):
        os.write(fd, b"<" + text[:at])
        time.sleep(0.002)
        os.write(fd, text[at:] + b">\n")
forms = [value, urllib.parse.quote(value).encode(), urllib.parse.quote(value, safe="").encode(),
         urllib.parse.quote_plus(value).encode()]
forms += [base64.b64encode(b"-" * shift + value) for shift in range(3)]
forms += [base64.urlsafe_b64encode(b"-" * shift + value + b"after") for shift in range(3)]
for form in forms:
    cut(1, form)
    cut(2, form)
long = os.environ["LONG"].encode()
lines = subprocess.run(["base64"], input=long, stdout=subprocess.PIPE, check=True).stdout
forms = [long, lines, lines.replace(b"\n", b"\r\n"), lines.replace(b"\n", b"\n    "),
         urllib.parse.quote(long, safe="!'()*~").encode(), urllib.parse.quote(long, safe=";,/?:@&=+$#!'()*~").encode()]
for form in forms:
    for at in range(0, len(form), 7):
        os.write(1, b"<" + form[:at])
        time.sleep(0.002)
        os.write(1, form[at:] + b">\n")
with open("kept", "w") as file:
    file.write("not the secret")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"#;

#[test]
fn a_secret_is_on_no_disk_of_the_pool_in_no_form_however_it_is_written() {
    let pool = Pool::start(1);
    let script = pool.place().file("writer.py");
    std::fs::write(&script, WRITER).unwrap();
    let looked = pool.place().file("looked");
    let mut command = pool.command(&[
        "run",
        "--no-snapshot",
        "--secret",
        "WORD",
        "--secret",
        "LONG",
        "--",
        "python3",
        script.to_str().unwrap(),
        looked.to_str().unwrap(),
    ]);
    let mut running =
        command.env("WORD", SECRET).env("LONG", LONG).stdout(std::process::Stdio::piped()).spawn().unwrap();
    // During the transfer as well as at the end.
    let mut looks = 0;
    let status = loop {
        no_trace(&pool);
        looks += 1;
        if looks == 2 {
            std::fs::write(&looked, "").unwrap();
        }
        if let Some(status) = running.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success() && looks > 1);
    no_trace(&pool);
    let listed = pool.buildpool(&["jobs", "--json"]).expect(0).json();
    let id = listed[0]["job_id"].as_str().unwrap();
    let logs = pool.buildpool(&["logs", id]).expect(0);
    for log in [&logs.stdout, &logs.stderr] {
        let text = String::from_utf8_lossy(log);
        assert!(text.lines().filter(|line| line.contains("***")).count() > 300, "{text}");
    }
    let shown = pool.buildpool(&["job", id, "--json", "--verbosity", "full"]).expect(0);
    assert!(shown.json()["stdout"].to_string().contains("***"), "{shown}");
    for form in forms() {
        for bytes in [&logs.stdout, &logs.stderr, &shown.stdout] {
            assert!(!contains(bytes, &form), "{}", String::from_utf8_lossy(&form));
        }
    }
}

/// The worker and the coordinator receive the text of a report only with masked secrets.
#[test]
fn a_secret_in_a_report_is_on_no_disk_and_in_no_answer() {
    let pool = Pool::start(1);
    let text = r#"printf '<testsuite name="s" tests="1" failures="1"><testcase classname="s" name="t"><failure message="got %s">at %s</failure></testcase></testsuite>' "$LONG" "$LONG" > r.xml; exit 1"#;
    let arguments = [
        "run",
        "--no-snapshot",
        "--secret",
        "LONG",
        "--report",
        "r.xml",
        "--output",
        "json",
        "--",
        "sh",
        "-c",
        text,
    ];
    let mut command = pool.command(&arguments);
    let asked = command.env("LONG", LONG).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let asked = asked.wait_with_output().unwrap();
    let result = String::from_utf8(asked.stdout).unwrap();
    assert!(result.contains("got ***"), "the report was read: {result}");
    for form in forms() {
        assert!(!contains(result.as_bytes(), &form), "{result}");
    }
    // The report is the job's own file and is removed with its directory.
    wait_until("the job's directory is gone", || {
        let mut is_there = false;
        each_file(&pool.place().home(), &mut |path, _| is_there |= path.ends_with("r.xml"));
        !is_there
    });
    no_trace(&pool);
}

/// Returns the encodings that must not be found. For base64, only digits that depend only on the
/// value.
fn forms() -> Vec<Vec<u8>> {
    let percent = |plus: bool, keep: &str| -> String {
        let one = |byte: u8| match byte {
            b' ' if plus => "+".to_owned(),
            b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                char::from(byte).to_string()
            }
            other if keep.as_bytes().contains(&other) => char::from(other).to_string(),
            other => format!("%{other:02X}"),
        };
        SECRET.bytes().map(one).collect()
    };
    let mut forms = vec![SECRET.into(), percent(false, "").into_bytes()];
    forms.extend([percent(false, "/").into_bytes(), percent(true, "").into_bytes()]);
    // Of the long value each part, because line breaks may separate the parts.
    let digits = base64(LONG.as_bytes());
    forms.extend(digits.chunks_exact(24).map(<[u8]>::to_vec));
    forms.push(LONG.into());
    forms.push(LONG.replace(' ', "%20").into());
    forms.push(b"0123456789%20abcdefghij%20klmnopqrstuvwxyz".to_vec());
    for shift in 0..3 {
        let digits = base64(&[&b"-".repeat(shift)[..], SECRET.as_bytes()].concat());
        // Without the digits that also depend on neighbouring bytes.
        let inner = &digits[(shift * 8).div_ceil(6)..digits.len() - 3];
        forms.push(inner.to_vec());
        forms.push(
            inner
                .iter()
                .map(|digit| match digit {
                    b'+' => b'-',
                    b'/' => b'_',
                    other => *other,
                })
                .collect(),
        );
    }
    forms
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = |at: usize| {
        (at..at + 6).fold(0, |digit, bit| {
            let byte = bytes.get(bit / 8).copied().unwrap_or(0);
            digit << 1 | usize::from(byte >> (7 - bit % 8) & 1)
        })
    };
    (0..bytes.len() * 8).step_by(6).map(|at| DIGITS[bits(at)]).collect()
}

fn contains(bytes: &[u8], form: &[u8]) -> bool {
    bytes.windows(form.len()).any(|window| window == form)
}

fn no_trace(pool: &Pool) {
    let forms = forms();
    let mut looked_at = 0;
    each_file(&pool.place().home(), &mut |path, bytes| {
        looked_at += 1;
        for form in &forms {
            assert!(!contains(bytes, form), "{}: {}", path.display(), String::from_utf8_lossy(form));
        }
    });
    assert!(looked_at > 0);
}
