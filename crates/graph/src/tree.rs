//! YAML as written: nodes with their places, before anyone asks what they mean.
//!
//! The parser gives events; this makes a tree of them within bounds, and refuses
//! what YAML 1.1 and 1.2 read differently.

use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::diagnostic::{Report, Span};

/// Most octets of a chain file or override.
const MAX_TEXT: usize = 1 << 20;
/// Most lists and mappings inside one another.
pub(crate) const MAX_DEPTH: usize = 64;
/// Most octets of copies that aliases make, nodes counted as 64.
pub(crate) const MAX_COPIES: usize = 4 << 20;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `plain` where it is not quoted, so that it may be a number or the like.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// Keys are scalars, each once.
    Map(Vec<(Node, Node)>),
}

impl Node {
    pub(crate) fn scalar(text: &str, span: Span) -> Node {
        Node {
            value: Value::Scalar {
                text: text.to_owned(),
                plain: false,
            },
            span,
        }
    }

    /// Nothing was written, or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn entries(&self) -> Option<&[(Node, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let (_, value) = self
            .entries()?
            .iter()
            .find(|(name, _)| name.text() == Some(key))?;
        Some(value)
    }

    /// Name of its kind, for "expected ..., found ...".
    pub(crate) fn kind(&self) -> String {
        match &self.value {
            _ if self.is_null() => "nothing".to_owned(),
            Value::Scalar { text, .. } => format!("`{}`", shorten(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Octets that a copy takes, roughly, and levels of nesting.
    pub(crate) fn measure(&self) -> (usize, usize) {
        let join = |(a, x): (usize, usize), (b, y): (usize, usize)| (a + b, x.max(y));
        let (octets, depth) = match &self.value {
            Value::Scalar { text, .. } => return (64 + text.len(), 0),
            Value::List(items) => items.iter().map(Node::measure).fold((0, 0), join),
            Value::Map(entries) => entries
                .iter()
                .map(|(key, value)| join(key.measure(), value.measure()))
                .fold((0, 0), join),
        };
        (64 + octets, depth + 1)
    }
}

/// The first characters of a text, for messages.
pub(crate) fn shorten(text: &str) -> String {
    const MOST: usize = 40;
    let mut out: String = text.chars().take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        out.push_str("...");
    }
    out
}

/// Reads one document. `None` where there is none or it can't be read; the
/// report says why, except that an empty text is reported by the caller.
pub(crate) fn parse(text: u32, source: &str, report: &mut Report<'_>) -> Option<Node> {
    parse_at(text, source, 0, report)
}

/// [`parse`] of a text that begins at `offset` of the text in the report.
pub(crate) fn parse_at(
    text: u32,
    source: &str,
    offset: usize,
    report: &mut Report<'_>,
) -> Option<Node> {
    let span = |start: usize, end: usize| Span {
        text,
        start: (start + offset) as u32,
        end: (end + offset) as u32,
    };
    if source.len() > MAX_TEXT {
        report.error(
            span(0, 0),
            format!("the text is longer than {MAX_TEXT} octets"),
        );
        return None;
    }
    let options = parser_options();
    let mut builder = Builder::default();
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(source, options) {
        let (event, place) = match event {
            Ok(event) => event,
            Err(error) => {
                let at = place_of(&error, source);
                syntax(report, span(at, at + 1), &error.info());
                return None;
            }
        };
        let range = place.byte_range().unwrap_or(0..0);
        let here = span(range.start, range.end);
        if let Some(tag) = event.tag()
            && !tag.is_yaml_core_schema_tag("str")
        {
            report.error_help(
                here,
                format!("the tag `{}` has no meaning here", shorten(&tag.original())),
                "leave it out",
            );
        }
        match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    report.error_help(
                        here,
                        "a second YAML document starts here",
                        "write several chains as a list under `chains:`",
                    );
                    break;
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                builder.scalar(value.into_owned(), plain, here, anchor, report);
            }
            Event::SequenceStart(_, anchor, _) => builder.open(false, here, anchor, report),
            Event::MappingStart(_, anchor, _) => builder.open(true, here, anchor, report),
            Event::SequenceEnd | Event::MappingEnd => builder.close(here.end, report),
            Event::Alias(id) => builder.alias(id, here, report),
            _ => {}
        }
        if builder.stop {
            return None;
        }
    }
    builder.root
}

/// Offset of an error in octets.
fn place_of(error: &ScanError, source: &str) -> usize {
    let marker = error.marker();
    marker.byte_offset().unwrap_or_else(|| {
        let at = source.char_indices().nth(marker.index());
        at.map_or(source.len(), |(at, _)| at)
    })
}

fn parser_options() -> granit_parser::Options {
    let mut options = granit_parser::options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        disallow_directives: true,
    };
    options.set_emit_comments(false);
    options
}

