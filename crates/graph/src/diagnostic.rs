//! Errors and warnings about a chain file, with their places.

use core::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file can't be used.
    Error,
    /// The file can be used; something in it is odd.
    Warning,
}

/// One thing to say about a text, with its place.
///
/// [`fmt::Display`] prints it for people: `file:line:column: error: message`,
/// the line with carets under the place, and the help.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the text: a file's name, or `--set PATH` for an override.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters of that line that it is about, at least 1.
    pub length: usize,
    /// The error itself.
    pub message: String,
    /// Advice on how to mend it.
    pub help: Option<String>,
    #[serde(skip)]
    excerpt: Option<Excerpt>,
}

/// A window of a line, short enough to print.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    line: String,
    /// Characters before the place.
    before: usize,
}

/// Longest excerpt, in characters.
const EXCERPT: usize = 120;

impl Diagnostic {
    /// About `length` characters of `text` from line and column on.
    pub(crate) fn new(
        severity: Severity,
        file: &str,
        text: Option<&str>,
        (line, column, length): (usize, usize, usize),
        message: String,
    ) -> Diagnostic {
        let whole = text.and_then(|text| lines(text).nth(line.saturating_sub(1)));
        let room = whole.map_or(length, |whole| {
            (whole.chars().count() + 1).saturating_sub(column)
        });
        Diagnostic {
            severity,
            file: file.to_owned(),
            line,
            column,
            length: length.min(room).max(1),
            message,
            help: None,
            excerpt: whole.map(|whole| Excerpt::of(whole, column)),
        }
    }

    /// Adds what to do.
    #[must_use]
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl Excerpt {
    fn of(line: &str, column: usize) -> Excerpt {
        let from = column.saturating_sub(1).saturating_sub(EXCERPT / 2);
        let line = line.chars().skip(from).take(EXCERPT);
        Excerpt {
            line: line.map(printable).collect(),
            before: column.saturating_sub(1) - from,
        }
    }
}

/// Keeps control characters away from terminals.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        if self.file.starts_with("--set ") {
            write!(f, "{}: ", self.file)?;
        } else {
            write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        }
        write!(f, "{severity}: {}", self.message)?;
        if let Some(excerpt) = &self.excerpt {
            let number = self.line.to_string();
            let carets = self
                .length
                .min(excerpt.line.chars().count().saturating_sub(excerpt.before))
                .max(1);
            let line = excerpt.line.trim_end();
            write!(f, "\n {number} | {line}\n")?;
            write!(
                f,
                " {:width$} | {:before$}{:^<carets$}",
                "",
                "",
                "",
                width = number.len(),
                before = excerpt.before
            )?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// All of them, one after the other, with an empty line between.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&diagnostic.to_string());
        out.push('\n');
    }
    out
}

/// Lines as YAML breaks them: LF, CR LF or CR.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let text = rest?;
        match text.find(['\n', '\r']) {
            None => {
                rest = None;
                Some(text)
            }
            Some(end) => {
                let (line, tail) = text.split_at(end);
                let tail = tail
                    .strip_prefix("\r\n")
                    .or_else(|| tail.get(1..))
                    .unwrap_or("");
                rest = Some(tail);
                Some(line)
            }
        }
    })
}

/// Octets of one of the [`Texts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Where a text starts.
    pub(crate) fn start_of(text: u32) -> Span {
        Span {
            text,
            ..Span::default()
        }
    }
}

/// The chain file, then the overrides.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    list: Vec<(String, String)>,
}

impl Texts {
    /// One text, its number, and the text without a byte order mark, which is no part of the
    /// first line.
    pub(crate) fn of<'t>(name: &str, text: &'t str) -> (Texts, u32, &'t str) {
        let mut texts = Texts::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file = texts.add(name.to_owned(), text.to_owned());
        (texts, file, text)
    }

    pub(crate) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    pub(crate) fn add(&mut self, name: String, text: String) -> u32 {
        self.list.push((name, text));
        (self.list.len() - 1) as u32
    }

    pub(crate) fn name(&self, text: u32) -> &str {
        self.list.get(text as usize).map_or("", |(name, _)| name)
    }

    pub(crate) fn text(&self, text: u32) -> &str {
        self.list.get(text as usize).map_or("", |(_, text)| text)
    }

    /// Line, column and length, counted from 1 in characters.
    pub(crate) fn place(&self, span: Span) -> (usize, usize, usize) {
        let text = self.text(span.text);
        let start = floor(text, span.start as usize);
        let end = floor(text, (span.end as usize).max(start));
        let before = &text[..start];
        let (mut line, mut column) = (1, 1);
        let mut previous = ' ';
        for c in before.chars() {
            match c {
                '\n' if previous == '\r' => {}
                '\n' | '\r' => {
                    line += 1;
                    column = 1;
                }
                _ => column += 1,
            }
            previous = c;
        }
        (line, column, text[start..end].chars().count().max(1))
    }

    /// Line of a span, as `FILE:LINE`.
    pub(crate) fn line(&self, span: Span) -> String {
        format!("{}:{}", self.name(span.text), self.place(span).0)
    }
}

/// The last character boundary not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Most errors that one load reports.
const MOST: usize = 50;

/// Diagnostics as they are found.
#[derive(Debug)]
pub(crate) struct Report<'t> {
    pub(crate) texts: &'t Texts,
    list: Vec<Diagnostic>,
    errors: usize,
    /// Places with an error that explains every later one there.
    misspelt: Vec<Span>,
    remark: Option<Remark>,
}

