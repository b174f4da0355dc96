use super::*;
use crate::contract::Os;
use crate::contract::options::EnvList;
use crate::process::capture::testing;

struct Stand {
    folder: tempfile::TempDir,
}

impl Stand {
    /// A CLI that notes each of its runs.
    fn new(script: &str) -> Stand {
        let stand = Stand { folder: tempfile::tempdir().unwrap() };
        stand.write(script);
        stand
    }
    fn write(&self, script: &str) {
        let text = format!("#!/bin/sh\necho \"$*\" >> \"$D/runs\"\n{script}\n");
        testing::script(&self.at("cli"), &text);
    }
    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
    fn prober(&self, prefix: &[&str]) -> Prober {
        let vars = [("PATH", "/usr/bin:/bin"), ("D", self.folder.path().to_str().unwrap())];
        let vars = vars.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        let env = ChildEnv::new(&EnvList::default(), &EnvList(vars), Os::current());
        Prober::new(self.at("cli"), prefix.iter().map(|p| p.to_string()).collect(), env)
    }
    fn runs(&self) -> Vec<String> {
        let runs = std::fs::read_to_string(self.at("runs")).unwrap_or_default();
        runs.lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_probe_runs_once_however_often_and_by_whom_it_is_asked() {
    let stand = Stand::new("echo out; echo err >&2");
    let (one, two) = (stand.prober(&[]), stand.prober(&[]));
    let (a, b) = tokio::join!(one.run(&["--help"]), two.run(&["--help"]));
    assert_eq!(a, b);
    let a = a.unwrap();
    assert_eq!((a.stdout.as_str(), a.stderr.as_str(), a.success), ("out\n", "err\n", true));
    assert_eq!(stand.prober(&[]).run(&["--help"]).await, Ok(a));
    assert_eq!(stand.runs(), ["--help"]);
    one.run(&["run", "--help"]).await.unwrap();
    stand.prober(&["wrap", "x"]).run(&["--help"]).await.unwrap();
    assert_eq!(stand.runs(), ["--help", "run --help", "wrap x --help"]);
    one.run_anew(&["--help"], PROBE_TIMEOUT).await.unwrap();
    assert_eq!(stand.runs().len(), 4);
}

#[tokio::test]
async fn an_update_of_the_executable_or_its_script_is_noticed() {
    let stand = Stand::new("echo 1.0.0");
    std::fs::write(stand.at("script.js"), "a").unwrap();
    let script = stand.at("script.js");
    let prober = stand.prober(&[script.to_str().unwrap()]);
    assert_eq!(prober.cached_version(), None);
    assert_eq!(prober.version().await, Ok(Version::new(1, 0, 0)));
    assert_eq!(prober.cached_version(), Some(Version::new(1, 0, 0)));
    stand.write("echo 1.0.0 and longer");
    assert_eq!(prober.cached_version(), None);
    prober.version().await.unwrap();
    std::fs::write(&script, "ab").unwrap();
    assert_eq!(prober.cached_version(), None);
    prober.version().await.unwrap();
    assert_eq!(stand.runs().len(), 3);
}

#[tokio::test]
async fn failures_are_told_and_tried_again() {
    let stand = Stand::new("echo 1.2.3; echo warming up >&2; echo 'no node here, token=abc' >&2; exit 3");
    let prober = stand.prober(&[]);
    let e = prober.version().await.unwrap_err();
    let start = format!("detect version for {}: exit status: 3: no node here, ", stand.at("cli").display());
    assert!(e.starts_with(&start) && !e.contains("abc"), "{e}");
    assert!(!prober.run(&["--help"]).await.unwrap().success);
    assert_eq!(prober.cached_version(), None);
    stand.write("echo 1.2.4");
    assert_eq!(prober.version().await, Ok(Version::new(1, 2, 4)));
    let gone = Prober::new("/no/such/cli".into(), Vec::new(), prober.env.clone());
    let e = gone.version().await.unwrap_err();
    assert!(e.starts_with("detect version for /no/such/cli: it cannot be started: "), "{e}");
    stand.write("echo hello");
    let e = prober.version().await.unwrap_err();
    assert!(e.ends_with("no version is in what it printed"), "{e}");
    assert_eq!(prober.version_line().await, Ok("hello".to_owned()));
}

#[tokio::test]
async fn a_hanging_probe_ends_with_its_descendants_and_is_tried_again() {
    let stand = Stand::new("sleep 600 & echo $! > $D/tmp; mv $D/tmp $D/pid; echo 1.2.3; wait");
    let prober = stand.prober(&[]);
    testing::cut_off(&stand.at("pid"), async |limit| {
        let e = prober.version_within(Bounds::within(limit)).await.unwrap_err();
        assert!(e.contains("it did not end within "), "{e}");
    })
    .await;
    stand.write("echo 1.2.3");
    assert_eq!(prober.version().await, Ok(Version::new(1, 2, 3)));
}

#[tokio::test]
async fn output_that_stays_open_counts_only_with_a_version_in_it() {
    for (prints, expected) in [("1.2.3 (x)", Some("1.2.3 (x)")), ("starting", None)] {
        let stand = Stand::new(&format!("sleep 600 & echo '{prints}'"));
        let bounds = Bounds { drain: Duration::from_millis(200), ..Bounds::within(Duration::from_secs(30)) };
        let line = stand.prober(&[]).version_within(bounds).await;
        assert_eq!(line.as_deref().ok(), expected, "{line:?}");
    }
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_the_probe_to_the_others() {
    let stand = Stand::new("while ! test -e $D/go; do :; done; echo 1.2.3");
    let prober = stand.prober(&[]);
    {
        let first = prober.version();
        tokio::pin!(first);
        assert!(poll_once(first.as_mut()).await.is_none());
    }
    let second = prober.version();
    tokio::pin!(second);
    assert!(poll_once(second.as_mut()).await.is_none());
    std::fs::write(stand.at("go"), "").unwrap();
    assert_eq!(second.await, Ok(Version::new(1, 2, 3)));
    assert_eq!(stand.runs().len(), 1);
}

/// Polls once.
async fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    tokio::select! { biased; out = future => Some(out), _ = std::future::ready(()) => None }
}

#[test]
fn a_runtime_that_shuts_down_leaves_no_stuck_probe() {
    let stand = Stand::new("test -e $D/go || sleep 600; echo 1.2.3");
    let prober = stand.prober(&[]);
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let first = runtime();
    let running = first.block_on(async {
        let version = prober.version();
        tokio::pin!(version);
        poll_once(version).await
    });
    assert_eq!(running, None);
    drop(first);
    std::fs::write(stand.at("go"), "").unwrap();
    assert_eq!(runtime().block_on(prober.version()), Ok(Version::new(1, 2, 3)));
}
