//! Programs that run the program in their arguments: `timeout -s KILL 60 pytest`, `docker compose run --rm app pytest`.

/// Words of a shell before a program.
const KEYWORDS: &str = "if elif then else while until do ! { (";

/// A program that runs another one. Its lists have spaces between their entries.
struct Wrapper {
    names: &'static str,
    /// Its subcommand. Options may stand before and after each word.
    words: &'static [&'static str],
    /// Options whose value is the next word.
    valued: &'static str,
    /// Number of arguments before the program.
    operands: usize,
    /// Options that the program follows, if it must follow one. After `--`, the program follows in any case.
    after: &'static str,
    /// Options with which it runs no program.
    without: &'static str,
}

const PLAIN: Wrapper = Wrapper { names: "", words: &[], valued: "", operands: 0, after: "", without: "" };

/// Options of `docker`, `podman` and `kubectl`.
const CONTAINER: &str = "-a -c -e -f -h -l -m -n -p -u -v -w --add-host --cap-add --cap-drop --container --context --cpus \
    --cpuset-cpus --device --dns --entrypoint --env --env-file --expose --file --gpus --group-add \
    --host --hostname --index --ip --ipc --label --link --log-driver --log-level --memory --memory-swap --mount --name --namespace --net --network --pid --platform --profile --project-directory \
    --project-name --publish --pull --restart --runtime --security-opt --shm-size --stop-timeout \
    --sysctl --tmpfs --ulimit --user --userns --volume --volumes-from --workdir";
/// Options of `npx`, `npm`, `pnpm` and `yarn`.
const NODE: &str = "-C -F -p -w --cwd --dir --filter --package --prefix --workspace";
/// Options of the managers of Python's environments.
const PYTHON: &str = "-C -P -e -n -p --cwd --directory --env --env-file --environment --extra --from --group --index-url --manifest-path --name --no-group --package --prefix --project --python --spec --with \
    --with-editable --with-requirements";

