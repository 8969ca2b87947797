//! Lists of rules to leave out, to take, to let drop, and to change, as suricata-update reads them
//! (`disable.conf`, `enable.conf`, `drop.conf`, `modify.conf`).

use std::borrow::Cow;

use fancy_regex::{Regex, RegexBuilder};

use crate::error::{RuleError, Span};
use crate::raw_option;

/// The purpose of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Rules that are left out.
    Disable,
    /// Rules that are taken although they are commented out.
    Enable,
    /// Rules whose action becomes `drop`.
    Drop,
    /// Rules whose text is changed.
    Modify,
}

/// Rules that an entry of a list selects.
#[derive(Debug, Clone)]
enum Matcher {
    /// `2019401`, `1:2019401`, `2019401-2019410`: generator, first and last sid.
    Ids(u32, u32, u32),
    /// `re:heartbleed`: the text of the rule, upper and lower case alike.
    Text(Regex),
    /// `group:emerging-dos`, `filename:rules/*.rules`: the name of the file.
    File(Regex),
    /// `metadata: deployment perimeter`: key and value.
    Metadata(String, String),
    /// `*`.
    All,
}

/// One line of a list.
#[derive(Debug, Clone)]
struct Entry {
    kind: ListKind,
    /// Name of the list, and line.
    place: (String, usize),
    /// One of these must fit.
    any: Vec<Matcher>,
    /// Expression and its replacement; of [`ListKind::Modify`] only.
    change: Option<(Regex, String)>,
}

/// Lists, in the order in which they were added.
#[derive(Debug, Clone, Default)]
pub struct RuleLists {
    entries: Vec<Entry>,
}

/// How many rules lists have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Rules that were left out.
    pub disabled: usize,
    /// Rules that were taken although commented out.
    pub enabled: usize,
    /// Rules whose action became `drop`.
    pub dropped: usize,
    /// Rules whose text was changed.
    pub modified: usize,
}

impl Applied {
    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: Applied) {
        self.disabled += other.disabled;
        self.enabled += other.enabled;
        self.dropped += other.dropped;
        self.modified += other.modified;
    }
}

/// A rule's line, as far as lists look at it.
struct Line<'a> {
    file: &'a str,
    text: &'a str,
    gid: u32,
    sid: u32,
}

