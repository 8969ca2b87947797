//! Rule files as logical lines: comments and blank lines dropped, continued lines joined, and the way back
//! from a place in a joined line to line and column of the file.

use crate::error::{Fault, RuleError};

/// One rule's text, continuation lines joined.
#[derive(Debug)]
pub(crate) struct LogicalLine {
    pub(crate) text: String,
    /// (position in `text`, position in the file) of each joined piece, ascending.
    pieces: Vec<(usize, usize)>,
}

impl LogicalLine {
    /// Position in the file of a position in `text`. The end of a piece belongs to that piece, so that a
    /// fault at the very end of a line is shown on it.
    fn original(&self, position: usize) -> usize {
        let mut found = (0, 0);
        for &(joined, original) in &self.pieces {
            if joined > position {
                break;
            }
            found = (joined, original);
        }
        found.1 + (position - found.0)
    }
}

/// A rule file and where its lines start.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    text: &'a str,
    line_starts: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Source { text, line_starts }
    }

    /// The rules of the file, one logical line each.
    pub(crate) fn rules(&self) -> Vec<LogicalLine> {
        let mut rules = Vec::new();
        let mut current: Option<LogicalLine> = None;
        for (number, &start) in self.line_starts.iter().enumerate() {
            let end = self
                .line_starts
                .get(number + 1)
                .map_or(self.text.len(), |next| next - 1);
            let line = self.text.get(start..end).unwrap_or("");
            let line = line.strip_suffix('\r').unwrap_or(line);
            if current.is_none() {
                let trimmed = line.trim_start();
                if trimmed.is_empty() || trimmed.starts_with('#') {
                    continue;
                }
            }
            let logical = current.get_or_insert_with(|| LogicalLine {
                text: String::new(),
                pieces: Vec::new(),
            });
            logical.pieces.push((logical.text.len(), start));
            match line.trim_end().strip_suffix('\\') {
                Some(continued) => logical.text.push_str(continued),
                None => {
                    logical.text.push_str(line.trim_end());
                    rules.extend(current.take());
                }
            }
        }
        rules.extend(current);
        rules.retain(|rule| !rule.text.trim().is_empty());
        rules
    }

    /// The line on which a rule starts, counted from 1.
    pub(crate) fn first_line(&self, rule: &LogicalLine) -> usize {
        let indent = rule.text.len() - rule.text.trim_start().len();
        self.locate(rule.original(indent)).0
    }

    /// The error a fault in `rule` is reported as.
    pub(crate) fn error(&self, rule: &LogicalLine, fault: Fault) -> RuleError {
        // A fault may lie in the middle of a character.
        let at = self.text.floor_char_boundary(rule.original(fault.start));
        let (line, column) = self.locate(at);
        let line_end = self
            .line_starts
            .get(line)
            .map_or(self.text.len(), |next| next - 1);
        let end = rule
            .original(fault.end.saturating_sub(1).max(fault.start))
            .saturating_add(1)
            .min(line_end);
        let end = self.text.ceil_char_boundary(end);
        let length = self
            .text
            .get(at..end)
            .map_or(1, |part| part.chars().count());
        RuleError {
            line,
            column,
            length: length.max(1),
            message: fault.message,
            help: fault.help,
            duplicate: fault.duplicate,
        }
    }

    /// Line and column, both from 1, of a position in the file.
    fn locate(&self, at: usize) -> (usize, usize) {
        let line = self
            .line_starts
            .partition_point(|&start| start <= at)
            .max(1);
        let start = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let column = self
            .text
            .get(start..at)
            .map_or(at - start, |before| before.chars().count());
        (line, column + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Span;

    #[test]
    fn joins_continued_lines_and_finds_the_way_back() {
        let text = "# note\n\none \\\n  two \\\r\nthree\nfour";
        let source = Source::new(text);
        let rules = source.rules();
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(texts, ["one   two three", "four"]);
        assert_eq!(source.first_line(&rules[0]), 3);
        assert_eq!(source.first_line(&rules[1]), 6);
        let at = rules[0].text.find("three").unwrap();
        let error = source.error(&rules[0], Fault::new(Span::new(at, at + 5), "x"));
        assert_eq!((error.line, error.column, error.length), (5, 1, 5));
        let at = rules[0].text.find("two").unwrap();
        let error = source.error(&rules[0], Fault::new(Span::new(at, at + 3), "x"));
        assert_eq!((error.line, error.column, error.length), (4, 3, 3));
    }

    #[test]
    fn a_fault_at_the_end_of_the_text_stays_on_its_line() {
        let source = Source::new("abc\ndef");
        let rules = source.rules();
        let error = source.error(&rules[0], Fault::new(Span::new(3, 3), "x"));
        assert_eq!((error.line, error.column, error.length), (1, 4, 1));
    }
}
