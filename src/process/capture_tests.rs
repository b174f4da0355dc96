#![cfg(unix)]

use super::*;
use crate::contract::Os;
use crate::contract::options::EnvList;

/// Writes an executable script. Another process does the writing: a file this one has open for writing may be
/// inherited by a child that another test is starting just now, and executing it then fails with ETXTBSY.
pub fn script(path: &std::path::Path, text: &str) {
    use std::io::Write;
    let mut writer = std::process::Command::new("/bin/sh")
        .args(["-c", "mkdir -p \"${1%/*}\" && cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// Waits until no process of this id is left but a zombie somebody else has to reap.
pub async fn gone(pid: &str) {
    let alive = || {
        let state = std::process::Command::new("ps").args(["-o", "state=", "-p", pid]).output().unwrap();
        let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    };
    let waited = timeout(Duration::from_secs(10), async {
        while alive() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "process {pid} is still there");
}

/// Runs something that hangs after it wrote its child's id to `pid`, with a limit short enough for a test and, on a
/// machine too busy to get that far, a longer one.
pub async fn cut_off(pid: &std::path::Path, run: impl AsyncFn(Duration)) {
    for limit in [500, 5_000, 60_000].map(Duration::from_millis) {
        run(limit).await;
        if let Ok(pid) = std::fs::read_to_string(pid) {
            gone(pid.trim()).await;
            return;
        }
    }
    panic!("{} was never written", pid.display());
}

fn env(folder: &std::path::Path) -> ChildEnv {
    let vars = [("PATH", "/usr/bin:/bin"), ("D", folder.to_str().unwrap())];
    let vars = vars.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    ChildEnv::new(&EnvList::default(), &EnvList(vars), Os::current())
}

async fn sh(script: &str, folder: &std::path::Path, bounds: Bounds) -> Result<Captured, CaptureError> {
    let args = ["-c".to_owned(), script.to_owned()];
    capture("/bin/sh".as_ref(), &args, &env(folder), bounds, Apart::Group).await
}

fn pid_in(folder: &std::path::Path) -> String {
    std::fs::read_to_string(folder.join("pid")).unwrap().trim().to_owned()
}

#[tokio::test]
async fn both_streams_and_the_exit_status_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let got = sh(
        "printf 'a\\377'; echo b >&2; cat; exit 3",
        folder.path(),
        Bounds::within(Duration::from_secs(30)),
    )
    .await
    .unwrap();
    assert_eq!((got.stdout.as_str(), got.stderr.as_str()), ("a\u{fffd}", "b\n"));
    assert_eq!((got.status.code(), got.pipes_held), (Some(3), false));
}

#[tokio::test]
async fn output_beyond_the_bound_is_read_but_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { bytes: 1000, ..Bounds::within(Duration::from_secs(30)) };
    let got =
        sh("head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2", folder.path(), bounds).await.unwrap();
    assert_eq!((got.stdout.len(), got.stderr.as_str()), (1000, "end\n"));
}

#[tokio::test]
async fn a_descendant_that_keeps_the_pipes_open_delays_no_one_for_long() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { drain: Duration::from_millis(200), ..Bounds::within(Duration::from_secs(30)) };
    let got = sh("sleep 600 & echo $! > $D/pid; echo 1.2.3", folder.path(), bounds).await.unwrap();
    assert_eq!((got.stdout.as_str(), got.pipes_held), ("1.2.3\n", true));
    gone(&pid_in(folder.path())).await;
}

#[tokio::test]
async fn time_is_bounded_and_the_whole_group_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    cut_off(&folder.path().join("pid"), async |limit| {
        let script = "trap '' TERM; sleep 600 & echo $! > $D/tmp; mv $D/tmp $D/pid; wait";
        let e = sh(script, folder.path(), Bounds::within(limit)).await.unwrap_err();
        assert_eq!(e.to_string(), format!("it did not end within {}", duration::format(limit)));
    })
    .await;
}

#[tokio::test]
async fn dropping_the_call_ends_the_group_too() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let call = sh(
        "sleep 600 & echo $! > $D/tmp; mv $D/tmp $D/pid; wait",
        folder.path(),
        Bounds::within(Duration::MAX),
    );
    tokio::select! {
        _ = call => unreachable!("it waits for ten minutes"),
        _ = async { while !pid.exists() { tokio::task::yield_now().await } } => {}
    }
    gone(&pid_in(folder.path())).await;
}

#[tokio::test]
async fn nothing_is_inherited_but_the_given_environment() {
    let folder = tempfile::tempdir().unwrap();
    let got = sh("env", folder.path(), Bounds::within(Duration::from_secs(30))).await.unwrap();
    assert!(got.stdout.contains("D=") && !got.stdout.contains("CARGO"), "{}", got.stdout);
}