impl RuleLists {
    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads a list called `name`.
    ///
    /// # Errors
    ///
    /// All lines that are no entries.
    pub fn add(&mut self, kind: ListKind, name: &str, text: &str) -> Result<(), Vec<RuleError>> {
        let mut errors = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let written = line.trim();
            if written.is_empty() || written.starts_with('#') {
                continue;
            }
            match entry(kind, written) {
                Ok((any, change)) => self.entries.push(Entry {
                    kind,
                    place: (name.to_owned(), number + 1),
                    any,
                    change,
                }),
                Err((message, help)) => errors.push(RuleError {
                    line: number + 1,
                    column: line.chars().take_while(|c| c.is_whitespace()).count() + 1,
                    length: written.chars().count(),
                    message,
                    help: Some(help.to_owned()),
                    duplicate: false,
                }),
            }
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors),
        }
    }

    /// Applies the lists to the text of a rule file: what is left out becomes a comment, what is taken no longer
    /// is one, so that lines keep their numbers. A rule that is both left out and taken is taken.
    ///
    /// # Errors
    ///
    /// An expression of a list that takes too many steps on a rule, with its place.
    pub fn apply<'t>(&self, file: &str, text: &'t str) -> Result<(Cow<'t, str>, Applied), String> {
        let mut applied = Applied::default();
        if self.is_empty() {
            return Ok((Cow::Borrowed(text), applied));
        }
        let mut changed = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            let (rule, after) = rest.split_at(rule_length(rest));
            rest = after;
            match self.changed(file, rule, &mut applied)? {
                Some(rule) => changed.push_str(&rule),
                None => changed.push_str(rule),
            }
        }
        Ok((Cow::Owned(changed), applied))
    }

    /// The text of a rule as the lists want it; `None` if they leave it as it is.
    fn changed(
        &self,
        file: &str,
        text: &str,
        applied: &mut Applied,
    ) -> Result<Option<String>, String> {
        let was_taken = !text.trim_start().starts_with('#');
        let bare = text.trim_start().trim_start_matches(['#', ' ', '\t']);
        let Some((gid, sid)) = ids(bare).filter(|_| is_rule(bare)) else {
            return Ok(None);
        };
        let line = Line {
            file,
            text: bare,
            gid,
            sid,
        };
        let disabled = was_taken && self.names(ListKind::Disable, &line)?;
        let enabled = (disabled || !was_taken) && self.names(ListKind::Enable, &line)?;
        let taken = was_taken && !disabled || enabled;
        applied.disabled += usize::from(disabled && !enabled);
        applied.enabled += usize::from(enabled && !was_taken);
        if !taken {
            let comment = |line: &str| format!("#{line}");
            return Ok(disabled.then(|| text.split_inclusive('\n').map(comment).collect()));
        }
        let mut now = Cow::Borrowed(bare);
        if self.names(ListKind::Drop, &line)?
            && let Some(options) = bare.strip_prefix("alert")
        {
            applied.dropped += 1;
            now = Cow::Owned(format!("drop{options}"));
        }
        let mut modified = false;
        for entry in self.entries.iter().filter(|entry| entry.change.is_some()) {
            let fits = entry.fits(&Line { text: &now, ..line })?;
            let Some((from, to)) = entry.change.as_ref().filter(|_| fits) else {
                continue;
            };
            let next = from.try_replacen(&now, 0, to.as_str());
            let next = match next.map_err(|_| entry.too_hard())? {
                Cow::Owned(next) => next,
                Cow::Borrowed(_) => continue,
            };
            modified = true;
            now = Cow::Owned(next);
        }
        applied.modified += usize::from(modified);
        let same = was_taken && matches!(now, Cow::Borrowed(_));
        Ok((!same).then(|| now.into_owned()))
    }

    /// True if an entry of this kind names the rule.
    fn names(&self, kind: ListKind, line: &Line<'_>) -> Result<bool, String> {
        for entry in self.entries.iter().filter(|entry| entry.kind == kind) {
            if entry.fits(line)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Entry {
    fn fits(&self, line: &Line<'_>) -> Result<bool, String> {
        for matcher in &self.any {
            let fits = match matcher {
                Matcher::Ids(gid, first, last) => {
                    *gid == line.gid && (*first..=*last).contains(&line.sid)
                }
                Matcher::Text(regex) => regex.is_match(line.text).map_err(|_| self.too_hard())?,
                Matcher::File(regex) => {
                    let name = line.file.rsplit('/').next().unwrap_or(line.file);
                    let short = name.strip_suffix(".rules").unwrap_or(name);
                    let mut found = false;
                    for name in [line.file, name, short] {
                        found |= regex.is_match(name).map_err(|_| self.too_hard())?;
                    }
                    found
                }
                Matcher::Metadata(key, value) => has_metadata(line.text, key, value),
                Matcher::All => true,
            };
            if fits {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn too_hard(&self) -> String {
        let (name, line) = &self.place;
        format!("{name}:{line}: the expression takes too many steps on a rule")
    }
}

/// Bytes of the first rule of a text, or of its first line where that is no rule: a rule goes on behind a `\`.
fn rule_length(text: &str) -> usize {
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        let is_comment = length == line.len() && line.trim_start().starts_with('#');
        if is_comment || !line.trim_end().ends_with('\\') {
            break;
        }
    }
    length
}

/// True for a text that begins as a rule does.
fn is_rule(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or("");
    let actions = [
        "alert",
        "pass",
        "drop",
        "reject",
        "rejectsrc",
        "rejectdst",
        "rejectboth",
    ];
    actions.contains(&word) && text.contains('(')
}

/// The values of a rule's options of these names, in their order.
fn values(text: &str, keyword: &str) -> Vec<String> {
    let pieces = text
        .lines()
        .map(|line| line.trim_end().trim_end_matches('\\'));
    let joined: String = pieces.collect();
    let ends = joined.find('(').zip(joined.rfind(')'));
    let Some((open, close)) = ends.filter(|(open, close)| open < close) else {
        return Vec::new();
    };
    // A rule that can't be split is no entry's: whoever reads the rules tells its fault.
    let options = raw_option::split(&joined, Span::new(open + 1, close)).unwrap_or_default();
    let wanted = options.iter().filter(|option| option.keyword == keyword);
    wanted
        .map(|option| option.value.of(&joined).trim().to_owned())
        .collect()
}

/// A rule's `gid` and `sid`.
fn ids(text: &str) -> Option<(u32, u32)> {
    let number = |keyword: &str| values(text, keyword).first()?.parse::<u32>().ok();
    Some((number("gid").unwrap_or(1), number("sid")?))
}

/// True if a rule's `metadata` has the key with the value.
fn has_metadata(text: &str, key: &str, value: &str) -> bool {
    let all = values(text, "metadata");
    let mut pairs = all.iter().flat_map(|pairs| pairs.split(',')).map(str::trim);
    pairs.any(|pair| {
        let (known, own) = pair.split_once(char::is_whitespace).unwrap_or((pair, ""));
        known.eq_ignore_ascii_case(key) && own.trim().eq_ignore_ascii_case(value)
    })
}

type Read = (Vec<Matcher>, Option<(Regex, String)>);
type Wrong = (String, &'static str);

/// Reads a line of a list.
fn entry(kind: ListKind, line: &str) -> Result<Read, Wrong> {
    if kind != ListKind::Modify {
        return Ok((matchers(line)?, None));
    }
    const HELP: &str =
        "write a rule, and two texts in quotes: `2019401 \"seconds \\d+\" \"seconds 60\"`";
    let wrong = || ("a change has two texts in quotes".to_owned(), HELP);
    let line = line.strip_prefix("modifysid").unwrap_or(line).trim();
    let (which, texts) = line.split_once(" \"").ok_or_else(wrong)?;
    let (from, rest) = quoted(texts).ok_or_else(wrong)?;
    let rest = rest.trim_start_matches([' ', '\t', '|']);
    let (to, rest) = rest.strip_prefix('"').and_then(quoted).ok_or_else(wrong)?;
    if !rest.trim().is_empty() {
        return Err(wrong());
    }
    let from = Regex::new(from).map_err(|error| (format!("`{from}`: {error}"), HELP))?;
    Ok((matchers(which.trim())?, Some((from, replacement(to)))))
}

/// A text up to its closing quote, and what follows; `\"` is a quote within.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quotes = text.match_indices('"').map(|(at, _)| at);
    let mut ends = quotes.filter(|&at| !text.get(..at).is_some_and(|text| text.ends_with('\\')));
    let end = ends.next()?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Python's `\1` as `${1}`; a `$` is one.
fn replacement(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut chars = written.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('$', _) => text.push_str("$$"),
            ('\\', Some('"')) => {}
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                text.push_str(&format!("${{{digit}}}"));
                chars.next();
            }
            (c, _) => text.push(c),
        }
    }
    text
}

/// Reads what names rules.
fn matchers(written: &str) -> Result<Vec<Matcher>, Wrong> {
    const HELP: &str =
        "write 2019401, 1:2019401, re:TEXT, group:NAME, filename:NAME, metadata:KEY VALUE or *";
    let expression = |text: &str, pattern: String| {
        let built = RegexBuilder::new(&pattern).case_insensitive(true).build();
        built.map_err(|error| (format!("`{text}`: {error}"), HELP))
    };
    if written == "*" {
        return Ok(vec![Matcher::All]);
    }
    if let Some(text) = written.strip_prefix("re:") {
        return Ok(vec![Matcher::Text(expression(
            text,
            text.trim().to_owned(),
        )?)]);
    }
    let file = written
        .strip_prefix("group:")
        .or(written.strip_prefix("filename:"));
    if let Some(name) = file {
        let pattern = fancy_regex::escape(name.trim());
        let pattern = pattern.replace(r"\*", ".*").replace(r"\?", ".");
        return Ok(vec![Matcher::File(expression(
            name,
            format!("^{pattern}$"),
        )?)]);
    }
    if let Some(pair) = written.strip_prefix("metadata:") {
        let pair = pair.trim().split_once(char::is_whitespace);
        let (key, value) = pair.ok_or(("metadata needs a key and a value".to_owned(), HELP))?;
        return Ok(vec![Matcher::Metadata(
            key.to_owned(),
            value.trim().to_owned(),
        )]);
    }
    let number = |text: &str| {
        let read = text.trim().parse::<u32>();
        read.map_err(|_| (format!("`{text}` names no rule"), HELP))
    };
    let all = written.split(',').map(|part| {
        let (gid, sids) = part.split_once(':').unwrap_or(("1", part));
        let (first, last) = sids.split_once('-').unwrap_or((sids, sids));
        Ok(Matcher::Ids(number(gid)?, number(first)?, number(last)?))
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "\
# A comment, and (sid:1) in it.
alert tcp any any -> any any (msg:\"one\"; content:\"a\"; metadata:deployment Perimeter, x y; sid:1; rev:1;)
#alert tcp any any -> any any (msg:\"two\"; content:\"b\"; sid:2; rev:1;)
alert tcp any any -> any any (msg:\"three\\; sid:9\\;\"; \\
   content:\"c\"; threshold: count 1, seconds 60; sid: 3; rev:1;)
drop tcp any any -> any any (msg:\"four\"; gid:7; content:\"d\"; sid:4;)
";

    fn applied(lists: &[(ListKind, &str)]) -> (String, Applied) {
        let mut all = RuleLists::default();
        for (kind, text) in lists {
            all.add(*kind, "list.conf", text).unwrap();
        }
        let (text, applied) = all.apply("rules/emerging-dos.rules", RULES).unwrap();
        assert_eq!(text.lines().count(), RULES.lines().count());
        (text.into_owned(), applied)
    }

    /// Numbers of the lines that are comments.
    fn comments(text: &str) -> Vec<usize> {
        let lines = (1..).zip(text.lines());
        let comments = lines.filter(|(_, line)| line.starts_with('#'));
        comments.map(|(number, _)| number).collect()
    }

    #[test]
    fn rules_are_named_in_all_ways() {
        assert_eq!(applied(&[]).0, RULES);
        for (list, expected) in [
            ("1", vec![1, 2, 3]),
            ("# 1\n\n 1:1 , 3", vec![1, 2, 3, 4, 5]),
            ("1-3", vec![1, 2, 3, 4, 5]),
            ("4", vec![1, 3]),
            ("7:4", vec![1, 3, 6]),
            ("9", vec![1, 3]),
            ("re:MSG:\"ONE", vec![1, 2, 3]),
            ("group:emerging-dos", vec![1, 2, 3, 4, 5, 6]),
            ("group:emerging-d?s.rules", vec![1, 2, 3, 4, 5, 6]),
            ("filename:rules/*.rules", vec![1, 2, 3, 4, 5, 6]),
            ("group:dos", vec![1, 3]),
            ("metadata: deployment perimeter", vec![1, 2, 3]),
            ("metadata: deployment y", vec![1, 3]),
        ] {
            let (text, applied) = applied(&[(ListKind::Disable, list)]);
            assert_eq!(comments(&text), expected, "{list}");
            assert_eq!(
                applied.disabled,
                usize::from(expected.contains(&2))
                    + usize::from(expected.contains(&4))
                    + usize::from(expected.contains(&6))
            );
        }
    }

    #[test]
    fn rules_are_enabled_dropped_and_modified() {
        let (text, counts) = applied(&[
            (ListKind::Disable, "re:content"),
            (ListKind::Enable, "2,3"),
            (ListKind::Drop, "3"),
            (
                ListKind::Modify,
                "3 \"seconds (\\d+)\" \"seconds $\\1\"\nmodifysid 2 \"b\" | \"B\"",
            ),
        ]);
        assert_eq!(comments(&text), [1, 2, 6]);
        assert_eq!(
            counts,
            Applied {
                disabled: 2,
                enabled: 1,
                dropped: 1,
                modified: 2
            }
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].starts_with("alert") && lines[2].contains("content:\"B\""),
            "{text}"
        );
        assert!(lines[3].starts_with("drop tcp"), "{text}");
        assert!(lines[4].contains("seconds $60"), "{text}");
    }

    #[test]
    fn lines_that_are_wrong_are_told() {
        let mut lists = RuleLists::default();
        let errors = lists
            .add(ListKind::Disable, "d", "1\n  re:(\nabc\nmetadata: x\n2:x")
            .unwrap_err();
        let lines: Vec<_> = errors
            .iter()
            .map(|error| (error.line, error.column))
            .collect();
        assert_eq!(lines, [(2, 3), (3, 1), (4, 1), (5, 1)]);
        let errors = lists
            .add(ListKind::Modify, "m", "1 \"a\"\n1 a b\n1 \"(\" \"b\"")
            .unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }
}