/// For a name with several rows, the first row that matches counts.
const WRAPPERS: &[Wrapper] = &[
    Wrapper { names: "nohup setsid unbuffer eatmydata fakeroot cross-env", ..PLAIN },
    Wrapper { names: "env", valued: "-u -C --unset --chdir", ..PLAIN },
    Wrapper { names: "exec", valued: "-a", ..PLAIN },
    Wrapper { names: "command", without: "-v -V", ..PLAIN },
    Wrapper { names: "time gtime", valued: "-f -o --format --output", ..PLAIN },
    Wrapper { names: "nice", valued: "-n --adjustment", ..PLAIN },
    Wrapper { names: "ionice", valued: "-c -n --class --classdata", ..PLAIN },
    Wrapper { names: "chrt taskset faketime chroot", operands: 1, ..PLAIN },
    Wrapper { names: "timeout gtimeout", valued: "-s -k --signal --kill-after", operands: 1, ..PLAIN },
    Wrapper { names: "stdbuf", valued: "-i -o -e --input --output --error", ..PLAIN },
    Wrapper {
        names: "sudo doas runuser",
        valued: "-u -g -C -D -G -h -p -r -R -t -T -U --user --group --chdir --host --prompt",
        without: "-l -v --list --validate",
        ..PLAIN
    },
    Wrapper {
        names: "xvfb-run",
        valued: "-e -f -n -p -s -w --auth-file --error-file --server-args --server-num --wait --xauth-protocol",
        ..PLAIN
    },
    Wrapper { names: "dbus-run-session", valued: "--config-file --dbus-daemon", ..PLAIN },
    Wrapper { names: "strace ltrace", valued: "-e -o -p -s -u", ..PLAIN },
    Wrapper { names: "valgrind catchsegv caffeinate", valued: "-t -w", ..PLAIN },
    Wrapper { names: "flock", valued: "-w -E --timeout", operands: 1, ..PLAIN },
    Wrapper { names: "arch", ..PLAIN },
    Wrapper { names: "xcrun", valued: "-sdk --sdk -toolchain --toolchain", ..PLAIN },
    Wrapper { names: "xargs", valued: "-a -d -E -I -L -n -P -s --max-args --max-procs --replace", ..PLAIN },
    Wrapper { names: "npx bunx pnpx", valued: NODE, ..PLAIN },
    Wrapper { names: "npm", words: &["exec x"], valued: NODE, ..PLAIN },
    Wrapper { names: "pnpm yarn", words: &["exec dlx"], valued: NODE, ..PLAIN },
    Wrapper { names: "yarn", words: &["workspace"], valued: NODE, operands: 1, ..PLAIN },
    Wrapper { names: "bun", words: &["x"], valued: NODE, ..PLAIN },
    Wrapper {
        names: "poetry pipenv uv hatch pdm rye pixi pipx devbox conda mamba micromamba",
        words: &["run"],
        valued: PYTHON,
        ..PLAIN
    },
    Wrapper { names: "uvx", valued: PYTHON, ..PLAIN },
    Wrapper { names: "bundle rbenv pyenv", words: &["exec"], ..PLAIN },
    Wrapper { names: "direnv", words: &["exec"], operands: 1, ..PLAIN },
    Wrapper { names: "dotenv env-cmd", valued: "-e -f", ..PLAIN },
    Wrapper {
        names: "mise dotenvx doppler infisical op aws-vault chamber",
        words: &["exec run x"],
        after: "--",
        ..PLAIN
    },
    Wrapper { names: "dumb-init tini", ..PLAIN },
    Wrapper { names: "nix", words: &["develop shell"], after: "-c --command", ..PLAIN },
    Wrapper {
        names: "docker podman nerdctl",
        words: &["compose", "run exec"],
        valued: CONTAINER,
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        names: "docker podman nerdctl docker-compose podman-compose",
        words: &["run exec"],
        valued: CONTAINER,
        operands: 1,
        ..PLAIN
    },
    Wrapper { names: "kubectl oc", words: &["exec"], valued: CONTAINER, operands: 1, after: "--", ..PLAIN },
];

/// Whether a list, with spaces between its entries, has this word.
pub(super) fn has(list: &str, word: &str) -> bool {
    !word.is_empty() && list.split(' ').any(|entry| entry == word)
}

/// Words without the shell's keywords before them.
pub(super) fn without_keywords(words: &[String]) -> &[String] {
    let keywords = words.iter().take_while(|word| has(KEYWORDS, word)).count();
    &words[keywords..]
}

/// Words without the assignments, the shell's keywords and the wrappers before the program that runs in the end.
/// Empty if the words only set variables.
pub(super) fn unwrapped(words: &[String]) -> &[String] {
    let mut words = words;
    while let Some((word, rest)) = words.split_first() {
        let is_set = word.contains('=') && !word.starts_with('-');
        words = if is_set || has(KEYWORDS, word) {
            rest
        } else {
            let inner = WRAPPERS.iter().find_map(|wrapper| wrapper.inner(words));
            match inner.filter(|inner| !inner.is_empty()) {
                Some(inner) => inner,
                None => break,
            }
        };
    }
    words
}

