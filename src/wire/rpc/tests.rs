use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};

use super::*;

/// The other side of a conversation, scripted line by line.
struct Server {
    from_peer: BufReader<DuplexStream>,
    to_peer: Option<DuplexStream>,
}

impl Server {
    async fn say(&mut self, text: &str) {
        self.to_peer.as_mut().expect("open").write_all(text.as_bytes()).await.unwrap();
    }
    async fn frame(&mut self, value: Value) {
        self.say(&format!("{value}\n")).await;
    }
    async fn heard(&mut self) -> Value {
        let mut line = String::new();
        self.from_peer.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).expect(&line)
    }
    fn hang_up(&mut self) {
        self.to_peer = None;
    }
}

fn connect(config: Config, capacity: usize) -> (Peer, Server) {
    let (to_peer, source) = tokio::io::duplex(capacity);
    let (sink, from_peer) = tokio::io::duplex(capacity);
    let server = Server { from_peer: BufReader::new(from_peer), to_peer: Some(to_peer) };
    (Peer::new(Box::new(source), Box::new(sink), config), server)
}

fn pair() -> (Peer, Server) {
    connect(Config::default(), 64 * 1024)
}

/// Drives the peer until what is queued has left; fails when an event arrives meanwhile.
async fn heard(peer: &mut Peer, server: &mut Server) -> Value {
    tokio::select! {
        frame = server.heard() => frame,
        event = peer.next() => panic!("unexpected {event:?}"),
    }
}

fn response(event: Event) -> (Ticket, Result<Payload, RpcError>) {
    match event {
        Event::Response { ticket, outcome } => (ticket, outcome),
        other => panic!("expected a response, got {other:?}"),
    }
}

fn request(event: Event) -> ServerRequest {
    match event {
        Event::Request(request) => request,
        other => panic!("expected a request, got {other:?}"),
    }
}

/// What a handler saw, as short words.
#[derive(Default)]
struct Seen(Vec<String>);

impl Handler for Seen {
    async fn event(&mut self, event: Event) {
        self.0.push(word(&event));
        if let Event::Request(request) = event {
            request.answer(&json!("ok"));
        }
    }
}

fn word(event: &Event) -> String {
    match event {
        Event::Response { outcome: Ok(p), .. } => format!("response {}", p.text()),
        Event::Response { outcome: Err(e), .. } => format!("failed {e}"),
        Event::Request(r) => format!("request {}", r.method),
        Event::Notification { method, .. } => format!("note {method}"),
        Event::Foreign { text, terminated } => {
            format!("foreign {text}{}", if *terminated { "" } else { " (cut)" })
        }
        Event::Closed(reason) => format!("closed: {reason}"),
    }
}

#[tokio::test]
async fn what_came_before_a_response_is_handled_before_it() {
    let (mut peer, mut server) = pair();
    let mut seen = Seen::default();
    let script = async {
        let asked = server.heard().await;
        assert_eq!(asked, json!({"jsonrpc":"2.0","id":1,"method":"start","params":{"a":1}}));
        server.frame(json!({"method":"one"})).await;
        server.frame(json!({"method":"ask","id":0})).await;
        server.say("banner\n").await;
        server.frame(json!({"id":1,"result":{"b":2}})).await;
        server.frame(json!({"method":"two"})).await;
        server.hang_up();
        assert_eq!(server.heard().await, json!({"jsonrpc":"2.0","id":0,"result":"ok"}));
    };
    let talk = async {
        let got = peer.call(&mut seen, "start", &json!({"a":1}), None).await.unwrap();
        assert_eq!(got.value(), json!({"b":2}));
        assert_eq!(seen.0, ["note one", "request ask", "foreign banner"]);
        assert_eq!(word(&peer.next().await), "note two");
        assert_eq!(word(&peer.next().await), "closed: process exited");
    };
    tokio::join!(script, talk);
}

