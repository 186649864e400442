use super::clients::Scope;
use super::codex::with_table;
use super::file::{BESIDE, replace};
use super::{Installation, McpClient, short_name};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use toml_edit::DocumentMut;

fn installation(project: &Path) -> Installation {
    Installation {
        program: "/opt/build pool/buildpool".into(),
        arguments: vec!["--coordinator".into(), "wss://pool:7070".into()],
        project: project.to_owned(),
        is_on_path: false,
    }
}

#[test]
fn a_file_is_written_for_nobody_else_to_read_or_lead_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(at("usual"), "").unwrap();
    fs::write(at("victim"), "whole").unwrap();
    // A predictable name would let another user redirect the write through a link.
    let foreseen = format!("private.{}.new", std::process::id());
    std::os::unix::fs::symlink(at("victim"), at(&foreseen)).unwrap();
    fs::write(at("private"), "old").unwrap();
    fs::set_permissions(at("private"), fs::Permissions::from_mode(0o600)).unwrap();
    replace(&at("private"), "new").unwrap();
    assert_eq!(fs::read_to_string(at("private")).unwrap(), "new");
    assert_eq!(mode(&at("private")), 0o600);
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "whole");
    replace(&at("made"), "text").unwrap();
    assert_eq!(mode(&at("made")), mode(&at("usual")));
    // A link stays a link, even if its target does not exist yet.
    std::os::unix::fs::symlink("dotfiles/mcp.json", at("link")).unwrap();
    replace(&at("link"), "linked").unwrap();
    assert_eq!(fs::read_to_string(at("dotfiles/mcp.json")).unwrap(), "linked");
    assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
    let left = fs::read_dir(directory.path()).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(BESIDE)));
}

#[test]
fn an_entry_is_added_and_everything_else_stays() {
    let directory = tempfile::tempdir().unwrap();
    let installation = installation(directory.path());
    let path = directory.path().join(".vscode/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, r#"{"inputs":[1],"servers":{"other":{"url":"x"},"buildpool":{"command":"old"}}}"#)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(installation.write(McpClient::VsCode).unwrap(), path);
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let expected = json!({"inputs": [1], "servers": {
            "other": {"url": "x"},
            "buildpool": {
                "type": "stdio",
                "command": "/opt/build pool/buildpool",
                "args": ["mcp", "--coordinator", "wss://pool:7070", "--directory", "${workspaceFolder}"],
            },
        }});
        assert_eq!(read, expected);
    }
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
}

#[test]
fn what_can_not_be_understood_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".mcp.json");
    for text in [
        "{ // comment\n}",
        "[]",
        r#"{"mcpServers": 3}"#,
        r#"{"mcpServers": {}, "mcpServers": {}}"#,
        "{'a': 1}",
    ] {
        fs::write(&path, text).unwrap();
        let error = installation(directory.path()).write(McpClient::ClaudeCode).unwrap_err().to_string();
        assert!(error.contains(".mcp.json") && error.contains("by hand"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_json_file_stays_as_it_is_but_for_the_entry() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(".mcp.json");
    let installation = installation(directory.path());
    let old = "{\"z\": 12345678901234567890123, \"a\":[1,\n 2],\n  \"mcpServers\": {\n    \"other\": {\"url\": \"}x\"},\n    \
               \"buildpool\": {\"env\": {\"A\": \"b\"}, \"command\": \"old\", \"timeout\": 600000}\n  }, \"b\": 1}\n";
    fs::write(&path, old).unwrap();
    installation.write(McpClient::ClaudeCode).unwrap();
    let new = fs::read_to_string(&path).unwrap();
    let (head, _) = old.split_once("{\"env\"").unwrap();
    assert!(new.starts_with(head) && new.ends_with("\n  }, \"b\": 1}\n"), "{new}");
    let read: Value = serde_json::from_str(&new).unwrap();
    let ours = &read["mcpServers"]["buildpool"];
    assert_eq!((&ours["env"]["A"], &ours["timeout"]), (&json!("b"), &json!(600_000)));
    assert_eq!(ours["command"], "/opt/build pool/buildpool");
    for old in ["{}", " {\"a\": 1 } ", "{\"mcpServers\": {}}", "{\"mcpServers\":{\"x\":{}}}", ""] {
        fs::write(&path, old).unwrap();
        installation.write(McpClient::ClaudeCode).unwrap();
        let once = fs::read_to_string(&path).unwrap();
        let read: Value = serde_json::from_str(&once).unwrap();
        assert_eq!(read["mcpServers"]["buildpool"]["type"], "stdio", "{once}");
        assert_eq!(
            (read.get("a").is_some(), read["mcpServers"].get("x").is_some()),
            (old.contains("a"), old.contains("x"))
        );
        installation.write(McpClient::ClaudeCode).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), once, "twice is as good as once");
    }
}

