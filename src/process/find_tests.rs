use super::*;
use crate::contract::options::EnvList;

fn env(entries: &[(&str, &str)], os: Os) -> ChildEnv {
    let entries = entries.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    ChildEnv::new(&EnvList::default(), &EnvList(entries), os)
}

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|s| s.to_string()).collect()
}

#[test]
fn relative_folders_of_path_are_passed_over() {
    for (os, path, folders) in [
        (Os::Linux, "/a:b::/c/:.:/a", vec!["/a", "/c/"]),
        (Os::MacOs, "", vec![]),
        (Os::Windows, r"C:\a;b;;D:/c;.;\d;C:e;\\host\s", vec![r"C:\a", "D:/c", r"\\host\s"]),
        (Os::Windows, r#""C:\a;b";C:\c"#, vec![r"C:\a;b", r"C:\c"]),
        (Os::Windows, r#""C:\a;b"#, vec![r"C:\a;b"]),
    ] {
        assert_eq!(path_folders(path, os), folders, "{path}");
    }
}

#[test]
fn windows_names_need_an_extension_and_follow_pathext() {
    let folders = strings(&[r"C:\a\", r"D:\b"]);
    for (name, pathext, files) in [
        ("x", Some(".EXE;.CMD"), vec!["x.exe", "x.cmd", "x.com", "x.bat"]),
        ("x", Some(".JS;.VBS; .cmd ;"), vec!["x.cmd", "x.com", "x.exe", "x.bat"]),
        ("x", None, vec!["x.com", "x.exe", "x.bat", "x.cmd"]),
        ("X.CMD", Some(".EXE"), vec!["X.CMD", "X.CMD.exe", "X.CMD.com", "X.CMD.bat", "X.CMD.cmd"]),
        ("x.1", Some(".EXE"), vec!["x.1.exe", "x.1.com", "x.1.bat", "x.1.cmd"]),
    ] {
        let expected: Vec<String> = [r"C:\a", r"D:\b"]
            .iter()
            .flat_map(|folder| files.iter().map(move |file| format!(r"{folder}\{file}")))
            .collect();
        assert_eq!(candidates(name, &folders, pathext, Os::Windows), expected, "{name} {pathext:?}");
    }
    assert_eq!(candidates("x", &strings(&["/a/", "/"]), Some(".EXE"), Os::Linux), ["/a/x", "/x"]);
}

#[test]
fn explicit_paths_are_absolute_or_bare_names() {
    for (os, path, expected) in [
        (Os::Linux, "/x/claude", Some(vec!["/x/claude"])),
        (Os::Linux, "claude-beta", None),
        (Os::Linux, r"a\b", None),
        (Os::Windows, r"C:\x\claude.EXE", Some(vec![r"C:\x\claude.EXE"])),
        (Os::Windows, r"C:\x\claude.ps1", Some(vec![r"C:\x\claude.ps1"])),
        (
            Os::Windows,
            "C:/x/claude",
            Some(vec!["C:/x/claude.com", "C:/x/claude.exe", "C:/x/claude.bat", "C:/x/claude.cmd"]),
        ),
        (Os::Windows, "claude.cmd", None),
    ] {
        let got = explicit_candidates(path, os).unwrap();
        assert_eq!(got, expected.map(|e| strings(&e)), "{path}");
    }
    for (os, path) in [
        (Os::Linux, "./claude"),
        (Os::Linux, "bin/claude"),
        (Os::Linux, ".."),
        (Os::Linux, "~/bin/claude"),
        (Os::Windows, r"bin\claude.exe"),
        (Os::Windows, "C:claude.exe"),
        (Os::Windows, r"\claude.exe"),
    ] {
        let e = explicit_candidates(path, os).unwrap_err();
        assert_eq!(e.code, ErrorCode::InvalidOption, "{path}");
        assert_eq!(e.option.as_deref(), Some("executablePath"));
        assert!(e.message.contains(path) && e.message.contains("absolute path"), "{}", e.message);
    }
}

#[test]
fn known_folders_belong_to_their_system() {
    let unix = env(&[("HOME", "/home/a/")], Os::Linux);
    let windows = env(&[("USERPROFILE", r"C:\Users\a"), ("HOME", "/c/a")], Os::Windows);
    for (folder, env, os, expected) in [
        ("~/.local/bin", &unix, Os::Linux, Some("/home/a/.local/bin")),
        ("/opt/x/bin", &unix, Os::MacOs, Some("/opt/x/bin")),
        ("/opt/x/bin", &windows, Os::Windows, None),
        ("~/.local/bin", &windows, Os::Windows, Some(r"C:\Users\a\.local\bin")),
        (r"C:\x", &unix, Os::Linux, None),
        ("~/.local/bin", &env(&[], Os::Linux), Os::Linux, None),
        ("~/Applications/X.app/r", &unix, Os::MacOs, Some("/home/a/Applications/X.app/r")),
        ("~/Applications/X.app/r", &unix, Os::Linux, None),
        ("/Applications/X.app/r", &unix, Os::Linux, None),
        ("~/AppData/Local/x", &windows, Os::Windows, Some(r"C:\Users\a\AppData\Local\x")),
        ("~/AppData/Local/x", &unix, Os::MacOs, None),
    ] {
        assert_eq!(known_folder(folder, env, os).as_deref(), expected, "{folder}");
    }
}

#[test]
fn the_child_gets_a_path_that_holds_the_executables_folder() {
    for (path, shell, found, os, expected) in [
        ("/usr/bin:/bin", vec![], "/n/bin/x", Os::Linux, Some("/usr/bin:/bin:/n/bin")),
        ("/usr/bin:/n/bin", vec![], "/n/bin/x", Os::Linux, None),
        ("", vec![], "/n/bin/x", Os::Linux, Some("/n/bin")),
        ("/usr/bin:/own", vec!["/n/bin", "/usr/bin"], "/n/bin/x", Os::MacOs, Some("/n/bin:/usr/bin:/own")),
        ("/usr/bin", vec!["/s", "/usr/bin"], "/k/x", Os::Linux, Some("/s:/usr/bin:/k")),
        ("/b:/a", vec!["/a"], "/a/x", Os::Linux, None),
    ] {
        let got = extended_path(path, &strings(&shell), Path::new(found), os);
        assert_eq!(got.as_deref(), expected, "{path} {shell:?}");
    }
}

#[tokio::test]
async fn an_empty_option_is_refused() {
    let env = env(&[], Os::Linux);
    for path in ["", " ", "a\0b"] {
        let explicit = Some(Path::new(path));
        let query =
            Query { name: "x", executables: &["x"], known_paths: &[], explicit, env: &env, os: Os::Linux };
        assert_eq!(find(query).await.unwrap_err().code, ErrorCode::InvalidOption, "{path:?}");
    }
}

/// Plain folders hold the Windows files: only the extension decides there, on whatever system this runs.
#[tokio::test]
async fn the_extensionless_script_beside_a_cmd_never_wins() {
    let folder = tempfile::tempdir().unwrap();
    let at = |file: &str| folder.path().join(file);
    std::fs::write(at("x"), "#!/bin/sh\n").unwrap();
    let absolute = at("x").to_str().unwrap().to_owned();
    // The drive check is about Windows paths; candidates are built the same way for any folder.
    let files: Vec<String> = EXTENSIONS.iter().map(|ext| format!("{absolute}{ext}")).collect();
    assert_eq!(first_usable(files.clone()).await, None);
    let refused = explicit_path("x", &absolute, files.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ExecutableNotFound);
    std::fs::write(at("x.cmd"), "@echo off").unwrap();
    make_executable(&at("x.cmd"));
    assert_eq!(first_usable(files.clone()).await, Some(at("x.cmd")));
    assert_eq!(explicit_path("x", &absolute, files).await, Ok(at("x.cmd")));
}

fn make_executable(_path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(_path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[cfg(unix)]
mod on_posix {
    use super::*;
    use crate::process::capture::testing::script;

    const OS: Os = Os::current();

    fn text(path: &Path) -> &str {
        path.to_str().unwrap()
    }

    fn query<'a>(env: &'a ChildEnv, explicit: Option<&'a Path>) -> Query<'a> {
        Query {
            name: "cli",
            executables: &["cli", "cli-old"],
            known_paths: &["~/.known/bin"],
            explicit,
            env,
            os: OS,
        }
    }

    #[tokio::test]
    async fn sources_are_tried_in_the_documented_order() {
        let root = tempfile::tempdir().unwrap();
        // macOS keeps temporary folders behind a link.
        let root = root.path().canonicalize().unwrap();
        let shell = root.join("sh");
        script(&shell, &format!("#!/bin/sh\nPATH=\"$PATH:{0}/login:rel\"\neval \"$2\"\n", root.display()));
        let path = format!("{0}/a:rel:{0}/b", root.display());
        let mut env = env(&[("PATH", &path), ("SHELL", text(&shell)), ("HOME", text(&root))], OS);

        let not_found = find(query(&env, None)).await.unwrap_err();
        assert_eq!(not_found.code, ErrorCode::ExecutableNotFound);
        assert_eq!(
            not_found.message,
            format!(
                "cli executable not found at \"cli\" or \"cli-old\": looked in the 2 folders of PATH, the PATH of \
                 the login shell {}, ~/.known/bin; install it, or pass its absolute path as option executablePath",
                shell.display()
            )
        );
        // From the last source to the first: each new file wins over the ones before.
        for folder in ["a", "b", "login"] {
            std::fs::create_dir(root.join(folder)).unwrap();
        }
        // Another PATH, so that the shell is asked again now that the folders exist.
        let path = format!("{path}:also-relative");
        env.set("PATH", &path);
        let in_shell = format!("{0}/a:{0}/b:{0}/login", root.display());
        for (file, via, path_env) in [
            (".known/bin/cli", Via::KnownPath, Some(format!("{in_shell}:{}/.known/bin", root.display()))),
            ("login/cli", Via::LoginShell, Some(in_shell.clone())),
            ("b/cli-old", Via::Path, None),
            ("b/cli", Via::Path, None),
            ("a/cli", Via::Path, None),
        ] {
            script(&root.join(file), "#!/bin/sh\n");
            let found = find(query(&env, None)).await.unwrap();
            assert_eq!(found, Found { path: root.join(file), via, path_env });
        }
        let own = root.join("own/tool");
        script(&own, "#!/bin/sh\n");
        let found = find(query(&env, Some(&own))).await.unwrap();
        let path_env = Some(format!("{path}:{}/own", root.display()));
        assert_eq!(found, Found { path: own, via: Via::ExecutablePath, path_env });
    }

    #[tokio::test]
    async fn a_cli_that_only_the_login_shell_knows_gets_that_shells_path() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        script(&root.join("real/cli"), "#!/bin/sh\n");
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let shell = root.join("bash");
        script(&shell, &format!("#!/bin/sh\nexport PATH=\"{}/link:$PATH\"\neval \"$2\"\n", root.display()));
        let env = env(&[("PATH", "/usr/bin:/bin"), ("SHELL", text(&shell)), ("HOME", text(&root))], OS);
        let found = find(query(&env, None)).await.unwrap();
        assert_eq!((found.path, found.via), (root.join("real/cli"), Via::LoginShell));
        let path_env = found.path_env.unwrap();
        assert!(path_env.starts_with(&format!("{}/real:", root.display())), "{path_env}");
        assert!(path_env.split(':').any(|f| f == "/bin"), "{path_env}");
    }

    #[tokio::test]
    async fn a_bare_name_as_executable_path_is_looked_up() {
        let root = tempfile::tempdir().unwrap();
        script(&root.path().join("cli-beta"), "#!/bin/sh\n");
        let env = env(&[("PATH", text(root.path()))], OS);
        let found = find(query(&env, Some(Path::new("cli-beta")))).await.unwrap();
        assert_eq!((found.path, found.via), (root.path().join("cli-beta"), Via::Path));
        let e = find(query(&env, Some(Path::new("cli-gamma")))).await.unwrap_err();
        assert_eq!((e.code, e.option.as_deref()), (ErrorCode::ExecutableNotFound, Some("executablePath")));
        assert!(e.message.starts_with("cli executable not found at \"cli-gamma\": "), "{}", e.message);
    }

    #[tokio::test]
    async fn an_explicit_path_that_cannot_be_executed_is_a_hard_miss() {
        let root = tempfile::tempdir().unwrap();
        let at = |file: &str| root.path().join(file);
        // One that PATH would have is no substitute.
        script(&at("cli"), "#!/bin/sh\n");
        std::fs::write(at("plain"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        let env = env(&[("PATH", text(root.path()))], OS);
        for (file, why) in [
            ("missing", "no such file"),
            (".", "it is a folder"),
            ("plain", "it is not executable"),
            ("dangling", "a link to nothing"),
            ("plain/x", "Not a directory"),
        ] {
            let path = at(file);
            let e = find(query(&env, Some(&path))).await.unwrap_err();
            assert_eq!(
                (e.code, e.option.as_deref()),
                (ErrorCode::ExecutableNotFound, Some("executablePath"))
            );
            let start = format!("cli executable not found at \"{}\": ", path.display());
            assert!(e.message.starts_with(&start) && e.message.contains(why), "{}", e.message);
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_executed_does_not_hide_a_later_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(root.join("b/cli")).unwrap();
        std::fs::write(root.join("a/cli"), "").unwrap();
        script(&root.join("c/cli"), "#!/bin/sh\n");
        let path = format!("{0}/a:{0}/b:{0}/c", root.display());
        let env = env(&[("PATH", &path)], OS);
        assert_eq!(find(query(&env, None)).await.unwrap().path, root.join("c/cli"));
    }
}
