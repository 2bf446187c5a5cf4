//! Text with indentation.

/// Lines of Rust, indented by the braces they open and close.
pub(super) struct Code {
    text: String,
    depth: usize,
}

impl Code {
    pub(super) fn new() -> Self {
        Self {
            text: String::new(),
            depth: 0,
        }
    }

    /// Adds one line: a closing one stands further left, what follows an opening one further right.
    pub(super) fn line(&mut self, line: &str) {
        let closes = line.starts_with(['}', ')', ']']);
        self.depth -= usize::from(closes && self.depth > 0);
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
        self.depth += usize::from(line.ends_with(['{', '(', '[']));
    }

    /// Adds an `if` around lines, or only the lines where the condition always holds.
    pub(super) fn when(&mut self, condition: &Condition, lines: impl FnOnce(&mut Self)) {
        match condition {
            Condition::Always => lines(self),
            Condition::Never => {}
            Condition::If(text) => {
                self.line(&format!("if {text} {{"));
                lines(self);
                self.line("}");
            }
        }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Whether a version is in a range, as far as it is known before there is a version.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Always,
    Never,
    If(String),
}
