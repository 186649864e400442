use super::problems;
use crate::records::shown;

#[test]
fn problems_of_any_linter_are_found() {
    for (document, expected) in [
        (
            r#"[{"file":"a.sh","line":2,"column":8,"level":"info","code":2035,"message":"Use ./*"}]"#,
            "a.sh:2:8: info: Use ./* [2035]",
        ),
        (
            r#"{"files":[{"path":"a.rb","offenses":[{"severity":"convention","message":"No","cop_name":"A/B","location":{"start_line":1,"line":1,"column":5}}]}]}"#,
            "a.rb:1:5: warning: No [A/B]",
        ),
        (
            r#"{"files":{"src/a.php":{"messages":[{"message":"Bad","type":"ERROR","line":2,"column":1}]}}}"#,
            "src/a.php:2:1: error: Bad",
        ),
        (
            r#"{"Issues":[{"FromLinter":"errcheck","Text":"unchecked","Pos":{"Filename":"a.go","Line":5,"Column":3}}]}"#,
            "a.go:5:3: unchecked [errcheck]",
        ),
        (
            r#"{"runs":[{"results":[{"ruleId":"R1","level":"warning","message":{"text":"Odd\nthing"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"a.c"},"region":{"startLine":3}}}]}]}]}"#,
            "a.c:3: warning: Odd thing [R1]",
        ),
        (
            r#"{"generalDiagnostics":[{"file":"/p/a.py","severity":"error","message":"No","range":{"start":{"line":7,"character":9}},"rule":"reportA"}]}"#,
            "/p/a.py:8:10: error: No [reportA]",
        ),
        (
            r#"[{"check_name":"F401","description":"Unused","severity":"major","location":{"path":"a.py","positions":{"begin":{"line":1,"column":8}}}}]"#,
            "a.py:1:8: warning: Unused [F401]",
        ),
        (
            r#",{"severity":"Warning","hint":"Redundant lambda","file":"A.hs","startLine":3,"startColumn":9}]"#,
            "A.hs:3:9: warning: Redundant lambda",
        ),
        (
            r#"{"Issues":[{"FromLinter":"lll","Text":"long","Severity":"","Pos":{"Filename":"a.go","Line":5}}]}"#,
            "a.go:5: long [lll]",
        ),
        (
            r#"[{"path":"a.js","messages":[{"ruleId":"semi","severity":1,"message":"No","line":2,"column":1},{"ruleId":"eol","severity":2,"message":"No","line":3,"column":1}]}]"#,
            "a.js:2:1: warning: No [semi]\na.js:3:1: error: No [eol]",
        ),
        (
            r#"{"uri":"a.ts","diagnostics":[{"severity":1,"message":"No","range":{"start":{"line":0,"character":4},"end":{"line":0,"character":5}}}]}"#,
            "a.ts:1:5: error: No",
        ),
        (
            r#"[{"character":5,"file":"A.swift","line":2,"reason":"Long","rule_id":"line_length","severity":"Warning","type":"Line Length"}]"#,
            "A.swift:2:5: warning: Long [line_length]",
        ),
        (
            r#"{"uri":"a.feature","elements":[{"type":"scenario","description":"Adds","line":7}]}"#,
            "a.feature:7: Adds",
        ),
        (r#"{"level":"debug","message":"cache hit","file":"c.py","line":42}"#, "c.py:42: info: cache hit"),
        (
            r#"{"results":[{"code":"2 \n3 call()\n","filename":"a.py","issue_severity":"HIGH","issue_text":"Shell","line_number":3,"test_id":"B602"}]}"#,
            "a.py:3: error: Shell [B602]",
        ),
        (r#"{"file":"docker/Dockerfile","line":2,"message":"Pin"}"#, "docker/Dockerfile:2: warning: Pin"),
        (
            r#"[{"filePath":"/w/a.js","messages":[{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error:\nno","line":2,"column":3}],"errorCount":1}]"#,
            "/w/a.js:2:3: error: Parsing error: no",
        ),
        (
            r#"[{"source":"/w/a.css","errored":true,"warnings":[{"line":1,"column":5,"rule":"no","severity":"error","text":"Bad"}]}]"#,
            "/w/a.css:1:5: error: Bad [no]",
        ),
        (
            r#"[{"kind":"error","locations":[{"caret":{"file":"a.c","line":2,"column":3}}],"message":"no","children":[{"kind":"note","locations":[{"caret":{"file":"a.c","line":1,"column":4}}],"message":"here"}]}]"#,
            "a.c:2:3: error: no\na.c:1:4: note: here",
        ),
        (
            r#"[{"filePath":"/w/a.js","messages":[{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error: not in the project"}],"errorCount":1}]"#,
            "/w/a.js: error: Parsing error: not in the project",
        ),
        (
            r#"[{"kind": "fatal error", "children": [], "locations": [], "message": "a.c: No such file"}]"#,
            "error: a.c: No such file",
        ),
        (
            r#"{"cell":null,"code":null,"filename":"a.py","location":{"column":8,"row":1},"message":"Expected"}"#,
            "a.py:1:8: Expected",
        ),
    ] {
        assert_eq!(shown(document.as_bytes()).as_deref(), Some(expected), "{document}");
    }
    for document in [
        r#"{"time":"2026-11-21","level":"error","message":"no","file":"a.go","line":4}"#,
        r#"{"message":"no","line":4}"#,
        r#"{"message":"no","file":"a.go"}"#,
        r#"{"message":"no","file":"a.go","line":"#,
        r#"{"a":1}"#,
    ] {
        assert!(problems(document.as_bytes()).is_none(), "{document}");
    }
}

#[test]
fn an_error_behind_many_warnings_counts() {
    let warning = r#"{"ruleId":"semi","severity":1,"message":"No","line":2,"column":1},"#.repeat(600);
    let error = r#"{"ruleId":"eol","severity":2,"message":"Bad","line":3,"column":1}"#;
    let document = format!(r#"[{{"filePath":"/w/a.js","messages":[{warning}{error}]}}]"#);
    let events = super::problems(document.as_bytes()).expect("a document");
    let failed = events.last().map(|event| format!("{event:?}")).unwrap_or_default();
    assert!(failed.starts_with("Failed") && failed.contains("Bad"), "{failed}");
}
