//! Recognizes lines of no use in a result. Only lines that no rule matches are tested.
//!
//! Beginnings and small functions, because regular expressions for the same lines would take half of a process's start. In a list,
//! a bar separates the texts.

use std::sync::LazyLock;

/// Beginnings of lines: passing tests, builds, downloads, and diagnostic output of Apple's tools.
const BEGINNINGS: &str = "\u{25c7} |\u{2714} |\u{21b3} |\u{1007c8} |\u{10105b} |=== RUN|=== PAUSE|=== CONT|=== NAME|ok |ok\t|? |?\t|\
    [ RUN      ]|[       OK ]|[----------]|[==========]|PASS |make: Entering |make: Leaving |make: Nothing |\
    gmake: Entering |gmake: Leaving |gmake: Nothing |-- Detecting|-- Check for|-- Looking for|-- Performing|\
    -- Found |-- The |[INFO] Download|[INFO] ---|[INFO] Nothing|[INFO] Using |[INFO] Copying|[INFO] Compiling|\
    Download|Progress|Fetching|Fetched|Resolving|Collecting|Using cached|Requirement already|Unpacking|Setting up|\
    Selecting|Preparing to unpack|Reading |npm sill|npm http|npm verb|npm timing|note: Using|note: Building targets|\
    note: Target dependency|note: Emplaced|note: Metadata|note: Run script|\
    --- xcodebuild: WARNING: Using the first of multiple matching destinations|{ platform:|##[group]|##[endgroup]|\
    ##[debug]|##[command]";

/// Beginnings after any indentation.
const INDENTED_OR_NOT: &str = "\u{2713} |\u{2714} |\u{221a} |--- PASS|--- SKIP|Compiling |Checking |Downloading |Downloaded |Fresh |Updating |\
    Locking |Adding |Documenting |Building |Installing |Running |Doc-tests ";

/// Beginnings of indented lines.
const INDENTED: &str = "PASS [|cd |export |setenv |/Applications/Xcode|/usr/bin/|builtin-|write-file |mkdir |/bin/sh -c|\
    Apple Swift version|Target '";

/// Steps of Xcode's build system: whole words at the beginning of a line.
const STEPS: &str = "SwiftDriver|SwiftCompile|SwiftEmitModule|SwiftMergeGeneratedHeaders|CompileC|CompileSwift|CompileSwiftSources|\
    Ld|Libtool|CpResource|CpHeader|Copy|CopySwiftLibs|CodeSign|ProcessInfoPlistFile|ProcessProductPackaging|\
    ProcessProductPackagingDER|RegisterExecutionPolicyException|Touch|Validate|WriteAuxiliaryFile|MkDir|\
    CreateBuildDirectory|GenerateAssetSymbols|CompileAssetCatalog|CompileStoryboard|LinkStoryboards|\
    PhaseScriptExecution|ExtractAppIntentsMetadata|AppIntentsSSUTraining|GenerateDSYMFile|EmitSwiftModule|\
    ScanDependencies|PrecompileModule|RegisterWithLaunchServices|SwiftGeneratePch|ClangStatCache|\
    ComputePackagePrebuildTargetDependencyGraph|ComputeTargetDependencyGraph|CreateBuildDescription|\
    BuildDescription|GatherProvisioningInputs|Build description|DataModelCompile|IntentDefinitionCompile|\
    ProcessXCFramework|Strip|SetOwnerAndGroup|SetMode|DeriveMarker|ConstructStubExecutorLinkFileList|MetalLink|\
    CompileMetalFile|CopyPNGFile|CopyStringsFile|CopyPlistFile|SymLink|SwiftDriverJobDiscovery|GenerateTAPI|Analyze|\
    AnalyzeShallow|Target dependency graph|Command line invocation";

/// Programs that a build runs with options.
const COMPILERS: &str = "gcc|g++|clang|clang++|cc|c++|ar|ranlib|libtool|swiftc|javac|ld";

/// Where in a line a text must stand.
#[derive(Clone, Copy)]
enum Place {
    /// At the beginning.
    Margin,
    /// After any indentation.
    Anywhere,
    /// After an indentation.
    Indented,
    /// At the beginning, as a whole word.
    Word,
}