#[test]
fn a_toml_file_gets_our_table_however_it_is_written() {
    let installation = installation(Path::new("/work"));
    for old in ["[broken\n", "mcp_servers = 3\n", "[mcp_servers]\nbuildpool = true\n"] {
        assert!(with_table(old, &installation).is_err(), "{old}");
    }
    let table = installation.text(McpClient::Codex);
    let ours = |text: &str| {
        let all: DocumentMut = text.parse().unwrap();
        all["mcp_servers"]["buildpool"]["command"].as_str().map(str::to_owned)
    };
    for old in [
        "",
        "# mine\n",
        "[mcp_servers.other]\ncommand = \"x\"\n",
        "[mcp_servers]\nbuildpool = { command = \"old\" }\n",
        "mcp_servers = { other = { command = \"x\" } }\n",
        "text = \"\"\"\n[mcp_servers.buildpool]\nnot ours\n\"\"\"\n",
        table.as_str(),
    ] {
        let new = with_table(old, &installation).unwrap();
        assert_eq!(ours(&new).as_deref(), Some("/opt/build pool/buildpool"), "{new}");
        for kept in ["# mine", "command = \"x\"", "not ours"] {
            assert_eq!(new.contains(kept), old.contains(kept), "{new}");
        }
        assert_eq!(with_table(&new, &installation).unwrap(), new, "twice is as good as once");
    }
}

#[test]
fn a_toml_file_keeps_its_ends_of_lines_its_mark_and_what_stands_first() {
    let installation = installation(Path::new("/work"));
    let old = "\u{feff}# mine\r\nmodel = \"x\"\r\n";
    let new = with_table(old, &installation).unwrap();
    assert!(new.starts_with(old), "{new:?}");
    assert_eq!(new.matches('\n').count(), new.matches("\r\n").count(), "{new:?}");
    let old = "# mine\n# too\n";
    let new = with_table(old, &installation).unwrap();
    assert!(new.starts_with("# mine\n# too\n\n[mcp_servers.buildpool]\n"), "{new:?}");
}

#[test]
fn a_toml_table_keeps_what_others_put_into_it_and_its_place() {
    let old = "# mine\nmodel = \"x\"\n\n[mcp_servers.buildpool]\ncommand = \"old\" # why\ntool_timeout_sec = 900\nenv_vars = \
               [\"MINE\"]\n\n[mcp_servers.buildpool.env]\nA = \"b\"\n\n# of the other\n[mcp_servers.other]\ncommand = \"y\"\n";
    let new = with_table(old, &installation(Path::new("/work"))).unwrap();
    let (head, tail) = old.split_once("command = \"old\" # why\n").unwrap();
    let (_, tail) = tail.split_once("[\"MINE\"]\n").unwrap();
    assert!(new.starts_with(head) && new.ends_with(tail) && new.contains("buildpool\" # why\n"), "{new}");
    let read: DocumentMut = new.parse().unwrap();
    let ours = &read["mcp_servers"]["buildpool"];
    assert_eq!((ours["tool_timeout_sec"].as_integer(), ours["env"]["A"].as_str()), (Some(900), Some("b")));
    let passed: Vec<&str> =
        ours["env_vars"].as_array().unwrap().iter().filter_map(toml_edit::Value::as_str).collect();
    assert!(passed.starts_with(&["MINE", "BUILDPOOL_TOKEN"]), "{passed:?}");
}

