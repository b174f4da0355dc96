//! Reading the launcher scripts that package managers write on Windows (`x.cmd`): which program they start,
//! with which arguments and variables.
//!
//! Understood are the statements that npm, pnpm, yarn, scoop and version managers generate, and nothing else:
//! a script with any other statement is not understood as a whole, since running a part of it would be
//! something its author never wrote.

use std::collections::BTreeMap;

/// What a script starts. Later alternatives hold where earlier ones do not exist (`IF EXIST … ELSE`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    pub starts: Vec<Start>,
    /// Values in the order of the script, by name. They may refer to variables (`%NODE_PATH%`).
    pub variables: Vec<(String, Vec<String>)>,
}

/// One command line without its final `%*`: program first, not yet expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start(pub Vec<String>);

/// `None`: not understood.
pub fn parse(text: &str) -> Option<Script> {
    let mut script = Script::default();
    for line in text.lines() {
        let line = line.trim().trim_start_matches('@').trim();
        if is_comment(line) {
            continue;
        }
        if let Some(command) = line.strip_suffix("%*") {
            script.starts.push(start(after_preamble(command)?)?);
        } else if let Some((name, value)) = assignment(line) {
            match script.variables.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
                Some((_, values)) => values.push(value.to_owned()),
                None => script.variables.push((name.to_owned(), vec![value.to_owned()])),
            }
        } else if !is_scaffolding(line) {
            return None;
        }
    }
    (!script.starts.is_empty()).then_some(script)
}

fn is_comment(line: &str) -> bool {
    line.starts_with("::") || line.split_whitespace().next().is_some_and(|w| w.eq_ignore_ascii_case("rem"))
}

/// Statements around the start that decide nothing but which alternative is taken.
fn is_scaffolding(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let words: Vec<&str> = lower.split_whitespace().collect();
    let text = words.join(" ");
    text.is_empty()
        || matches!(
            text.as_str(),
            "echo off"
                | "setlocal"
                | "endlocal"
                | "goto start"
                | ":start"
                | ":find_dp0"
                | "call :find_dp0"
                | "exit /b"
                | "exit /b %errorlevel%"
                | "("
                | ")"
                | ") else ("
        )
        || (text.starts_with("if exist ") || text.starts_with("if not defined ")) && text.ends_with(" (")
}

/// `SET "name=value"` or `SET name=value`.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let keyword = line.get(..4)?;
    if !keyword.eq_ignore_ascii_case("set ") {
        return None;
    }
    let rest = line[4..].trim();
    let rest = rest.strip_prefix('"').and_then(|r| r.strip_suffix('"')).unwrap_or(rest);
    let (name, value) = rest.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some((name, value))
}

/// npm puts statements before the start that keep cmd from asking about terminating the batch job. `None`: some
/// other statement stands there.
fn after_preamble(line: &str) -> Option<&str> {
    const NPM: &str = "endlocal & goto #_undefined_# 2>nul || title %comspec%";
    match line.rsplit_once('&') {
        Some((before, start)) if before.trim().eq_ignore_ascii_case(NPM) => Some(start),
        // The sign may stand in a file name.
        Some((before, _)) if before.matches('"').count() % 2 == 0 => None,
        _ => Some(line),
    }
}

fn start(command: &str) -> Option<Start> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in command.trim().trim_start_matches('@').chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            // Redirections, pipes and blocks are no plain start.
            '<' | '>' | '|' | '^' | '(' | ')' if !quoted => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.first().is_some_and(|w| w.eq_ignore_ascii_case("call")) {
        words.remove(0);
    }
    let shell =
        words.first().is_some_and(|w| w.eq_ignore_ascii_case("cmd") || w.eq_ignore_ascii_case("cmd.exe"));
    if shell && words.get(1).is_some_and(|w| w.eq_ignore_ascii_case("/c")) {
        words.drain(..2);
    }
    (!quoted && !words.is_empty()).then_some(Start(words))
}

/// What a `%name%` of a script stands for.
pub struct Scope<'a> {
    /// The script's folder, without a separator at its end.
    pub folder: &'a str,
    pub script: &'a Script,
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

impl Scope<'_> {
    /// Every reading of `text`: one for each value the script may have given a variable of its own. Empty
    /// where a variable has no value.
    pub fn expand(&self, text: &str) -> Vec<String> {
        let Some(at) = text.find('%') else { return vec![text.to_owned()] };
        let (before, rest) = (&text[..at], &text[at + 1..]);
        // `%~dp0` has no closing sign and ends with a separator, as the `dp0` that npm makes of it does.
        let (values, after): (Vec<String>, &str) = if let Some(after) = strip_prefix_ci(rest, "~dp0") {
            (vec![format!("{}\\", self.folder)], after)
        } else {
            let Some(end) = rest.find('%') else { return Vec::new() };
            (self.values(&rest[..end]), &rest[end + 1..])
        };
        let tails = self.expand(after);
        values.iter().flat_map(|v| tails.iter().map(move |t| format!("{before}{v}{t}"))).collect()
    }

    fn values(&self, name: &str) -> Vec<String> {
        let own = self.script.variables.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        match own {
            // A value that refers to its own variable means the one from outside.
            Some((_, values)) => {
                values.iter().filter(|v| !mentions(v, name)).flat_map(|v| self.expand(v)).collect()
            }
            None => (self.env)(name).into_iter().collect(),
        }
    }

    /// The variables that the script sets for what it starts. `PATHEXT` is left out (it only keeps cmd from
    /// starting a script host), and so are the script's own helpers.
    pub fn environment(&self) -> Vec<(String, String)> {
        let mut set: BTreeMap<String, (String, String)> = BTreeMap::new();
        for (name, values) in &self.script.variables {
            let upper = name.to_ascii_uppercase();
            if matches!(upper.as_str(), "DP0" | "_PROG" | "PATHEXT") {
                continue;
            }
            let outer = (self.env)(name);
            // `IF NOT DEFINED X ( SET X=a ) ELSE ( SET X=a;%X% )`
            let chosen = match &outer {
                Some(_) => values.iter().rfind(|v| mentions(v, name)).or(values.first()),
                None => values.iter().find(|v| !mentions(v, name)).or(values.first()),
            };
            let Some(chosen) = chosen else { continue };
            let own = format!("%{upper}%");
            let text = match chosen.to_ascii_uppercase().find(&own) {
                Some(at) => {
                    let after = &chosen[at + own.len()..];
                    format!("{}{}{after}", &chosen[..at], outer.unwrap_or_default())
                }
                None => chosen.clone(),
            };
            if let Some(value) = self.expand(&text).into_iter().next() {
                set.insert(upper, (name.clone(), value));
            }
        }
        set.into_values().collect()
    }
}

fn mentions(value: &str, name: &str) -> bool {
    value.to_ascii_uppercase().contains(&format!("%{}%", name.to_ascii_uppercase()))
}

fn strip_prefix_ci<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}
