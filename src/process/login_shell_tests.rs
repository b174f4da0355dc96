use std::time::Duration;

use super::*;
use crate::contract::Os;
use crate::contract::options::EnvList;

fn env(entries: &[(&str, &str)]) -> ChildEnv {
    let entries = entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    ChildEnv::new(&EnvList::default(), &EnvList(entries), Os::Linux)
}

#[tokio::test]
async fn only_shells_with_known_options_are_asked() {
    for shell in ["/usr/bin/fish", "zsh", "", "/bin/", "/opt/nu"] {
        assert_eq!(ask(&env(&[("SHELL", shell)])).await, None, "{shell}");
    }
    assert_eq!(ask(&env(&[])).await, None);
    assert!(is_known("/opt/homebrew/bin/bash"));
}

#[test]
fn what_start_up_files_print_is_passed_over() {
    for (output, path) in
        [("hello\nM/a:/b M bye", Some("/a:/b ")), ("MM", Some("")), ("M/a", None), ("", None)]
    {
        assert_eq!(between(output, "M"), path, "{output}");
    }
}

#[test]
fn answers_are_kept_for_half_an_hour_and_in_a_bounded_number() {
    let cache = Cache::default();
    let start = Instant::now();
    let key = |n: usize| [format!("/{n}"), String::new(), String::new()];
    let fill = |n| cache.cell(&key(n), start).set((start, Ok(Vec::new()))).unwrap();
    fill(0);
    let almost = start + LOGIN_SHELL_CACHE - Duration::from_secs(1);
    assert!(cache.cell(&key(0), almost).get().is_some());
    assert!(cache.cell(&key(1), almost).get().is_none(), "another PATH is another question");
    assert!(cache.cell(&key(0), start + LOGIN_SHELL_CACHE).get().is_none());
    for n in 0..10 * CACHE_ENTRIES {
        cache.cell(&key(n), start);
    }
    assert!(cache.0.lock().unwrap().len() <= CACHE_ENTRIES);
}

#[cfg(unix)]
mod with_a_shell {
    use std::path::Path;

    use super::*;
    use crate::contract::duration;
    use crate::process::capture::testing::{cut_off, script};

    fn answer(folders: &[&Path]) -> Result<Vec<PathBuf>, String> {
        Ok(folders.iter().map(|f| f.to_path_buf()).collect())
    }

    /// bash with the user's own start-up files: noise, an alias and functions in the way, an exported one too.
    #[tokio::test]
    async fn a_real_shell_tells_its_path_whatever_its_start_up_files_do() {
        if !Path::new("/bin/bash").exists() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let bin = home.join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(&bin, home.join("link")).unwrap();
        let profile = "echo noise; echo more >&2\n\
                       printf() { echo function; }; export -f printf\n\
                       alias printf='echo alias'\n\
                       PATH=\"$HOME/link:relative:/no/such/folder:$HOME/bin\"\n";
        std::fs::write(home.join(".bash_profile"), profile).unwrap();
        let home_text = home.to_str().unwrap();
        let env = env(&[("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/bash"), ("HOME", home_text)]);
        let asked = ask(&env).await.unwrap();
        assert_eq!(asked, Answer { shell: "/bin/bash".to_owned(), folders: answer(&[&bin]) });
    }

    #[tokio::test]
    async fn one_answer_serves_concurrent_and_later_calls() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let shell = home.join("zsh");
        script(&shell, "#!/bin/sh\necho x >> \"$HOME/asked\"\nPATH=\"$HOME\"\neval \"$2\"\n");
        let env = env(&[
            ("PATH", "/usr/bin:/bin"),
            ("SHELL", shell.to_str().unwrap()),
            ("HOME", home.to_str().unwrap()),
        ]);
        let (a, b) = tokio::join!(ask(&env), ask(&env));
        assert_eq!(a.as_ref().unwrap().folders, answer(&[&home]));
        assert_eq!(a, b);
        assert_eq!(a, ask(&env).await);
        assert_eq!(std::fs::read_to_string(home.join("asked")).unwrap(), "x\n");
    }

    #[tokio::test]
    async fn a_shell_that_hangs_is_ended_with_its_children() {
        let home = tempfile::tempdir().unwrap();
        let shell = home.path().join("bash");
        script(
            &shell,
            "#!/bin/sh\nsleep 600 &\necho $! > \"$HOME/tmp\"; mv \"$HOME/tmp\" \"$HOME/pid\"\nwait\n",
        );
        let env = env(&[("PATH", "/usr/bin:/bin"), ("HOME", home.path().to_str().unwrap())]);
        cut_off(&home.path().join("pid"), async |limit| {
            let e = query(shell.to_str().unwrap(), &env, Bounds::within(limit)).await.unwrap_err();
            assert_eq!(e, format!("it did not end within {}", duration::format(limit)));
        })
        .await;
    }

    #[tokio::test]
    async fn a_shell_that_says_nothing_is_told_as_such() {
        let home = tempfile::tempdir().unwrap();
        let shell = home.path().join("sh");
        script(&shell, "#!/bin/sh\nexit 3\n");
        let env = env(&[("PATH", "/usr/bin:/bin")]);
        let bounds = Bounds::within(LOGIN_SHELL_TIMEOUT);
        let e = query(shell.to_str().unwrap(), &env, bounds).await.unwrap_err();
        assert_eq!(e, "it did not tell its PATH");
        let e = query("/no/such/bash", &env, bounds).await.unwrap_err();
        assert!(e.starts_with("it cannot be started: "), "{e}");
    }
}