#[test]
fn comments_and_trailing_commas_stay_where_the_client_allows_them() {
    let directory = tempfile::tempdir().unwrap();
    let installation = installation(directory.path());
    let path = directory.path().join(".vscode/mcp.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        &path,
        "{\n  // ours\n  \"servers\": {\n    /* theirs */ \"other\": {\"url\": \"x\"},\n  },\n}\n",
    )
    .unwrap();
    installation.write(McpClient::VsCode).unwrap();
    let new = fs::read_to_string(&path).unwrap();
    assert!(
        new.contains("// ours\n") && new.contains("/* theirs */ \"other\": {\"url\": \"x\"},\n"),
        "{new}"
    );
    assert!(new.contains("\"command\": \"/opt/build pool/buildpool\""), "{new}");
}

#[test]
fn an_entry_for_http_becomes_one_that_is_started_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let installation = installation(directory.path());
    for (client, file) in [
        (McpClient::ClaudeCode, ".mcp.json"),
        (McpClient::Cursor, ".cursor/mcp.json"),
        (McpClient::VsCode, ".vscode/mcp.json"),
    ] {
        let path = directory.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let key = client.form().key;
        let old = json!({key: {"buildpool": {
            "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}, "env": {"A": "b"},
        }}});
        fs::write(&path, old.to_string()).unwrap();
        installation.write(client).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let keys: Vec<&String> = read[key]["buildpool"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["args", "command", "env", "type"], "{read}");
        assert_eq!(read[key]["buildpool"]["type"], "stdio");
    }
    let old = "[mcp_servers.buildpool]\nurl = \"http://h/mcp\"\nbearer_token_env_var = \"T\"\nenabled = true\n\n\
               [mcp_servers.buildpool.http_headers]\nX = \"y\"\n";
    let read: DocumentMut = with_table(old, &installation).unwrap().parse().unwrap();
    let ours = read["mcp_servers"]["buildpool"].as_table().unwrap();
    let mut keys: Vec<&str> = ours.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    let expected = ["args", "command", "enabled", "env_vars", "startup_timeout_sec", "tool_timeout_sec"];
    assert_eq!(keys, expected, "{ours}");
}

#[test]
fn each_client_has_its_form() {
    let installation = installation(Path::new("/work tree"));
    for client in McpClient::ALL {
        assert_eq!(client.name().parse(), Ok(client));
        let text = installation.text(client);
        assert!(text.contains("build pool/buildpool") && text.contains("wss://pool:7070"), "{text}");
        let place = ["/work tree", "${workspaceFolder}"].into_iter().find(|place| text.contains(place));
        // A file of the user holds for all projects, so that its entry names one. A file of a project may be shared.
        let expected = match client.form().scope {
            Scope::User | Scope::Printed => Some("/work tree"),
            Scope::WorkspaceFolder => Some("${workspaceFolder}"),
            Scope::Project => None,
        };
        assert_eq!(place, expected, "{text}");
        let on_path = Installation { is_on_path: true, ..installation.clone() }.text(client);
        let is_short = on_path.contains("\"buildpool\",") || on_path.contains("= \"buildpool\"\n");
        assert_eq!(is_short, client.form().scope != Scope::User, "{on_path}");
    }
    let error = "emacs".parse::<McpClient>().unwrap_err();
    assert!(error.contains("claude-code, claude-desktop, codex") && error.contains("generic"), "{error}");
}

#[test]
fn a_file_of_the_user_has_one_entry_for_each_project() {
    let at = |project: &str| installation(Path::new(project));
    let names = |text: &str| -> Vec<String> {
        let all: Value = serde_json::from_str(text).unwrap();
        all["mcpServers"].as_object().unwrap().keys().cloned().collect()
    };
    let write =
        |old: &str, project: &str| super::json::with_entry(old, McpClient::Windsurf, &at(project)).unwrap();
    let first = write("", "/a/My App");
    let second = write(&first, "/b/My App");
    assert_eq!(names(&second), ["buildpool-my-app", "buildpool-my-app-2"]);
    assert!(second.starts_with(first.trim_end_matches(['}', '\n', ' '])), "the first entry stays: {second}");
    for project in ["/a/My App", "/b/My App"] {
        assert_eq!(write(&second, project), second, "twice is as good as once");
    }
    let remove = |old: &str, project: &str| {
        super::json::without_entry(old, McpClient::Windsurf, &at(project)).unwrap()
    };
    let left = remove(&second, "/a/My App").unwrap();
    assert_eq!(names(&left), ["buildpool-my-app-2"]);
    assert_eq!(remove(&left, "/a/My App"), None);
    // An entry that an earlier version wrote belongs to the project that it names.
    let earlier =
        r#"{"mcpServers": {"buildpool": {"command": "b", "args": ["mcp", "--directory", "/a/x"]}}}"#;
    assert_eq!(names(&write(earlier, "/a/x")), ["buildpool"]);
    assert_eq!(names(&write(earlier, "/a/y")), ["buildpool", "buildpool-y"]);
    for (project, name) in [("/", "project"), ("/ä", "project"), ("/a/.Dot files_", "dot-files")] {
        assert_eq!(short_name(Path::new(project)), name);
    }
}

