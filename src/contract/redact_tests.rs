use super::*;

fn alice(text: &str) -> String {
    redact(text, Some("/home/alice"), Some("alice"))
}

fn n(letter: &str, times: usize) -> String {
    letter.repeat(times)
}

/// (in, out); `None` = unchanged.
fn table() -> Vec<(String, Option<String>)> {
    let ghp = format!("ghp_{}", n("A", 36));
    let jwt = format!("eyJ{0}.eyJ{0}.{0}", n("a", 12));
    let mut table: Vec<(String, Option<String>)> = [
        ("Authorization: Bearer fake-token-value-0001", "Authorization: [REDACTED]"),
        (
            "HTTP 401 authorization : Basic ZmFrZQ\nnext line",
            "HTTP 401 authorization : [REDACTED]\nnext line",
        ),
        (
            r#"{"token":"fake-tok","user":"bob","apiKey":"fake \" q"}"#,
            r#"{"token":"[REDACTED]","user":"bob","apiKey":"[REDACTED]"}"#,
        ),
        (
            r#"{"access_token" : "x\\","x-api-key":"y","n":1}"#,
            r#"{"access_token" : "[REDACTED]","x-api-key":"[REDACTED]","n":1}"#,
        ),
        (r#"cut {"clientSecret":"abc\"#, r#"cut {"clientSecret":"[REDACTED]""#),
        (
            r#"{"error":"{\"api_key\":\"fake\\\"q\",\"model\":\"m\"}"}"#,
            r#"{"error":"{\"api_key\":\"[REDACTED]\",\"model\":\"m\"}"}"#,
        ),
        ("token=fake123, next=ok", "[REDACTED CREDENTIAL] next=ok"),
        ("api_key: fakeval; mode=x", "[REDACTED CREDENTIAL] mode=x"),
        ("auth:fakeauth", "auth:[REDACTED]"),
        ("my_auth: Bearer fake end", "my_auth: [REDACTED] end"),
        ("x-api-key: \"two words\", b", "x-api-key: [REDACTED], b"),
        ("id AKIAFAKEFAKEFAKE0000 here", "id [REDACTED AWS KEY] here"),
        ("hdr Bearer fake.token-1 tail", "hdr Bearer [REDACTED] tail"),
        ("hdr bearer\tabc== tail", "hdr Bearer [REDACTED] tail"),
        ("dial postgres://u:fakepw@127.0.0.1:5432/db", "dial [REDACTED CONNECTION STRING]@127.0.0.1:5432/db"),
        ("mongodb+srv://u:p@ss@h/db", "[REDACTED CONNECTION STRING]@h/db"),
        ("redis://:pw@h", "[REDACTED CONNECTION STRING]@h"),
        ("via http://me:pw@proxy:3128/", "via http://me:[REDACTED]@proxy:3128/"),
        ("DB_PASSWORD: hunter2-fake", "[REDACTED CREDENTIAL]"),
        ("Database_URL = x://y z", "[REDACTED CREDENTIAL] z"),
        (
            "k -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- t",
            "k [REDACTED PRIVATE KEY] t",
        ),
        ("k -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwgg", "k [REDACTED PRIVATE KEY]"),
        ("want -----BEGIN PRIVATE KEY----- here", "want [REDACTED PRIVATE KEY] here"),
        ("key sk-fake0fake0fake0fake0fake0 end", "key [REDACTED API KEY] end"),
        ("u=%20sk-ant-fake0fake0fake0fake0,", "u=%20[REDACTED API KEY],"),
        ("xoxb-1234567890ab xapp-1234567890", "[REDACTED SLACK TOKEN] [REDACTED SLACK TOKEN]"),
        ("glpat-abcdefghij0123456789", "[REDACTED GITLAB TOKEN]"),
        ("open /home/alice/p/a.txt, /home/alice", "open /home/****/p/a.txt, /home/****"),
        ("\x1b[31mred\x1b[0m\r\nnext\ttab\0", "red\nnext\ttab"),
        ("\x1b[91m\x1b[1mError: \x1b[0mSession not found", "Error: Session not found"),
        ("\x1b]0;title\x07a\x1b]8;;u\x1b\\b\x1b[?25hc\x1bMd\x1b", "abcd"),
        ("key sk-\x1b[1mabcdefghijklmnopqrstuvwx", "key [REDACTED API KEY]"),
    ]
    .map(|(text, out)| (text.to_owned(), Some(out.to_owned())))
    .into();
    table.extend([
        (format!("clone {ghp} done"), Some("clone [REDACTED GITHUB TOKEN] done".into())),
        (format!("GITHUB_TOKEN={ghp}"), Some("GITHUB_[REDACTED CREDENTIAL]".into())),
        (format!("github_pat_{}", n("b", 22)), Some("[REDACTED GITHUB TOKEN]".into())),
        (format!("m AIza{}\" tail", n("F", 35)), Some("m [REDACTED GOOGLE API KEY]\" tail".into())),
        (format!("AIza{}", n("F", 35)), Some("[REDACTED GOOGLE API KEY]".into())),
        (
            format!("p sk_live_{0} / pk_live_{0}", n("f", 16)),
            Some(format!("p [REDACTED STRIPE KEY] / pk_live_{}", n("f", 16))),
        ),
        (format!("rk_live_{}", n("f", 16)), Some("[REDACTED STRIPE KEY]".into())),
        (format!("j {jwt}, x"), Some("j [REDACTED JWT], x".into())),
        (format!("aws_secret_access_key = {} x", n("a", 40)), Some("[REDACTED AWS SECRET] x".into())),
        (format!(r#"{{"SecretAccessKey": "{}"}}"#, n("a", 40)), Some(r#"{"[REDACTED AWS SECRET]"}"#.into())),
    ]);
    table.extend(
        [
            "max_tokens=4096",
            "author: Jane",
            "tokenizer = bpe",
            r#""max_tokens":"4096""#,
            "fix: keep the token count when a session ends",
            "skip-navigation",
            "/tmp/task-management-configuration-folder/x",
            "/tmp/test-workspace/project",
            "/api/issues/123",
            "monkeypatching.configuration.everything",
            "http://host:8080/@scope/pkg",
            "XAKIAFAKEFAKEFAKE0000",
            "/home/bob/alice",
            "日本語 ünïcode",
            "",
        ]
        .map(|text| (text.to_owned(), None)),
    );
    table
}

#[test]
fn secrets_go_and_their_neighbours_stay() {
    for (text, out) in table() {
        assert_eq!(alice(&text), out.clone().unwrap_or_else(|| text.clone()), "{text}");
    }
}

#[test]
fn redacting_twice_changes_nothing_more() {
    for (text, _) in table() {
        let once = alice(&text);
        assert_eq!(alice(&once), once, "{text}");
    }
}

#[test]
fn the_home_folder_loses_the_user_name() {
    for (home, user, text, out) in [
        ("/home/me", "me", "/home/me/x", "/home/****/x"),
        ("/home/me/", "me", "/home/me", "/home/****"),
        ("/data/alice-home", "alice", "/data/alice-home/x", "/data/****-home/x"),
        ("/var/empty", "alice", "/var/empty/alice", "/var/empty/alice"),
        ("/", "root", "/root", "/root"),
        ("", "alice", "alice", "alice"),
        ("/home/alice", "", "/home/alice", "/home/alice"),
        (r"C:\Users\Al", "Al", r"C:\Users\Al\x", r"C:\Users\****\x"),
        (r"C:\Users\Al", "Al", r#""C:\\Users\\Al\\x""#, r#""C:\\Users\\****\\x""#),
        (r"C:\Users\Al", "Al", "file:///C:/Users/Al/x", "file:///C:/Users/****/x"),
    ] {
        assert_eq!(redact(text, Some(home), Some(user)), out, "{home} {text}");
    }
    for (home, user) in [(None, Some("alice")), (Some("/home/alice"), None), (None, None)] {
        assert_eq!(redact("/home/alice", home, user), "/home/alice");
    }
}

#[test]
fn a_megabyte_of_near_misses_is_no_trouble() {
    // Backtracking engines need quadratic time for these.
    for piece in ["\"a_", "sk-", "://a:", "-----BEGIN PRIVATE KEY-----", "token ", "\\\"", "ey-.", " \n\t"] {
        let text = piece.repeat((1 << 20) / piece.len());
        assert!(!alice(&text).is_empty());
    }
}

#[test]
fn text_that_is_no_diagnostic_loses_only_what_has_the_shape_of_a_credential() {
    for unchanged in ["let token = read();", "password: String,", "API_KEY=$1", "a\r\nb", "\"secret\": \"x\""]
    {
        assert_eq!(redact_credentials(unchanged), unchanged);
    }
    let key = format!("ghp_{}", "A".repeat(36));
    assert_eq!(redact_credentials(&format!("x={key};")), "x=[REDACTED GITHUB TOKEN];");
    assert_eq!(redact_credentials("h: Bearer abc"), "h: Bearer [REDACTED]");
}