/// Note on errors in templates: names the entry that the template is read for.
#[derive(Debug)]
pub(crate) struct Remark {
    /// First text of a template.
    pub(crate) from: u32,
    pub(crate) note: String,
}

impl<'t> Report<'t> {
    pub(crate) fn new(texts: &'t Texts) -> Report<'t> {
        Report {
            texts,
            list: Vec::new(),
            errors: 0,
            misspelt: Vec::new(),
            remark: None,
        }
    }

    /// Sets the note on errors in templates from now on; gives the one before.
    pub(crate) fn remark(&mut self, remark: Option<Remark>) -> Option<Remark> {
        core::mem::replace(&mut self.remark, remark)
    }

    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// True if further errors are only counted, so that their texts need not be made.
    pub(crate) fn full(&self) -> bool {
        self.errors >= MOST
    }

    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.tell(span, message.into(), None);
    }

    pub(crate) fn error_help(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.tell(span, message.into(), Some(help.into()));
    }

    fn tell(&mut self, span: Span, message: String, help: Option<String>) {
        if self.misspelt.contains(&span) {
            return;
        }
        if self.full() {
            self.errors += 1; // finding its line would take as long as the text
            return;
        }
        let mut diagnostic = self.at(Severity::Error, span, message);
        diagnostic.help = self.remarked(span.text, help.filter(|help| !help.is_empty()));
        self.push(diagnostic);
    }

    /// A help about one of the texts, with what is said behind errors in
    /// templates.
    pub(crate) fn remarked(&self, text: u32, help: Option<String>) -> Option<String> {
        let remark = self.remark.as_ref().filter(|remark| text >= remark.from);
        match (help, remark) {
            (Some(help), Some(remark)) => Some(format!("{help} ({})", remark.note)),
            (help, remark) => help.or_else(|| remark.map(|remark| remark.note.clone())),
        }
    }

    /// An error in how a scalar is spelled; what else may be wrong with it is
    /// not worth a word.
    pub(crate) fn spelling(&mut self, span: Span, message: String, help: String) {
        self.error_help(span, message, help);
        if self.misspelt.len() < MOST {
            self.misspelt.push(span);
        }
    }

    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.warning_help(span, message, None);
    }

    pub(crate) fn warning_help(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        // Functions write these; one that never stops must not stop the load.
        if self.list.len() >= 10 * MOST {
            return;
        }
        let mut diagnostic = self.at(Severity::Warning, span, message.into());
        diagnostic.help = self.remarked(span.text, help);
        self.push(diagnostic);
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
            if self.errors > MOST {
                return;
            }
        }
        self.list.push(diagnostic);
    }

    fn at(&self, severity: Severity, span: Span, message: String) -> Diagnostic {
        Diagnostic::new(
            severity,
            self.texts.name(span.text),
            Some(self.texts.text(span.text)),
            self.texts.place(span),
            message,
        )
    }

    /// All of it: overrides after the file, each in the order of its lines.
    pub(crate) fn finish(self) -> Vec<Diagnostic> {
        let mut list = self.list;
        let order = |file: &str| (0..).zip(&self.texts.list).find(|(_, t)| t.0 == file);
        list.sort_by_key(|d| {
            let text: usize = order(&d.file).map_or(usize::MAX, |(n, _)| n);
            (text, d.line, d.column)
        });
        if let (Some(last), true) = (list.last_mut(), self.errors > MOST) {
            let more = format!("and {} more errors", self.errors - MOST);
            last.help = Some(match last.help.take() {
                Some(help) => format!("{help}; {more}"),
                None => more,
            });
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_and_every_kind_of_line_break() {
        let mut texts = Texts::default();
        let text = texts.add("f".into(), "é: 1\r\nb\rccc\n".into());
        let at = |start, end| texts.place(Span { text, start, end });
        assert_eq!(at(0, 2), (1, 1, 1));
        assert_eq!(at(4, 5), (1, 4, 1));
        assert_eq!(at(7, 8), (2, 1, 1));
        assert_eq!(at(9, 12), (3, 1, 3));
        assert_eq!(at(13, 13), (4, 1, 1));
        assert_eq!(at(1, 900), (1, 1, 12));
        assert_eq!(
            lines("a\r\nb\rc\n").collect::<Vec<_>>(),
            ["a", "b", "c", ""]
        );
    }

    #[test]
    fn prints_line_caret_and_help() {
        let mut texts = Texts::default();
        let text = texts.add("edge.yaml".into(), "nfs:\n  - firewal\n".into());
        let mut report = Report::new(&texts);
        let span = Span {
            text,
            start: 9,
            end: 16,
        };
        report.error_help(span, "there is no function `firewal`", "did you mean that?");
        assert_eq!(
            render(&report.finish()),
            "edge.yaml:2:5: error: there is no function `firewal`\n \
             2 |   - firewal\n   |     ^^^^^^^\n   = help: did you mean that?\n"
        );
    }

    #[test]
    fn long_and_hostile_lines_are_cut_and_cleaned() {
        let mut texts = Texts::default();
        let long = format!("{}\u{1b}[31mx", "a".repeat(10_000));
        let text = texts.add("f".into(), long);
        let mut report = Report::new(&texts);
        report.error(
            Span {
                text,
                start: 10_000,
                end: 10_006,
            },
            "bad",
        );
        let out = render(&report.finish());
        assert!(out.len() < 400 && !out.contains('\u{1b}'), "{out}");
    }
}