#[test]
fn an_entry_is_removed_and_everything_else_stays() {
    let directory = tempfile::tempdir().unwrap();
    let installation = installation(directory.path());
    for client in McpClient::ALL {
        let form = client.form();
        if !matches!(form.scope, Scope::Project | Scope::WorkspaceFolder) {
            continue;
        }
        assert_eq!(installation.remove(client).unwrap(), (directory.path().join(form.file), false));
        let old = match form.file {
            ".codex/config.toml" => {
                "model = \"x\" # mine\n\n[mcp_servers.other]\ncommand = \"y\"\n".to_owned()
            }
            _ => json!({form.key: {"other": {"command": "y"}}, "more": 1}).to_string(),
        };
        fs::create_dir_all(directory.path().join(form.file).parent().unwrap()).unwrap();
        fs::write(directory.path().join(form.file), &old).unwrap();
        let path = installation.write(client).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("build pool/buildpool"));
        assert_eq!(installation.remove(client).unwrap(), (path.clone(), true));
        let left = fs::read_to_string(&path).unwrap();
        assert!(!left.contains("buildpool") && left.contains("other"), "{left}");
        assert_eq!(left.contains("# mine"), old.contains("# mine"));
        assert!(!installation.remove(client).unwrap().1);
    }
    assert!(installation.write(McpClient::Generic).unwrap_err().to_string().contains("printed entry"));
}

#[test]
fn both_versions_of_opencode_and_the_tools_of_copilot_have_their_form() {
    let installation = installation(Path::new("/p"));
    let entry = |client: McpClient, old: &str| -> Value {
        serde_json::from_str(&super::json::with_entry(old, client, &installation).unwrap()).unwrap()
    };
    let command = json!(["/opt/build pool/buildpool", "mcp", "--coordinator", "wss://pool:7070"]);
    let first = entry(McpClient::OpenCode, "{}");
    assert_eq!(first["mcp"]["buildpool"], json!({"type": "local", "command": command}));
    let second = entry(McpClient::OpenCode, r#"{"mcp": {"servers": {"x": {"type": "local"}}}}"#);
    assert_eq!(second["mcp"]["servers"]["buildpool"]["command"], command);
    let copilot = entry(McpClient::CopilotCli, "");
    assert_eq!(copilot["mcpServers"]["buildpool"]["tools"], json!(["*"]));
}

#[test]
fn a_call_ends_before_codex_gives_up_on_it() {
    let wait = |old: &str| -> String {
        let all: DocumentMut = with_table(old, &installation(Path::new("/p"))).unwrap().parse().unwrap();
        let words = all["mcp_servers"]["buildpool"]["args"].as_array().unwrap().clone();
        let words: Vec<&str> = words.iter().filter_map(toml_edit::Value::as_str).collect::<Vec<_>>();
        words.last().map(|word| (*word).to_owned()).unwrap()
    };
    assert_eq!(wait(""), "290s");
    assert_eq!(wait("[mcp_servers.buildpool]\ntool_timeout_sec = 60.0\n"), "50s");
    assert_eq!(wait("[mcp_servers.buildpool]\ntool_timeout_sec = 5\n"), "1s");
    let table = installation(Path::new("/p")).text(McpClient::Codex);
    for variable in ["CARGO_HOME", "JAVA_HOME", "VIRTUAL_ENV", "SSH_AUTH_SOCK", "BUILDPOOL_TOKEN"] {
        assert!(table.contains(&format!("\"{variable}\"")), "{table}");
    }
}
