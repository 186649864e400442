//! Recognizes lines of no use in a result. Only lines that no rule matches are tested.

use regex::bytes::{RegexSet, RegexSetBuilder};
use std::sync::LazyLock;

const PATTERNS: &[&str] = &[
    // Passing tests.
    r"^test .* \.\.\. (?:ok|ignored)",
    r"^Test [Cc]ase '.*' (?:started|passed)",
    r"^Test Suite '.*' (?:started|passed)",
    r"^\s*Executed \d+ tests?, with 0 failures",
    r"^(?:\xe2\x97\x87|\xe2\x9c\x94|\xe2\x86\xb3|\xf4\x80\x9f\x88|\xf4\x81\x81\x9b) ",
    r"^\s*(?:\xe2\x9c\x93|\xe2\x9c\x94|\xe2\x88\x9a) ",
    r"^(?:=== (?:RUN|PAUSE|CONT|NAME)|\s*--- (?:PASS|SKIP)|ok\s|\?\s)",
    r"^\[(?: RUN      |       OK |----------|==========)\]",
    r"^\s*\d+/\d+ Test\s+#\d+: .* Passed ",
    r"^\s+Start\s+\d+: ",
    r"^\S+::\S+ PASSED",
    r"^.* \.\.\. ok$",
    r"^[.sSxX]+(?:\s+\[\s*\d+%\])?$",
    r"^\S+\.py [.sxX]+\s+\[\s*\d+%\]$",
    r"^PASS ",
    r"^\s*ok \d+",
    r"^\s+PASS \[",
    r"^  \* (?:test|doctest|property) .* \[L#\d+\]$",
    // Compilation.
    r"^\s*(?:Compiling|Checking|Downloading|Downloaded|Fresh|Updating|Locking|Adding|Documenting|Building|Installing|Running|Doc-tests) ",
    r"^(?:SwiftDriver|SwiftCompile|SwiftEmitModule|SwiftMergeGeneratedHeaders|CompileC|CompileSwift|CompileSwiftSources|Ld|Libtool|CpResource|CpHeader|Copy|CopySwiftLibs|CodeSign|ProcessInfoPlistFile|ProcessProductPackaging|ProcessProductPackagingDER|RegisterExecutionPolicyException|Touch|Validate|WriteAuxiliaryFile|MkDir|CreateBuildDirectory|GenerateAssetSymbols|CompileAssetCatalog|CompileStoryboard|LinkStoryboards|PhaseScriptExecution|ExtractAppIntentsMetadata|AppIntentsSSUTraining|GenerateDSYMFile|EmitSwiftModule|ScanDependencies|PrecompileModule|RegisterWithLaunchServices|SwiftGeneratePch|ClangStatCache|ComputePackagePrebuildTargetDependencyGraph|ComputeTargetDependencyGraph|CreateBuildDescription|BuildDescription|GatherProvisioningInputs|Build description|DataModelCompile|IntentDefinitionCompile|ProcessXCFramework|builtin-\S+|Signing Identity:|Strip|SetOwnerAndGroup|SetMode|DeriveMarker|ConstructStubExecutorLinkFileList|MetalLink|CompileMetalFile|CopyPNGFile|CopyStringsFile|CopyPlistFile|SymLink|SwiftDriverJobDiscovery|EmitSwiftModule|GenerateTAPI|Analyze|AnalyzeShallow|Target dependency graph|Command line invocation)\b",
    r"^\s+(?:cd |export |setenv |/Applications/Xcode|/usr/bin/|builtin-|write-file |mkdir |/bin/sh -c|Apple Swift version|Target ')",
    r"^\[\s*\d+%\] (?:Building|Built|Linking|Generating)",
    r"^\[\d+/\d+\] ",
    r"^(?:(?:ccache )?(?:/\S*/)?(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+|ar|ranlib|libtool|swiftc|javac|ld)(?:-[\d.]+)? -)",
    r"^(?:make|gmake)(?:\[\d+\])?: (?:Entering|Leaving|Nothing) ",
    r"^-- (?:Detecting|Check for|Looking for|Performing|Found |The )",
    // Downloads and progress.
    r"^\[INFO\] (?:Download|---|Nothing|Using |Copying|Compiling|$)",
    r"^(?:Downloading|Downloaded|Progress|Download|Fetching|Fetched|Resolving|Collecting|Using cached|Requirement already|Get:\d|Hit:\d|Unpacking|Setting up|Selecting|Preparing to unpack|Reading )",
    r"^\s+\d+%|^\s*[\d.]+ ?[kKMG]i?B",
    r"^npm (?:sill|http|verb|timing)",
    r"^> Task \S+(?: UP-TO-DATE| NO-SOURCE| FROM-CACHE)?$",
    // Diagnostic output of Apple's tools.
    r"^\s*DVT\w+|^.*\[MT\] (?:IDE|DVT)|^note: (?:Using|Building targets|Target dependency|Emplaced|Metadata|Run script)",
    r"^--- xcodebuild: WARNING: Using the first of multiple matching destinations",
    r"^\{ platform:",
    r"^##\[(?:group|endgroup|debug|command)\]",
];

static NOISE: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSetBuilder::new(PATTERNS)
        .unicode(false)
        .dfa_size_limit(4 << 20)
        .build()
        .expect("the patterns are constant; a test uses them")
});

/// Returns true if a cleaned line is noise. Blank lines do not count as noise.
pub(crate) fn is_noise(line: &[u8]) -> bool {
    NOISE.is_match(line)
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
        ] {
            assert!(is_noise(line.as_bytes()), "{line}");
        }
        for line in ["error: x", "", "hello", "test a ... FAILED", "Compile with -g"] {
            assert!(!is_noise(line.as_bytes()), "{line}");
        }
    }
}