/// A text and its place.
type Beginning = (&'static [u8], Place);

/// The beginnings by their first bytes.
static BY_BYTE: LazyLock<Vec<Vec<Beginning>>> = LazyLock::new(|| {
    let mut by_byte = vec![Vec::new(); 256];
    for (texts, place) in [
        (BEGINNINGS, Place::Margin),
        (INDENTED_OR_NOT, Place::Anywhere),
        (INDENTED, Place::Indented),
        (STEPS, Place::Word),
    ] {
        for text in texts.split('|').map(str::as_bytes) {
            by_byte[usize::from(text[0])].push((text, place));
        }
    }
    by_byte
});

/// Returns true if a cleaned line is noise. Blank lines do not count as noise.
pub(crate) fn is_noise(line: &[u8]) -> bool {
    let own = line.trim_ascii_start();
    let Some(first) = own.first() else { return false };
    let is_indented = own.len() < line.len();
    let begins = |(text, place): &Beginning| {
        own.strip_prefix(*text).is_some_and(|rest| match place {
            Place::Margin => !is_indented,
            Place::Anywhere => true,
            Place::Indented => is_indented,
            Place::Word => !is_indented && rest.first().is_none_or(|byte| !is_word(*byte)),
        })
    };
    BY_BYTE[usize::from(*first)].iter().any(begins)
        || is_step(line, own)
        || is_passed_test(line, own)
        || is_counted(line, own, is_indented).is_some()
        || is_build_command(line)
        || has(line, b"[MT] IDE")
        || has(line, b"[MT] DVT")
}

fn has(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns true for a built-in step of Xcode, and for a message of its debugger.
fn is_step(line: &[u8], own: &[u8]) -> bool {
    let built_in = line.strip_prefix(b"builtin-").map_or(&b""[..], first_word);
    let of_debugger = own.strip_prefix(b"DVT").unwrap_or_default();
    built_in.iter().any(|byte| is_word(*byte)) || of_debugger.first().is_some_and(|byte| is_word(*byte))
}

/// Returns true for a test that passed or began, and for the marks of passed tests.
fn is_passed_test(line: &[u8], own: &[u8]) -> bool {
    let named = |beginning: &[u8], ends: [&[u8]; 2]| {
        line.strip_prefix(beginning).is_some_and(|rest| ends.iter().any(|end| has(rest, end)))
    };
    let word = first_word(line);
    let after_first = word.get(1..).unwrap_or_default();
    let is_path = memchr::memmem::find(after_first, b"::").is_some_and(|at| at + 2 < after_first.len());
    let is_mark = |byte: &u8| matches!(byte, b'.' | b's' | b'x' | b'X');
    let marks = if word.len() > 3 && word.ends_with(b".py") {
        line[word.len()..].strip_prefix(b" ").unwrap_or_default()
    } else {
        b""
    };
    let rest = &marks[marks.iter().take_while(|byte| is_mark(byte)).count()..];
    let of_exunit = [&b"  * test "[..], b"  * doctest ", b"  * property "];
    named(b"test ", [b" ... ok", b" ... ignored"])
        || named(b"Test Case '", [b"' started", b"' passed"])
        || named(b"Test case '", [b"' started", b"' passed"])
        || named(b"Test Suite '", [b"' started", b"' passed"])
        || line.ends_with(b" ... ok")
        || is_path && line[word.len()..].starts_with(b" PASSED")
        || !word.is_empty()
            && word.iter().all(|byte| is_mark(byte) || *byte == b'S')
            && (word.len() == line.len() || is_share(&line[word.len()..]))
        || rest.len() < marks.len() && is_share(rest)
        || of_exunit.iter().any(|test| line.starts_with(test))
            && numbered_end(line).is_some_and(|before| before.ends_with(b" [L#"))
        || own.strip_prefix(b"ok ").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

/// The text before a number and `]` at the end.
fn numbered_end(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"]")?;
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &line[..line.len() - digits])
}

/// Returns true for blanks and a share of the tests: `  [ 42%]`.
fn is_share(text: &[u8]) -> bool {
    let share = text.trim_ascii_start();
    let number = share.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    share.len() < text.len() && number.and_then(after_number) == Some(b"%]")
}

/// The bytes up to the first blank.
fn first_word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}

/// The text after a number at its beginning.
fn after_number(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &text[digits..])
}