impl Wrapper {
    /// The program that it runs, with its arguments. `None` if this is not a run of the wrapper.
    fn inner<'a>(&self, words: &'a [String]) -> Option<&'a [String]> {
        let (name, mut rest) = words.split_first()?;
        let name = name.trim_start_matches('(').rsplit('/').next().unwrap_or_default();
        if !has(self.names, name) {
            return None;
        }
        let (mut subcommand, mut operands) = (self.words.iter(), self.operands);
        let mut expected = subcommand.next();
        while let Some((word, after)) = rest.split_first() {
            let word = word.as_str();
            if has(self.without, word) {
                return None;
            } else if word == "--" || expected.is_none() && has(self.after, word) {
                return expected.is_none().then_some(after);
            } else if word.starts_with('-') {
                rest = if self.takes_next(word) { after.get(1..).unwrap_or_default() } else { after };
                continue;
            } else if let Some(words) = expected {
                if !has(words, word) {
                    return None;
                }
                expected = subcommand.next();
            } else if operands > 0 {
                operands -= 1;
            } else if self.after.is_empty() {
                return Some(rest);
            }
            rest = after;
        }
        None
    }

    /// Whether the value of this option is the next word: `-u`, `-Eu` if `-u` has a value, `--user`, not `-uroot` and
    /// not `--user=root`.
    fn takes_next(&self, word: &str) -> bool {
        if has(self.valued, word) {
            return true;
        }
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
            return false;
        };
        let is_valued = |letter: char| self.valued.split(' ').any(|option| option.chars().eq(['-', letter]));
        let mut letters = letters.chars().skip_while(|letter| !is_valued(*letter));
        letters.next().is_some() && letters.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;

    #[test]
    fn options_of_a_wrapper_do_not_hide_the_program() {
        for line in [
            "timeout -s KILL 60 pytest -q",
            "timeout -vk 5 60 pytest",
            "timeout --signal=KILL 1m pytest",
            "sudo -u ci pytest",
            "sudo -Eu ci -- pytest",
            "env -i A=b pytest",
            "env -u HOME pytest",
            "nice -n 5 pytest",
            "nice -5 pytest",
            "xvfb-run -a pytest",
            "xvfb-run -s '-screen 0 800x600x24' pytest",
            "stdbuf -oL pytest",
            "stdbuf -o L -e L pytest",
            "time -p pytest",
            "/usr/bin/time -v -o log pytest",
            "docker compose run --rm app pytest",
            "docker compose -f ci.yaml run --rm -e A=b app pytest",
            "docker exec -it c pytest",
            "docker run --rm -v .:/w -w /w python:3 pytest",
            "docker exec c bash -c 'cd a && pytest'",
            "docker-compose exec -T app python -m pytest",
            "kubectl exec -n ci pod -c app -- pytest",
            "uv run pytest",
            "uv run --group test --python 3.12 -m pytest",
            "uv --directory a run pytest",
            "poetry -C a run pytest",
            "conda run -n env --no-capture-output pytest",
            "xargs -n 1 -P 2 pytest",
            "nix develop -c pytest",
            "nix develop .#ci --command pytest",
            "mise exec python@3 -- pytest",
            "sudo -E env PATH=/x timeout 60 nice -n 5 pytest",
            "if timeout 5 pytest; then echo ok; fi",
            "coverage run -m pytest",
            "flock /tmp/lock pytest",
        ] {
            assert!(Command::new(line).runs(&["pytest"]), "{line}");
        }
        for line in [
            "npx --yes -p jest jest --ci",
            "npx jest@29",
            "pnpm exec jest",
            "pnpm --filter app exec jest",
            "pnpm jest",
            "yarn --silent jest",
            "yarn workspace app run jest",
            "npm exec -- jest",
            "bun x jest",
            "npm --prefix a exec jest",
            "bundle exec jest",
        ] {
            assert!(Command::new(line).runs(&["jest"]), "{line}");
        }
        assert!(Command::new("xcrun -sdk iphoneos xcodebuild test").runs(&["xcodebuild"]));
    }

    #[test]
    fn a_value_of_an_option_is_not_the_program() {
        for line in [
            "sudo -u pytest make",
            "docker run pytest",
            "docker run --name pytest app make",
            "docker logs pytest",
            "timeout pytest make",
            "command -v pytest",
            "env pytest=1 make",
            "nix develop pytest -c make",
            "kubectl exec pytest -- make",
            "npm run build pytest",
            "cat pytest",
        ] {
            assert!(!Command::new(line).runs(&["pytest"]), "{line}");
        }
    }
}
