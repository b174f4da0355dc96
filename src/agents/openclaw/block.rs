//! Finds whole JSON objects in lines: the documents are printed over hundreds of them, with logs around.

/// More than this is no document of a turn.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// An object that has begun and not ended yet.
#[derive(Default)]
pub struct Block {
    text: String,
    depth: usize,
    /// Only its brace was read.
    opened: bool,
    in_string: bool,
    escaped: bool,
}

pub enum Fed {
    /// Not at its end yet.
    More,
    /// The whole object; what stood behind it on its last line is gone.
    Whole(String),
    /// It cannot become an object any more.
    Broken,
}

impl Block {
    /// Whether a line may begin an object.
    pub fn begins(line: &str) -> bool {
        line.starts_with('{')
    }

    /// It has what only a document has.
    pub fn is_document(&self) -> bool {
        ["\"payloads\"", "\"meta\"", "\"ok\""].iter().any(|key| self.text.contains(key))
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn feed(&mut self, line: &str) -> Fed {
        let from = self.text.len();
        self.text.push_str(line);
        self.text.push('\n');
        if self.text.len() > MAX_BYTES {
            return Fed::Broken;
        }
        for (at, byte) in line.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            // The first thing in an object is a key, or its end.
            if self.opened && !byte.is_ascii_whitespace() {
                if !matches!(byte, b'"' | b'}') {
                    return Fed::Broken;
                }
                self.opened = false;
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' if self.depth == 0 => (self.depth, self.opened) = (1, true),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        let mut whole = std::mem::take(&mut self.text);
                        whole.truncate(from + at + 1);
                        return Fed::Whole(whole);
                    }
                }
                _ => {}
            }
        }
        // No string of JSON reaches over the end of a line.
        if self.in_string { Fed::Broken } else { Fed::More }
    }

    /// The lines it holds.
    pub fn into_lines(self) -> Vec<String> {
        self.text.lines().map(str::to_owned).collect()
    }
}