/// Lines of progress with numbers. `Some` for such a line.
fn is_counted(line: &[u8], own: &[u8], is_indented: bool) -> Option<()> {
    let begins = |text: &[u8], with: &[&[u8]]| with.iter().any(|with| text.starts_with(with));
    let is_counted = || {
        // `[12/90] `, `[ 42%] Building `.
        let inside = line.strip_prefix(b"[")?;
        let rest = after_number(inside.trim_ascii_start())?;
        if let Some(step) = rest.strip_prefix(b"%] ") {
            return begins(step, &[b"Building", b"Built", b"Linking", b"Generating"]).then_some(());
        }
        let rest =
            after_number(rest.strip_prefix(b"/").filter(|_| inside[0] != b' ' && inside[0] != b'\t')?)?;
        rest.starts_with(b"] ").then_some(())
    };
    let is_of_ctest = || {
        let rest = after_number(after_number(own)?.strip_prefix(b"/")?)?.strip_prefix(b" Test")?;
        let number = rest.trim_ascii_start().strip_prefix(b"#").filter(|_| begins(rest, &[b" ", b"\t"]))?;
        has(after_number(number)?.strip_prefix(b": ")?, b" Passed ").then_some(())
    };
    let starts = || {
        let rest = own.strip_prefix(b"Start").filter(|rest| is_indented && begins(rest, &[b" ", b"\t"]))?;
        after_number(rest.trim_ascii_start())?.starts_with(b": ").then_some(())
    };
    let is_executed = || {
        let rest = after_number(own.strip_prefix(b"Executed ")?)?;
        begins(rest, &[b" test, with 0 failures", b" tests, with 0 failures"]).then_some(())
    };
    let is_size = || {
        let size = own.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let rest = own.get(size..).filter(|_| size > 0)?;
        let (unit, rest) = rest.strip_prefix(b" ").unwrap_or(rest).split_first()?;
        let is_unit = matches!(unit, b'k' | b'K' | b'M' | b'G') && begins(rest, &[b"B", b"iB"]);
        let is_percent = is_indented && after_number(own).is_some_and(|rest| rest.starts_with(b"%"));
        (is_unit || is_percent).then_some(())
    };
    let is_of_apt = || {
        let number = line.strip_prefix(b"Get:").or_else(|| line.strip_prefix(b"Hit:"))?;
        number.first()?.is_ascii_digit().then_some(())
    };
    let is_of_make = || {
        let rest = line.strip_prefix(b"make[").or_else(|| line.strip_prefix(b"gmake["))?;
        let step = after_number(rest)?.strip_prefix(b"]: ")?;
        begins(step, &[b"Entering ", b"Leaving ", b"Nothing "]).then_some(())
    };
    is_counted()
        .or_else(is_of_ctest)
        .or_else(starts)
        .or_else(is_executed)
        .or_else(is_size)
        .or_else(is_of_apt)
        .or_else(is_of_make)
}

/// Returns true for a compiler's command, a task of Gradle, and an empty line of Maven.
fn is_build_command(line: &[u8]) -> bool {
    let command = line.strip_prefix(b"ccache ").unwrap_or(line);
    let program = first_word(command);
    let name = match program {
        [b'/', rest @ ..] => rest.rsplit(|byte| *byte == b'/').next().filter(|name| name.len() < rest.len()),
        _ => Some(program),
    };
    let is_version = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let unversioned = |name: &'_ [u8]| match name.iter().rposition(|byte| *byte == b'-') {
        Some(at) if at + 1 < name.len() && is_version(&name[at + 1..]) => at,
        _ => name.len(),
    };
    let is_compiler = command[program.len()..].starts_with(b" -")
        && name.is_some_and(|name| {
            COMPILERS.split('|').any(|compiler| compiler.as_bytes() == &name[..unversioned(name)])
        });
    let is_task = line.strip_prefix(b"> Task ").is_some_and(|task| {
        let name = first_word(task);
        !name.is_empty()
            && matches!(&task[name.len()..], b"" | b" UP-TO-DATE" | b" NO-SOURCE" | b" FROM-CACHE")
    });
    is_compiler || is_task || line == b"[INFO] "
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_known() {
        for line in [
            "test a::b ... ok",
            "    Compiling serde v1.0",
            "✔ Test foo() passed after 0.001 seconds.",
            "[12/90] Building CXX object a.o",
            "[ 42%] Linking C executable a",
            "    1/2 Test  #1: adds .........   Passed    0.01 sec",
            "      Start  1: adds",
            "Test Case '-[A b]' passed (0.1 seconds).",
            "\t Executed 12 tests, with 0 failures (0 unexpected)",
            "a.py::b PASSED [ 50%]",
            "tests/a.py ..sx   [100%]",
            "....s.",
            "ok 3 - adds",
            "  * test adds (0.1ms) [L#3]",
            "CompileC a.o a.c normal",
            "builtin-copy -x",
            "make[2]: Leaving directory '/a'",
            "/usr/bin/clang++-15 -c a.cc",
            "ccache gcc -c a.c",
            "> Task :app:compile UP-TO-DATE",
            "Get:12 http://a",
            "  45% done",
            "12.5 MiB",
        ] {
            assert!(is_noise(line.as_bytes()), "{line}");
        }
        for line in [
            "error: x",
            "",
            "hello",
            "test a ... FAILED",
            "Compile with -g",
            "CompileCx",
            "[1/2]",
            "[ 1/2] x",
            "Start 1: x",
            "Get:x",
            "..F.",
            "/clang",
            "clang: error: x",
            "usr/bin/clang -c a.c",
            "> Task :a FAILED",
            "45% done",
            "12 apples",
        ] {
            assert!(!is_noise(line.as_bytes()), "{line}");
        }
    }
}