fn syntax(report: &mut Report<'_>, span: Span, info: &str) {
    let info = if info.is_empty() {
        "it can't be read"
    } else {
        info
    };
    let message = format!("not YAML: {info}");
    // A tab in the indentation is what is wrong, whatever the parser tripped over.
    let text = report.texts.text(span.text);
    let at = text.len().min(span.start as usize);
    let head = text.get(..at).unwrap_or("");
    let line = head.rfind(['\n', '\r']).map_or(0, |end| end + 1);
    let rest = text.get(line..).unwrap_or("");
    let indent = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    match rest.get(..indent).and_then(|indent| indent.find('\t')) {
        Some(tab) => {
            let start = (line + tab) as u32;
            let tab = Span {
                start,
                end: start + 1,
                ..span
            };
            report.error_help(tab, message, "indent with spaces, not with tabs");
        }
        None => match opening_quote(head).filter(|_| info.contains("quoted scalar")) {
            Some(quote) => {
                let start = quote as u32;
                let quote = Span {
                    start,
                    end: start + 1,
                    ..span
                };
                report.error_help(quote, message, "close the quote");
            }
            None => report.error(span, message),
        },
    }
}

/// The last quote that looks like an opening one: the parser names the place
/// where it gave up, which may be many lines on.
fn opening_quote(text: &str) -> Option<usize> {
    let before = |at: usize| text.get(..at).and_then(|head| head.chars().next_back());
    text.rmatch_indices(['"', '\''])
        .map(|(at, _)| at)
        .find(|at| before(*at).is_none_or(|c| c.is_whitespace() || "[{,:".contains(c)))
}

/// Refuses plain scalars that are one thing to a YAML 1.1 reader and another to
/// a YAML 1.2 one.
fn check_spelling(text: &str, span: Span, report: &mut Report<'_>) {
    let truth = match text.to_ascii_lowercase().as_str() {
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        _ => None,
    };
    if let Some(truth) = truth {
        report.spelling(
            span,
            format!("`{text}` is a truth value to some YAML readers and text to others"),
            format!("write `{truth}`, or \"{text}\" in quotes"),
        );
        return;
    }
    let number = text.trim_start_matches(['-', '+']);
    if number.len() > 1
        && number.starts_with('0')
        && number.bytes().all(|octet| octet.is_ascii_digit())
    {
        let plain = match number.trim_start_matches('0') {
            "" => "0",
            plain => plain,
        };
        report.spelling(
            span,
            format!("`{text}` is octal to some YAML readers and decimal to others"),
            format!("write `{plain}`, or \"{text}\" in quotes"),
        );
    } else if number.contains('_')
        && number.starts_with(|c: char| c.is_ascii_digit())
        && number
            .bytes()
            .all(|octet| octet.is_ascii_digit() || octet == b'_')
    {
        report.spelling(
            span,
            format!("`{text}` is a number to some YAML readers and text to others"),
            format!("write `{}`, or \"{text}\" in quotes", text.replace('_', "")),
        );
    }
}

/// A list or mapping whose end was not seen yet.
struct Open {
    span: Span,
    anchor: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map {
        entries: Vec<(Node, Node)>,
        seen: BTreeMap<String, Span>,
        key: Option<Node>,
    },
}

#[derive(Default)]
struct Builder {
    stack: Vec<Open>,
    root: Option<Node>,
    anchors: BTreeMap<usize, Node>,
    copied: usize,
    depth_told: bool,
    refused: BTreeSet<usize>,
    stop: bool,
}

impl Builder {
    fn open(&mut self, map: bool, span: Span, anchor: usize, report: &mut Report<'_>) {
        if self.stack.len() >= MAX_DEPTH && !self.depth_told {
            self.depth_told = true;
            self.stop = true;
            report.error(span, format!("more than {MAX_DEPTH} levels of nesting"));
        }
        let content = if map {
            Content::Map {
                entries: Vec::new(),
                seen: BTreeMap::new(),
                key: None,
            }
        } else {
            Content::List(Vec::new())
        };
        self.stack.push(Open {
            span,
            anchor,
            content,
        });
    }

    fn close(&mut self, end: u32, report: &mut Report<'_>) {
        let open = self
            .stack
            .pop()
            .expect("the parser ends only what it began");
        let value = match open.content {
            Content::List(items) => Value::List(items),
            Content::Map { entries, .. } => Value::Map(entries),
        };
        let node = Node {
            value,
            span: Span { end, ..open.span },
        };
        self.anchored(open.anchor, &node, report);
        self.push(node, report);
    }

    fn scalar(
        &mut self,
        text: String,
        plain: bool,
        span: Span,
        anchor: usize,
        report: &mut Report<'_>,
    ) {
        if plain {
            check_spelling(&text, span, report);
        }
        let value = Value::Scalar { text, plain };
        let node = Node { value, span };
        self.anchored(anchor, &node, report);
        self.push(node, report);
    }

