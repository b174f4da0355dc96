//! What stands only in its log file, and the answer that stands only in its transcript.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// Of a file, the last this many bytes are read.
const MAX_READ: u64 = 64 * 1024 * 1024;

const UUID: &str = "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}";

/// What a log tells of its run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub conversation: Option<String>,
    /// Its own limit ended the turn; it exits with 0 then.
    pub timed_out: bool,
    pub provider_error: Option<String>,
    pub data_dir: Option<PathBuf>,
    /// The model it asked for in the end.
    pub model: Option<String>,
}

impl Facts {
    pub fn read(path: &Path) -> Facts {
        let mut bytes = Vec::new();
        // No log, no facts: a start that failed writes none.
        if let Ok(mut file) = tail_of(path) {
            let _ = file.read_to_end(&mut bytes);
        }
        Facts::of(&String::from_utf8_lossy(&bytes))
    }

    pub fn of(log: &str) -> Facts {
        static CONVERSATION: LazyLock<Regex> = LazyLock::new(|| pattern(&format!(r"conversation=({UUID})")));
        static TIMED_OUT: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"Print mode: timed out after [0-9]+ polls"));
        static ERROR: LazyLock<Regex> = LazyLock::new(|| pattern(r"agent executor error:([^\r\n]*)"));
        static DATA_DIR: LazyLock<Regex> = LazyLock::new(|| pattern(r"CLI app data directory:([^\r\n]*)"));
        static MODEL: LazyLock<Regex> = LazyLock::new(|| {
            pattern(r#"Propagating selected model override to backend: label="([^"\r\n]*)""#)
        });
        let last = |pattern: &Regex| {
            let found = pattern.captures_iter(log).last().map(|c| c[1].trim().to_owned());
            found.filter(|text| !text.is_empty())
        };
        let first_dir = DATA_DIR.captures(log).map(|c| c[1].trim().to_owned()).filter(|d| !d.is_empty());
        Facts {
            conversation: last(&CONVERSATION),
            timed_out: TIMED_OUT.is_match(log),
            provider_error: last(&ERROR),
            data_dir: first_dir.map(PathBuf::from),
            model: last(&MODEL),
        }
    }

    /// The answer of a turn that printed none.
    pub fn recovered_answer(&self) -> Option<String> {
        let (folder, id) = (self.data_dir.as_ref()?, self.conversation.as_ref()?);
        let path = folder.join("brain").join(id).join(".system_generated/logs/transcript.jsonl");
        answer_of(BufReader::new(tail_of(&path).ok()?))
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("constant pattern")
}

fn tail_of(path: &Path) -> std::io::Result<std::fs::File> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    if length > MAX_READ {
        file.seek(SeekFrom::Start(length - MAX_READ))?;
    }
    Ok(file)
}

/// The model's finished answers since the last word of the user: the file grows over all turns.
fn answer_of(mut transcript: impl BufRead) -> Option<String> {
    #[derive(Deserialize)]
    struct Record {
        #[serde(rename = "type")]
        kind: String,
        source: Option<String>,
        status: Option<String>,
        content: Option<Value>,
    }
    let mut answers: Vec<String> = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if transcript.read_until(b'\n', &mut line).ok()? == 0 {
            break;
        }
        let Ok(record) = serde_json::from_slice::<Record>(&line) else { continue };
        let is = |field: &Option<String>, want: &str| field.as_deref() == Some(want);
        match (record.kind.as_str(), record.content) {
            ("USER_INPUT", _) => answers.clear(),
            ("PLANNER_RESPONSE", Some(Value::String(text)))
                if is(&record.source, "MODEL") && is(&record.status, "DONE") && !text.trim().is_empty() =>
            {
                answers.push(text);
            }
            _ => {}
        }
    }
    (!answers.is_empty()).then(|| answers.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "11111111-1111-4111-8111-111111111111";
    const B: &str = "22222222-2222-4222-8222-222222222222";

    #[test]
    fn facts_of_a_log() {
        let log = format!(
            "I0101 CLI app data directory: /home/u/.gemini/agy \nconversation={A} x\nagent executor error: first\n\
             You are not logged into Antigravity\nconversation={B}\nCLI app data directory: /other\n\
             agent executor error:  quota is used up \nPrint mode: timed out after 42 polls\n\
             Propagating selected model override to backend: label=\"Gemini Y\"\n\
             Propagating selected model override to backend: label=\"Gemini Z\"\nconversation=no-uuid\n"
        );
        let want = Facts {
            conversation: Some(B.into()),
            timed_out: true,
            provider_error: Some("quota is used up".into()),
            data_dir: Some("/home/u/.gemini/agy".into()),
            model: Some("Gemini Z".into()),
        };
        assert_eq!(Facts::of(&log), want);
        assert_eq!(Facts::of("You are not logged into Antigravity\n"), Facts::default());
        assert_eq!(Facts::read(Path::new("/nowhere/agy.log")), Facts::default());
    }

    #[test]
    fn the_transcript_of_the_last_turn() {
        let record = |kind: &str, source: &str, status: &str, content: &str| {
            format!(
                "{{\"type\":\"{kind}\",\"source\":\"{source}\",\"status\":\"{status}\",\"content\":{content}}}\n"
            )
        };
        let user = record("USER_INPUT", "USER", "DONE", "\"p\"");
        let said = |text: &str| record("PLANNER_RESPONSE", "MODEL", "DONE", &format!("{text:?}"));
        let turn = [
            user.clone(),
            record("PLANNER_RESPONSE", "MODEL", "DONE", "null"),
            said("a"),
            record("PLANNER_RESPONSE", "SYSTEM", "DONE", "\"x\""),
            record("PLANNER_RESPONSE", "MODEL", "IN_PROGRESS", "\"y\""),
            record("PLANNER_RESPONSE", "MODEL", "DONE", "{\"t\":1}"),
            record("VIEW_FILE", "MODEL", "DONE", "\"z\""),
            "broken {\n".to_owned(),
            said("  "),
            said("b"),
        ]
        .concat();
        let answer = |text: &str| answer_of(text.as_bytes());
        assert_eq!(answer(&turn).as_deref(), Some("a\n\nb"));
        assert_eq!(answer(&[turn.as_str(), &user, &said("second")].concat()).as_deref(), Some("second"));
        assert_eq!(answer(&user), None);

        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("brain").join(A).join(".system_generated/logs");
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join("transcript.jsonl"), &turn).unwrap();
        let facts = |id: &str| Facts {
            conversation: Some(id.into()),
            data_dir: Some(folder.path().into()),
            ..Facts::default()
        };
        assert_eq!(facts(A).recovered_answer().as_deref(), Some("a\n\nb"));
        assert_eq!(facts(B).recovered_answer(), None);
        assert_eq!(Facts::default().recovered_answer(), None);
    }
}
