//! Token counts out of the file in which the CLI keeps a thread: only where the protocol told none.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::usage::Totals;

/// Longer lines end the scan: they hold no counts.
const MAX_LINE: u64 = 1024 * 1024;
/// Larger files are not scanned: the end of the run waits for it.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// A file says within its first lines which thread it belongs to.
const META_LINES: usize = 64;
/// Files written a little before the run's first look count, too: clocks of file systems are coarse.
const SLACK: Duration = Duration::from_secs(2);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub totals: Totals,
    pub model: Option<String>,
}

pub fn usage(
    path: Option<&str>,
    codex_home: Option<&str>,
    thread: &str,
    began: SystemTime,
    resumed: bool,
) -> Option<Found> {
    let path = match path {
        Some(path) => PathBuf::from(path),
        None => find(&Path::new(codex_home?).join("sessions"), thread, began)?,
    };
    let file = File::open(path).ok()?;
    if file.metadata().ok()?.len() > MAX_FILE {
        return None;
    }
    let file = BufReader::new(file);
    let found = scan(lines(file), &timestamp(began), resumed);
    (found.totals != Totals::default()).then_some(found)
}

/// The newest file of this thread below `YYYY/MM/DD` (older CLIs: in the root).
fn find(root: &Path, thread: &str, began: SystemTime) -> Option<PathBuf> {
    let mut folders = vec![(root.to_owned(), 0)];
    let mut files = Vec::new();
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok().into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if depth < 3 && path.is_dir() {
                folders.push((path, depth + 1));
            } else if name.starts_with("rollout-") && name.ends_with(".jsonl") {
                let Ok(changed) = entry.metadata().and_then(|m| m.modified()) else { continue };
                if changed + SLACK >= began {
                    files.push((changed, name.ends_with(&format!("-{thread}.jsonl")), path));
                }
            }
        }
    }
    files.sort();
    let named = files.iter().rev().filter(|(_, named, _)| *named).map(|(.., path)| path);
    let by_name = named.clone().find(|path| meta_thread(path).is_none_or(|id| id == thread));
    by_name
        .or_else(|| {
            let mut rest = files.iter().rev().filter(|(_, named, _)| !*named).map(|(.., path)| path);
            rest.find(|path| meta_thread(path).is_some_and(|id| id == thread))
        })
        .cloned()
}

fn meta_thread(path: &Path) -> Option<String> {
    let file = BufReader::new(File::open(path).ok()?);
    let meta = lines(file).take(META_LINES).find(|line| line["type"] == "session_meta")?;
    meta["payload"]["id"].as_str().map(str::to_owned)
}

fn lines(mut source: impl BufRead) -> impl Iterator<Item = Value> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = (&mut source).take(MAX_LINE).read_until(b'\n', &mut line).ok()?;
        // No line end: the last line, or one that is too long.
        (read > 0 && (read as u64) < MAX_LINE).then(|| serde_json::from_slice(&line).unwrap_or_default())
    })
}

/// Totals run on over the life of a thread: what came after `began` is the share of this run.
fn scan(lines: impl Iterator<Item = Value>, began: &str, resumed: bool) -> Found {
    let mut found = Found::default();
    let mut earlier = Totals::default();
    let mut sum: Option<Totals> = None;
    let mut last_only = None;
    let mut after_start = !resumed;
    for line in lines {
        let ours = match line["timestamp"].as_str() {
            Some(at) => {
                after_start = !resumed || at >= began;
                at >= began
            }
            None => after_start,
        };
        let payload = &line["payload"];
        if line["type"] == "turn_context" {
            if let Some(model) = payload["model"].as_str().filter(|m| !m.is_empty()) {
                found.model = Some(model.to_owned());
            }
            continue;
        }
        if line["type"] != "event_msg" || payload["type"] != "token_count" {
            continue;
        }
        let info = &payload["info"];
        match Totals::read_any_spelling(&info["total_token_usage"]) {
            Some(total) => {
                if ours {
                    sum = Some(sum.unwrap_or_default().plus(total.since(earlier)));
                }
                earlier = total;
            }
            None if ours => {
                last_only = Totals::read_any_spelling(&info["last_token_usage"]).or(last_only);
            }
            None => {}
        }
    }
    found.totals = sum.or(last_only).unwrap_or_default();
    found
}

