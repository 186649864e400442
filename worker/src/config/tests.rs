//! Tests of valid and invalid configuration files.

use super::Config;
use std::path::Path;

#[test]
fn a_file_gives_what_it_names_and_defaults_the_rest() {
    let config = Config::from_toml(
        r#"
        coordinator = "wss://pool.example:7878"
        name = "mini-3"
        slots = 2
        data_dir = "/var/lib/buildpool"
        token = "bp_1_secret"
        drain_deadline_secs = 90
        keep_free_bytes = 1000
        workspaces_bytes_max = 2000
        crash_directories = ["/crashes"]
        [labels]
        xcode = "26.1"
        [resources]
        simulator = 2
        [env]
        PATH = "/opt/bin:/bin"
        "#,
        Path::new("/"),
    )
    .expect("valid");
    config.check().expect("complete");
    assert_eq!(config.drain_deadline, Some(std::time::Duration::from_secs(90)));
    assert_eq!((config.space.free_min_bytes, config.space.bytes_max), (Some(1000), Some(2000)));
    assert_eq!(config.all_labels().get("xcode").map(String::as_str), Some("26.1"));
    assert_eq!(config.all_labels().get("name").map(String::as_str), Some("mini-3"));
    assert_eq!(config.resources.get("simulator"), Some(&2));
    assert!(!format!("{config:?}").contains("secret"), "a token is never shown");
}

#[test]
fn the_label_of_the_name_is_not_given() {
    let text = "coordinator = \"wss://pool.example:7878\"\ndata_dir = \"/d\"\n[labels]\nname = \"mini\"\n";
    let error =
        Config::from_toml(text, Path::new("/")).expect("it parses").check().expect_err("it is invalid");
    let text = error.to_string();
    assert!(
        text.contains("labels") && text.contains("`name = \"mini\"`") && text.contains("`name` sets it"),
        "{text}"
    );
}

#[test]
fn what_is_hidden_is_the_thing_itself_wherever_the_worker_was_started() {
    let place = tempfile::tempdir().expect("a directory");
    let etc = place.path().canonicalize().expect("it is there").join("etc");
    std::fs::create_dir_all(etc.join("keys")).expect("made");
    std::fs::write(etc.join("keys/token"), "bp_1_secret\n").expect("written");
    std::os::unix::fs::symlink("keys/token", etc.join("link")).expect("linked");
    let file = etc.join("worker.toml");
    std::fs::write(&file, "token_file = \"link\"\nhidden = [\"keys/../keys\"]\n").expect("written");
    let linked = place.path().join("elsewhere.toml");
    std::os::unix::fs::symlink(&file, &linked).expect("linked");
    let config = Config::from_file(&linked).expect("valid");
    assert_eq!(config.token.as_deref(), Some("bp_1_secret"));
    assert_eq!(config.hidden, [etc.join("keys")]);
    assert_eq!(config.secret_files, [etc.join("keys/token"), file.clone()]);
    std::fs::write(&file, "hidden = [\"kyes\"]\n").expect("written");
    let error = Config::from_file(&file).expect_err("it is not there").to_string();
    assert!(error.contains("etc/kyes does not exist, so it can't be hidden"), "{error}");
    std::fs::write(&file, "token_file = \"tokne\"\n").expect("written");
    let error = Config::from_file(&file).expect_err("it is not there").to_string();
    assert!(error.contains("etc/tokne can't be read") && !error.contains("hidden"), "{error}");
}

#[test]
fn what_is_wrong_is_named() {
    for (text, expected) in [
        ("slots = 2\nslot = 3", "unknown field `slot`"),
        ("slots = \"two\"", "slots"),
        ("token = \"a\"\ntoken_file = \"b\"", "both given"),
    ] {
        let error = Config::from_toml(text, Path::new("/")).expect_err("invalid").to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (text, expected) in [
        ("data_dir = \"/d\"", "coordinator: is not given"),
        ("coordinator = \"ws://h\"", "data_dir: is not given"),
        ("coordinator = \"ws://h\"\ndata_dir = \"/d\"\nslots = 0", "slots: 0 given; valid are 1 to 1024"),
        ("coordinator = \"ws://h\"\ndata_dir = \"/d\"\nname = \"a b\"", "not a valid name"),
        ("coordinator = \"ws://h\"\ndata_dir = \"/d\"\n[env]\n\"A=B\" = \"c\"", "not a valid variable name"),
    ] {
        let error =
            Config::from_toml(text, Path::new("/")).expect("parses").check().expect_err("wrong").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