#[tokio::test]
async fn keys_that_are_present_decide_what_a_line_is() {
    for (line, want) in [
        (r#"{"id":1,"result":null}"#, "response null"),
        (r#"{"id":1,"result":[1e3],"method":"x"}"#, "response [1e3]"),
        (r#"{"id":1.0,"result":{"a":1}}"#, r#"response {"a":1}"#),
        (r#"{"id":"1","result":{}}"#, "response {}"),
        (r#"{"id":1,"result":{},"error":null}"#, "response {}"),
        (r#"{"id":1,"error":{"code":-3,"message":"no"}}"#, "failed m: no (code=-3)"),
        (r#"{"id":1,"result":{},"error":{"message":"no"}}"#, "failed m: no (code=0)"),
        (r#"{"id":1,"error":null}"#, "failed m:  (code=0)"),
        (r#"{"id":1,"error":"plain"}"#, "failed m: plain (code=0)"),
        (r#"{"id":1,"error":{"code":1,"message":"no","data":"why"}}"#, "failed m: no (code=1, data=why)"),
        (
            r#"{"id":1,"error":{"code":1.0,"message":2,"data":{"a":[1]}}}"#,
            r#"failed m:  (code=1, data={"a":[1]})"#,
        ),
        (r#"{"jsonrpc":"2.0","id":9,"method":"a/b"}"#, "request a/b"),
        (r#"{"method":"a/b","id":null,"params":[]}"#, "request a/b"),
        (r#"{"method":"a/b","emittedAtMs":5,"params":{}}"#, "note a/b"),
        (r#"{"method":5}"#, r#"foreign {"method":5}"#),
        (r#"{"result":1}"#, r#"foreign {"result":1}"#),
        ("{}", "foreign {}"),
        ("[1,2]", "foreign [1,2]"),
        (r#"[7,"m",{}]"#, r#"foreign [7,"m",{}]"#),
        ("{\"a\":", "foreign {\"a\":"),
        ("loading…", "foreign loading…"),
        ("\u{1b}[?25l{\"method\":\"m\"}", "note m"),
        (r#"{"method":"lone \ud83d"}"#, "note lone \u{fffd}"),
    ] {
        let (mut peer, mut server) = pair();
        let ticket = peer.request("m", &json!(null), None);
        server.say(&format!("\r\n  \n {line}\r\n")).await;
        let event = peer.next().await;
        assert_eq!(word(&event), want, "{line}");
        if let Event::Response { ticket: t, .. } = event {
            assert_eq!(t, ticket);
        }
    }
}

#[tokio::test]
async fn responses_to_nobody_are_ignored_and_each_request_ends_once() {
    let (mut peer, mut server) = pair();
    let a = peer.request("a", &json!({}), None);
    let b = peer.request("b", &json!({}), None);
    for id in [json!(77), json!(null), json!(-1), json!("x"), json!([1]), json!(1e300)] {
        server.frame(json!({"id":id,"result":"stray"})).await;
    }
    server.frame(json!({"id":2,"result":"B"})).await;
    server.frame(json!({"id":2,"result":"again"})).await;
    server.frame(json!({"id":1,"result":"A"})).await;
    assert_eq!(response(peer.next().await).0, b);
    let (ticket, outcome) = response(peer.next().await);
    assert_eq!((ticket, outcome.unwrap().value()), (a, json!("A")));
}

#[tokio::test]
async fn the_jsonrpc_member_is_configurable_and_a_notification_may_lack_params() {
    let (mut peer, mut server) = connect(Config { jsonrpc: false, ..Config::default() }, 1024);
    peer.notify("initialized", None);
    peer.request("r", &json!([1]), None);
    peer.notify("n", Some(&json!({"x":1})));
    server.frame(json!({"id":"q-7","method":"ask"})).await;
    request(peer.next().await).refuse(code::METHOD_NOT_FOUND, "unknown");
    for want in [
        json!({"method":"initialized"}),
        json!({"id":1,"method":"r","params":[1]}),
        json!({"method":"n","params":{"x":1}}),
        json!({"id":"q-7","error":{"code":-32601,"message":"unknown"}}),
    ] {
        assert_eq!(heard(&mut peer, &mut server).await, want);
    }
}

#[tokio::test]
async fn ids_of_the_other_side_are_echoed_byte_for_byte() {
    let (mut peer, mut server) = pair();
    for id in ["0", "\"q-7\"", "null", "1.0", "18446744073709551616", r#""\u0041""#] {
        server.say(&format!("{{\"id\":{id},\"method\":\"ask\"}}\n")).await;
        request(peer.next().await).answer(&json!({}));
        let mut line = String::new();
        tokio::select! {
            read = server.from_peer.read_line(&mut line) => { read.unwrap(); }
            event = peer.next() => panic!("unexpected {event:?}"),
        }
        assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
    }
}

#[tokio::test]
async fn a_dropped_request_is_answered_with_an_error() {
    let (mut peer, mut server) = pair();
    server.frame(json!({"id":4,"method":"ask"})).await;
    drop(request(peer.next().await));
    let want = json!({"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"no answer to ask"}});
    assert_eq!(heard(&mut peer, &mut server).await, want);
}

#[tokio::test]
async fn a_request_can_be_answered_from_another_task() {
    let (mut peer, mut server) = pair();
    server.frame(json!({"id":4,"method":"ask"})).await;
    let asked = request(peer.next().await);
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        wait.await.unwrap();
        asked.answer(&json!("late"));
    });
    let script = async {
        go.send(()).unwrap();
        server.heard().await
    };
    let got = tokio::select! {
        got = script => got,
        event = peer.next() => panic!("unexpected {event:?}"),
    };
    assert_eq!(got["result"], "late");
}

#[tokio::test]
async fn the_end_fails_every_pending_request_and_every_later_one() {
    let (mut peer, mut server) = pair();
    let a = peer.request("a", &json!({}), None);
    let b = peer.request("b", &json!({}), Some(Duration::from_secs(600)));
    server.say("{\"method\":\"last\"}").await;
    server.hang_up();
    assert_eq!(word(&peer.next().await), "note last", "a last line without its end still counts");
    for (ticket, method) in [(a, "a"), (b, "b")] {
        let (t, outcome) = response(peer.next().await);
        assert_eq!(t, ticket);
        let closed = RpcError::Closed { method: method.into(), reason: CloseReason::Eof };
        assert_eq!(outcome, Err(closed));
    }
    assert_eq!(word(&peer.next().await), "closed: process exited");
    let late = peer.call(&mut Seen::default(), "late", &json!({}), None).await.unwrap_err();
    assert_eq!(late.to_string(), "process exited");
    assert_eq!(word(&peer.next().await), "closed: process exited");
}

#[tokio::test]
async fn a_cut_last_line_is_told_as_cut() {
    let (mut peer, mut server) = pair();
    server.say("{\"id\":1,\"res").await;
    server.hang_up();
    assert_eq!(word(&peer.next().await), "foreign {\"id\":1,\"res (cut)");
    assert!(matches!(peer.next().await, Event::Closed(CloseReason::Eof)));
}

#[tokio::test]
async fn a_line_over_the_limit_ends_the_conversation() {
    let (mut peer, mut server) = connect(Config { max_line: 1000, ..Config::default() }, 64 * 1024);
    let ticket = peer.request("a", &json!({}), None);
    server.say(&format!("{{\"id\":1,\"result\":\"{}\"}}\n", "x".repeat(990))).await;
    let (t, outcome) = response(peer.next().await);
    assert_eq!(t, ticket);
    assert!(outcome.is_ok(), "a line the reader got whole is used");
    peer.request("b", &json!({}), None);
    server.say(&"y".repeat(5000)).await;
    let (_, outcome) = response(peer.next().await);
    let reason = CloseReason::LineTooLong(1000);
    assert_eq!(outcome, Err(RpcError::Closed { method: "b".into(), reason: reason.clone() }));
    assert!(matches!(peer.next().await, Event::Closed(r) if r == reason));
}

#[tokio::test(start_paused = true)]
async fn each_request_has_its_own_limit_and_a_late_response_is_ignored() {
    let (mut peer, mut server) = pair();
    let slow = peer.request("slow", &json!({}), Some(Duration::from_secs(60)));
    let free = peer.request("free", &json!({}), None);
    let fast = peer.request("fast", &json!({}), Some(Duration::from_millis(1500)));
    let start = Instant::now();
    let (ticket, outcome) = response(peer.next().await);
    assert_eq!((ticket, start.elapsed().as_millis() / 100), (fast, 15));
    assert_eq!(outcome.unwrap_err().to_string(), "fast did not respond after 1.5s");
    assert_eq!(response(peer.next().await).0, slow);
    assert_eq!(start.elapsed().as_secs(), 60);
    server.frame(json!({"id":1,"result":"late"})).await;
    server.frame(json!({"id":2,"result":"fine"})).await;
    let (ticket, outcome) = response(peer.next().await);
    assert_eq!((ticket, outcome.unwrap().value()), (free, json!("fine")));
}

#[tokio::test(start_paused = true)]
async fn a_response_in_the_pipe_beats_a_limit_that_passed_while_nobody_read() {
    let (mut peer, mut server) = pair();
    peer.request("a", &json!({}), Some(Duration::from_secs(1)));
    assert_eq!(heard(&mut peer, &mut server).await["method"], "a");
    server.frame(json!({"method":"before"})).await;
    server.frame(json!({"id":1,"result":1})).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(word(&peer.next().await), "note before");
    assert_eq!(word(&peer.next().await), "response 1");
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_kept_although_the_server_never_stops_talking() {
    let (mut peer, mut server) = connect(Config::default(), 256);
    let chatter = tokio::spawn(async move {
        loop {
            let tick = b"{\"method\":\"tick\"}\n";
            if server.to_peer.as_mut().unwrap().write_all(tick).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut seen = Seen::default();
    let limit = Some(Duration::from_secs(2));
    let error = peer.call(&mut seen, "a", &json!({}), limit).await.unwrap_err();
    assert!(matches!(error, RpcError::Timeout { .. }), "{error}");
    assert!(seen.0.len() >= 19, "{}", seen.0.len());
    drop(peer);
    chatter.await.unwrap();
}

#[tokio::test]
async fn a_server_that_writes_before_it_reads_does_not_block_us() {
    let (mut peer, mut server) = connect(Config::default(), 512);
    let prompt = "p".repeat(512 * 1024);
    let script = async {
        for _ in 0..2000 {
            server.frame(json!({"method":"noise","params":{"pad":"n".repeat(200)}})).await;
        }
        let asked = server.heard().await;
        assert_eq!(asked["params"]["prompt"].as_str().unwrap().len(), 512 * 1024);
        server.frame(json!({"id":1,"result":"ok"})).await;
        server
    };
    let mut seen = Seen::default();
    let params = json!({ "prompt": prompt });
    let (_server, got) = tokio::join!(script, peer.call(&mut seen, "go", &params, None));
    assert_eq!(got.unwrap().value(), json!("ok"));
    assert_eq!(seen.0.len(), 2000);
}

#[tokio::test]
async fn frames_leave_whole_and_in_order_when_the_waiting_future_is_dropped() {
    let (mut peer, mut server) = connect(Config::default(), 64);
    for n in 0..50 {
        peer.request("r", &json!({"n":n,"pad":"x".repeat(100)}), None);
    }
    let mut reading = tokio::spawn(async move {
        for want in 0..50 {
            assert_eq!(server.heard().await["params"]["n"], want);
        }
    });
    loop {
        // One poll of `next`, then its future is dropped in the middle of a frame.
        tokio::select! {
            biased;
            event = peer.next() => panic!("{event:?}"),
            () = std::future::ready(()) => {}
        }
        tokio::task::yield_now().await;
        if reading.is_finished() {
            break (&mut reading).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_error_waits_for_the_last_words_and_then_fails_the_request() {
    let (mut peer, server) = pair();
    let Server { from_peer, mut to_peer } = server;
    drop(from_peer);
    let ticket = peer.request("a", &json!({}), None);
    to_peer.as_mut().unwrap().write_all(b"last words\n").await.unwrap();
    assert_eq!(word(&peer.next().await), "foreign last words");
    let (t, outcome) = response(peer.next().await);
    assert_eq!(t, ticket);
    assert!(outcome.unwrap_err().to_string().starts_with("write a: "));
    let late = peer.call(&mut Seen::default(), "late", &json!({}), None).await.unwrap_err();
    assert!(matches!(late, RpcError::Write { .. }));
    to_peer.take();
    assert_eq!(word(&peer.next().await), "closed: process exited");
}

#[tokio::test]
async fn a_write_error_followed_by_the_end_is_the_end() {
    let (mut peer, server) = pair();
    drop(server);
    peer.request("a", &json!({}), None);
    let (_, outcome) = response(peer.next().await);
    assert_eq!(outcome.unwrap_err().to_string(), "process exited");
}

#[tokio::test]
async fn closing_the_input_lets_everything_queued_leave_first() {
    let (mut peer, mut server) = connect(Config::default(), 16);
    peer.notify("bye", Some(&json!({"pad":"x".repeat(500)})));
    peer.close_input();
    let script = async {
        let mut all = String::new();
        server.from_peer.read_to_string(&mut all).await.unwrap();
        server.hang_up();
        all
    };
    let (all, last) = tokio::join!(script, peer.next());
    assert!(all.starts_with("{\"jsonrpc\"") && all.ends_with("}\n"));
    assert_eq!(word(&last), "closed: process exited");
    let late = peer.call(&mut Seen::default(), "late", &json!({}), None).await.unwrap_err();
    assert_eq!(late.to_string(), "process exited");
}

#[tokio::test]
async fn a_server_that_never_reads_its_answers_ends_the_conversation() {
    let (mut peer, mut server) = connect(Config::default(), 1024);
    let big = "z".repeat(MAX_UNREAD_ANSWER_BYTES / 4);
    for id in 0..4 {
        server.frame(json!({"id":id,"method":"ask"})).await;
        request(peer.next().await).answer(&big);
    }
    assert!(matches!(peer.next().await, Event::Closed(CloseReason::Stuck(n)) if n > MAX_UNREAD_ANSWER_BYTES));
}

#[tokio::test]
async fn payloads_keep_numbers_and_deep_nesting_as_written() {
    let (mut peer, mut server) = pair();
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    let params = format!("{{\"n\":12345678901234567890123,\"z\":1.50,\"a\":{deep}}}");
    server.say(&format!("{{\"method\":\"m\",\"params\":{params}}}\n")).await;
    let Event::Notification { params: got, .. } = peer.next().await else { panic!() };
    assert_eq!(got.text(), params);
    assert_eq!(format!("{got:?}"), format!("Payload({} bytes)", params.len()));
}