/// `2026-11-30T17:03:43.123Z`, as the CLI writes it: texts of this form sort like times.
fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 1970 -> date, by counting from a March 1st so that the leap day is the last of its year.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{:03}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60,
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(at: Option<&str>, input: u64, cached: u64) -> String {
        let at = at.map(|at| format!("\"timestamp\":\"{at}\",")).unwrap_or_default();
        format!(
            "{{{at}\"type\":\"event_msg\",\"payload\":{{\"type\":\"token_count\",\"info\":{{\"total_token_usage\":\
             {{\"input_tokens\":{input},\"cached_input_tokens\":{cached},\"output_tokens\":1}}}}}}}}"
        )
    }

    fn counts(text: &[String], resumed: bool) -> Totals {
        let lines = lines(std::io::Cursor::new(text.join("\n")));
        scan(lines, "2026-01-02T00:00:00.000Z", resumed).totals
    }

    fn wanted(input: u64, cached: u64, output: u64) -> Totals {
        let counts = serde_json::json!({"input": input, "cached_input_tokens": cached, "output": output});
        Totals::read_any_spelling(&counts).unwrap_or_default()
    }

    #[test]
    fn only_the_growth_after_the_start_counts() {
        let (before, after) = (Some("2026-01-01T23:59:59.999Z"), Some("2026-01-02T00:00:01.000Z"));
        let grown = [total(before, 1000, 700), total(after, 1800, 1400)];
        assert_eq!(counts(&grown, true), wanted(800, 700, 0));
        let reset =
            [total(before, 100, 50), total(after, 120, 60), total(after, 10, 5), total(after, 150, 70)];
        // 20 + 10 + 140 and 10 + 5 + 65: a counter that shrank began anew.
        assert_eq!(counts(&reset, true), wanted(170, 80, 0));
    }

    #[test]
    fn lines_without_a_time_count_for_new_threads_only() {
        let timeless = [total(None, 100, 0)];
        assert_eq!(counts(&timeless, false), wanted(100, 0, 1));
        assert_eq!(counts(&timeless, true), Totals::default());
        let passed =
            [total(None, 100, 0), total(Some("2026-01-02T00:00:01.000Z"), 150, 0), total(None, 170, 0)];
        assert_eq!(counts(&passed, true), wanted(70, 0, 0));
    }

    #[test]
    fn a_last_count_alone_is_used_and_foreign_lines_are_not() {
        let last =
            "{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\",\"info\":{\"last_token_usage\":\
                    {\"input_tokens\":7,\"output_tokens\":2}}}}"
                .to_owned();
        assert_eq!(counts(&["no json".to_owned(), "[]".to_owned(), last], false), wanted(7, 0, 2));
    }

    #[test]
    fn finds_the_newest_file_of_the_thread() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/01/02");
        std::fs::create_dir_all(&day).unwrap();
        let meta = |id: &str| format!("{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{id}\"}}}}\n");
        let write = |name: &str, text: String| std::fs::write(day.join(name), text).unwrap();
        write("rollout-x-T1.jsonl", meta("T2"));
        write("rollout-y-other.jsonl", meta("T1") + &total(None, 5, 0) + "\n");
        write("rollout-z-T3.jsonl", meta("T3") + &total(None, 9, 0));
        let look = |thread: &str| {
            usage(None, home.path().to_str(), thread, SystemTime::now(), false).map(|f| f.totals)
        };
        assert_eq!(look("T1"), Some(wanted(5, 0, 1)), "the file's own word beats its name");
        assert_eq!(look("T3"), Some(wanted(9, 0, 1)));
        assert_eq!(look("T4"), None);
        let later = SystemTime::now() + Duration::from_secs(3600);
        assert_eq!(
            usage(None, home.path().to_str(), "T3", later, false),
            None,
            "files of before are not ours"
        );
    }

    #[test]
    fn writes_times_the_way_the_files_do() {
        for (secs, want) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_796_058_223, "2026-11-30T17:03:43.000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(secs)), want);
        }
    }
}