    fn anchored(&mut self, anchor: usize, node: &Node, report: &mut Report<'_>) {
        if anchor == 0 {
            return;
        }
        let (octets, _) = node.measure();
        self.copied = self.copied.saturating_add(octets);
        if self.copied > MAX_COPIES {
            self.too_much(node.span, report);
            return;
        }
        self.anchors.insert(anchor, node.clone());
    }

    fn alias(&mut self, id: usize, span: Span, report: &mut Report<'_>) {
        let Some(node) = self.anchors.get(&id) else {
            if self.refused.insert(id) {
                report.error(span, "an alias inside of what it stands for");
            }
            self.stop = true;
            return;
        };
        let (octets, depth) = node.measure();
        if self.stack.len() + depth > MAX_DEPTH {
            self.stop = true;
            report.error(span, format!("more than {MAX_DEPTH} levels of nesting"));
            return;
        }
        self.copied = self.copied.saturating_add(octets);
        if self.copied > MAX_COPIES {
            self.too_much(span, report);
            return;
        }
        let node = node.clone();
        self.push(node, report);
    }

    fn too_much(&mut self, span: Span, report: &mut Report<'_>) {
        self.stop = true;
        report.error_help(
            span,
            format!("aliases make more than {MAX_COPIES} octets of copies"),
            "use fewer anchors and aliases",
        );
    }

    fn push(&mut self, mut node: Node, report: &mut Report<'_>) {
        match self.stack.last_mut() {
            None => {
                self.root.get_or_insert(node);
            }
            Some(Open {
                content: Content::List(items),
                ..
            }) => items.push(node),
            Some(Open {
                content: Content::Map { entries, seen, key },
                ..
            }) => match key.take() {
                None => {
                    if node.text().is_none() {
                        report.error(node.span, format!("a key is a word, not {}", node.kind()));
                        node = Node::scalar("", node.span);
                    } else if node.is_null() {
                        report.error(node.span, "a key is missing");
                    } else if node.text() == Some("<<") {
                        report.error_help(
                            node.span,
                            "`<<` (merge) is not part of YAML 1.2",
                            "write the keys out",
                        );
                    }
                    *key = Some(node);
                }
                Some(name) => {
                    if node.is_null() && node.span.start >= node.span.end {
                        // Nothing was written: the key is what can be shown.
                        node.span = name.span;
                    }
                    let text = name.text().unwrap_or("").to_owned();
                    match seen.get(&text) {
                        Some(_) if report.full() => report.error(name.span, ""),
                        Some(first) => {
                            let first = report.texts.place(*first).0;
                            report.error_help(
                                name.span,
                                format!("the key `{}` is here twice", shorten(&text)),
                                format!("the first one is in line {first}: keep one"),
                            );
                        }
                        None => {
                            seen.insert(text, name.span);
                            entries.push((name, node));
                        }
                    }
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Texts, render};

    fn read(source: &str) -> (Option<Node>, String) {
        let mut texts = Texts::default();
        let text = texts.add("f".into(), source.into());
        let mut report = Report::new(&texts);
        let node = parse(text, source, &mut report);
        (node, render(&report.finish()))
    }

    #[test]
    fn keeps_places_and_spelling() {
        let (node, errors) = read("a: [1, \"2\"]\nb:\n");
        assert_eq!(errors, "");
        let node = node.unwrap();
        let Value::List(items) = &node.get("a").unwrap().value else {
            panic!("a list");
        };
        assert_eq!((items[1].span.start, items[1].span.end), (7, 10));
        assert!(matches!(
            &items[1].value,
            Value::Scalar { plain: false, .. }
        ));
        let b = node.get("b").unwrap();
        assert!(b.is_null());
        assert_eq!((b.span.start, b.span.end), (12, 13));
    }

    #[test]
    fn an_alias_is_a_copy_and_bombs_end() {
        let (node, errors) = read("a: &x [1]\nb: *x\n");
        assert_eq!(errors, "");
        let node = node.unwrap();
        assert_eq!(node.get("a"), node.get("b"));

        let mut bomb = "a0: &a0 [x, x]\n".to_owned();
        for n in 1..40 {
            bomb.push_str(&format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1));
        }
        let (node, errors) = read(&bomb);
        assert!(node.is_none() && errors.contains("copies"), "{errors}");

        let mut ladder = "a0: &a0 [x]\n".to_owned();
        for n in 1..200 {
            ladder.push_str(&format!("a{n}: &a{n} [*a{}]\n", n - 1));
        }
        let (node, errors) = read(&ladder);
        assert!(node.is_none() && errors.contains("nesting"), "{errors}");

        let (node, errors) = read("a: &a [*a]\n");
        assert!(node.is_none() && errors.contains("alias"), "{errors}");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "[".repeat(10_000);
        let (node, errors) = read(&deep);
        assert!(node.is_none() && errors.contains("error"), "{errors}");
        let deep: String = (0..100).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        let (node, errors) = read(&deep);
        assert!(node.is_none() && errors.contains("error"), "{errors}");
    }
}
