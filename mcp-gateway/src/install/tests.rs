use super::codex::with_table;
use super::file::{BESIDE, replace};
use super::{Installation, McpClient};
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
        let old = json!({client.key(): {"buildpool": {
            "type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}, "env": {"A": "b"},
        }}});
        fs::write(&path, old.to_string()).unwrap();
        installation.write(client).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let keys: Vec<&String> = read[client.key()]["buildpool"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["args", "command", "env", "type"], "{read}");
        assert_eq!(read[client.key()]["buildpool"]["type"], "stdio");
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
        let expected = match client {
            McpClient::Codex | McpClient::ClaudeDesktop => Some("/work tree"),
            McpClient::Cursor | McpClient::VsCode => Some("${workspaceFolder}"),
            McpClient::ClaudeCode => None,
        };
        assert_eq!(place, expected, "{text}");
    }
    assert!("emacs".parse::<McpClient>().unwrap_err().contains("claude-code, claude-desktop, codex"));
}
