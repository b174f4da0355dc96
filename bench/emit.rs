//! The child that the benchmark's runs start in place of a real CLI: reads the prompt line, writes a prepared file
//! or paced lines, ends. Native, so that its own start does not hide the cost of starting it.
//!
//! EMIT_FILE and EMIT_MODE=chunks|lines: the file in 64 KB writes, or with one write per line.
//! EMIT_MODE=paced, EMIT_COUNT, EMIT_GAP_MS: lines that hold the time of their own writing, in µs since the epoch.

use std::env::var;
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const CHUNK_BYTES: usize = 64 * 1024;

fn main() -> io::Result<()> {
    if std::env::args().any(|a| a == "--version") {
        println!("2.1.0 (Claude Code)");
        return Ok(());
    }
    io::stdin().lock().read_line(&mut String::new())?;
    let mut out = stdout()?;
    match var("EMIT_MODE").as_deref() {
        Ok("paced") => paced(&mut out),
        Ok("lines") => {
            let bytes = file()?;
            bytes.split_inclusive(|b| *b == b'\n').try_for_each(|line| out.write_all(line))
        }
        _ => file()?.chunks(CHUNK_BYTES).try_for_each(|chunk| out.write_all(chunk)),
    }
}

/// Standard output without Rust's line buffering: every write is one system call.
fn stdout() -> io::Result<File> {
    #[cfg(unix)]
    return Ok(std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?.into());
    #[cfg(windows)]
    return Ok(std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?.into());
}

fn file() -> io::Result<Vec<u8>> {
    std::fs::read(var("EMIT_FILE").expect("EMIT_FILE names the workload"))
}

fn number(name: &str) -> u64 {
    var(name).ok().and_then(|v| v.parse().ok()).unwrap_or_else(|| panic!("{name} must be a number"))
}

fn paced(out: &mut File) -> io::Result<()> {
    let (count, gap) = (number("EMIT_COUNT"), Duration::from_millis(number("EMIT_GAP_MS")));
    writeln!(out, r#"{{"type":"system","subtype":"init","session_id":"bench"}}"#)?;
    for i in 0..count {
        sleep(gap);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
        let line = format!(
            "{{\"type\":\"assistant\",\"session_id\":\"bench\",\"message\":{{\"id\":\"m{i}\",\"content\":[{{\"type\":\"text\",\"text\":\"{now}\"}}]}}}}\n"
        );
        out.write_all(line.as_bytes())?;
    }
    out.write_all(b"{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"done\",\"session_id\":\"bench\"}\n")
}
