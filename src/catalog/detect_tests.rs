use super::*;
use crate::catalog::testing::agent;
use crate::contract::options::EnvList;

fn env(folder: &Path) -> ChildEnv {
    let path = format!("{}:/usr/bin:/bin", folder.display());
    ChildEnv::new(&EnvList::default(), &EnvList(vec![("PATH".into(), path)]), Os::current())
}

fn install(folder: &Path, script: &str) -> String {
    let path = folder.join("x");
    crate::process::capture::testing::script(&path, &format!("#!/bin/sh\n{script}\n"));
    path.to_str().unwrap().to_owned()
}

async fn detected(agent: &Agent, folder: &Path) -> Detection {
    detect(agent, Look { explicit: None, prefix: &[], env: &env(folder), os: Os::current() }).await
}

#[tokio::test]
async fn each_state_of_an_installation_is_told_apart() {
    let ok = "stand-in version 1.9.0 is below minimum required 2.0.0";
    for (min, script, version, version_ok, error) in [
        (Some("2.0.0"), "echo 'x 2.1.5 (X)'", Some("2.1.5"), Some(true), None),
        (None, "echo build-7", Some("build-7"), Some(true), None),
        (None, "echo", None, Some(true), None),
        (Some("2.0.0"), "echo 1.9.0", Some("1.9.0"), Some(false), Some(ok)),
        (Some("2.0.0"), "echo build-7", Some("build-7"), None, Some("did not tell a version")),
        (Some("2.0.0"), "echo 2.0.0; echo broken >&2; exit 1", None, None, Some("exit status: 1: broken")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = install(folder.path(), script);
        let got = detected(&agent(min, &["x"]), folder.path()).await;
        assert!(got.found);
        assert_eq!((got.path.as_deref(), got.via), (Some(&*path), Some(Via::Path)));
        assert_eq!((got.version.as_deref(), got.version_ok), (version, version_ok), "{script}");
        match error {
            Some(part) => assert!(got.error.as_deref().unwrap().contains(part), "{:?}", got.error),
            None => assert_eq!(got.error, None),
        }
    }
}

#[tokio::test]
async fn what_is_missing_says_where_it_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let got = detected(&agent(None, &["no-such-cli-anywhere"]), folder.path()).await;
    assert_eq!((got.found, &got.path, got.via, &got.version), (false, &None, None, &None));
    assert!(got.error.unwrap().contains("executable not found at \"no-such-cli-anywhere\""));
}

#[tokio::test]
async fn a_later_start_knows_the_version_without_asking() {
    let folder = tempfile::tempdir().unwrap();
    let path = install(folder.path(), "test \"$1 $2\" = 'wrap --version' && echo 3.2.1");
    let prefix = ["wrap".to_owned(), "--blocked".to_owned()];
    let agent = agent(None, &["other-name"]);
    let look = Look {
        explicit: Some(Path::new(&path)),
        prefix: &prefix,
        env: &env(folder.path()),
        os: Os::current(),
    };
    let got = detect(&agent, look).await;
    assert_eq!((got.version.as_deref(), got.via), (Some("3.2.1"), Some(Via::ExecutablePath)));
    let prober = Prober::new(path.into(), vec!["wrap".to_owned()], env(folder.path()));
    assert_eq!(prober.cached_version(), Some(semver::Version::new(3, 2, 1)));
    let json = serde_json::to_value(&got).unwrap();
    assert_eq!((&json["via"], &json["versionOk"]), (&"executable-path".into(), &true.into()));
    assert!(json.get("error").is_none());
}
