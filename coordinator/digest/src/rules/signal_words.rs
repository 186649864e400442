//! Words for the signals of a death, as C libraries and shells have them.

/// Those of the rarer signals; the parameters are the first letters.
macro_rules! rare_deaths {
    ($b:literal, $f:literal, $i:literal, $t:literal) => {
        concat!(
            $b,
            "us error|",
            $b,
            "ad system call|",
            $i,
            "llegal instruction|",
            $f,
            "loating point exception|",
            $t,
            "race/(?:BPT|breakpoint) trap"
        )
    };
}

/// All of them.
macro_rules! deaths {
    ($a:literal, $b:literal, $f:literal, $i:literal, $k:literal, $s:literal, $t:literal) => {
        concat!(
            $k,
            "illed|",
            $s,
            "egmentation fault|",
            $a,
            "borted|",
            $a,
            "bort trap|",
            $t,
            "erminated|",
            rare_deaths!($b, $f, $i, $t)
        )
    };
}

/// As programs print them in the middle of a line.
macro_rules! words {
    () => {
        deaths!("[Aa]", "[Bb]", "[Ff]", "[Ii]", "[Kk]", "[Ss]", "[Tt]")
    };
}

/// As a shell begins a line with them, or has them after the marks of tests. In small letters they are anybody's.
macro_rules! shell_words {
    () => {
        deaths!("A", "B", "F", "I", "K", "S", "T")
    };
}

/// Of these, those of the rarer signals.
macro_rules! rare_shell_words {
    () => {
        rare_deaths!("B", "F", "I", "T")
    };
}
