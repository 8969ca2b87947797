//! `$name` in the settings of a template's processors.
//!
//! `$name` alone is the setting's value, whatever it is; inside a text it is
//! the text of the value (of a list: its entries with commas between); as an
//! entry `$name...` of a list it is the entries of the list. A key or
//! entry that names a setting without a value is left out.
//! `${name}` may be written before letters, and `$$` is a dollar sign.

use std::collections::BTreeMap;

use crate::diagnostic::Span;
use crate::tree::{Node, Value};

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Form of a scalar in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form<'a> {
    /// No reference in it.
    Plain,
    /// A reference alone.
    Whole(&'a str),
    /// The entries of a list.
    Entries(&'a str),
    /// References inside a text.
    Mixed(Vec<Piece<'a>>),
}

/// Form of a scalar; an error tells the fault of a `$` in it.
pub(crate) fn form(text: &str) -> Result<Form<'_>, String> {
    if !text.contains('$') {
        return Ok(Form::Plain);
    }
    let pieces = pieces(text)?;
    Ok(match pieces.as_slice() {
        [Piece::Name(name)] => Form::Whole(name),
        [Piece::Name(name), Piece::Text("...")] => Form::Entries(name),
        _ => Form::Mixed(pieces),
    })
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, tail) = rest.split_at(at);
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let tail = tail.strip_prefix('$').unwrap_or(tail);
        if let Some(after) = tail.strip_prefix('$') {
            pieces.push(Piece::Text("$"));
            rest = after;
            continue;
        }
        let (name, after) = match tail.strip_prefix('{') {
            Some(inner) => inner
                .split_once('}')
                .ok_or_else(|| "`${` without `}`".to_owned())?,
            None => {
                let end = tail.find(|c: char| !name_character(c));
                // A name has no dash at its end: `$least-$most`.
                let name = tail.get(..end.unwrap_or(tail.len())).unwrap_or("");
                tail.split_at(name.trim_end_matches('-').len())
            }
        };
        if name.is_empty() || !name.chars().all(name_character) {
            return Err("`$` without the name of a setting behind it".to_owned());
        }
        pieces.push(Piece::Name(name));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

const fn name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The names that a scalar refers to.
pub(crate) fn names<'a>(form: &Form<'a>) -> Vec<&'a str> {
    match form {
        Form::Plain => Vec::new(),
        Form::Whole(name) | Form::Entries(name) => vec![name],
        Form::Mixed(pieces) => pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Name(name) => Some(*name),
                Piece::Text(_) => None,
            })
            .collect(),
    }
}

/// Value of each setting; `None` for one without a value.
pub(crate) type Values = BTreeMap<String, Option<Node>>;

/// Why settings could not be made: where, and what.
#[derive(Debug)]
pub(crate) enum Failure {
    /// More octets than are left.
    TooMuch,
    /// A value that can't be where it is meant to be.
    Misfit(Span, String),
}

/// Puts values in the place of references. `None` where the whole is left out.
/// `room` is the number of octets that may still be made.
pub(crate) fn substitute(
    node: &Node,
    values: &Values,
    room: &mut usize,
) -> Result<Option<Node>, Failure> {
    match &node.value {
        Value::Scalar { text, .. } => scalar(node, text, values, room),
        Value::List(items) => {
            let mut out = Vec::new();
            for item in items {
                let entries = item.text().and_then(|text| match form(text) {
                    Ok(Form::Entries(name)) => Some(name),
                    _ => None,
                });
                let Some(name) = entries else {
                    out.extend(substitute(item, values, room)?);
                    continue;
                };
                match values.get(name).and_then(Option::as_ref) {
                    None => {}
                    Some(Node {
                        value: Value::List(items),
                        ..
                    }) => {
                        for item in items {
                            out.push(taken(item, room)?);
                        }
                    }
                    Some(other) => {
                        let message = format!("`{name}` must be a list, found {}", other.kind());
                        return Err(Failure::Misfit(other.span, message));
                    }
                }
            }
            take(64, room)?;
            let value = Value::List(out);
            Ok(Some(Node {
                value,
                span: node.span,
            }))
        }
        Value::Map(entries) => {
            let mut out = Vec::new();
            for (key, value) in entries {
                if let Some(value) = substitute(value, values, room)? {
                    out.push((taken(key, room)?, value));
                }
            }
            take(64, room)?;
            let value = Value::Map(out);
            Ok(Some(Node {
                value,
                span: node.span,
            }))
        }
    }
}

fn scalar(
    node: &Node,
    text: &str,
    values: &Values,
    room: &mut usize,
) -> Result<Option<Node>, Failure> {
    let pieces = match form(text) {
        Ok(Form::Plain) => return taken(node, room).map(Some),
        Ok(Form::Whole(name)) => {
            let value = values.get(name).and_then(Option::as_ref);
            return value.map(|value| taken(value, room)).transpose();
        }
        Ok(Form::Mixed(pieces)) => pieces,
        Ok(Form::Entries(_)) | Err(_) => return Ok(None), // refused when the template was checked
    };
    let mut out = String::new();
    // Errors point at the value inside the text: it can be changed there.
    let mut span = node.span;
    for piece in pieces {
        let part = match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Name(name) => match values.get(name).and_then(Option::as_ref) {
                None => return Ok(None),
                Some(value) => {
                    if value.span.text != node.span.text {
                        span = value.span;
                    }
                    match text_of(value) {
                        Ok(text) if text.is_empty() => return Ok(None),
                        Ok(text) => text,
                        Err(found) => {
                            let message =
                                format!("`{name}` is put into a text: it can't be {found}");
                            return Err(Failure::Misfit(value.span, message));
                        }
                    }
                }
            },
        };
        take(part.len(), room)?;
        out.push_str(&part);
    }
    take(64, room)?;
    Ok(Some(Node {
        value: Value::Scalar {
            text: out,
            plain: false,
        },
        span,
    }))
}

/// A value inside a text.
fn text_of(value: &Node) -> Result<String, String> {
    match &value.value {
        Value::Scalar { text, .. } => Ok(text.clone()),
        Value::List(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Node::text).collect();
            let texts = texts.ok_or_else(|| "a list of lists or mappings".to_owned())?;
            Ok(texts.join(","))
        }
        Value::Map(_) => Err(value.kind()),
    }
}

fn taken(node: &Node, room: &mut usize) -> Result<Node, Failure> {
    take(node.measure().0, room)?;
    Ok(node.clone())
}

fn take(octets: usize, room: &mut usize) -> Result<(), Failure> {
    *room = room.checked_sub(octets).ok_or(Failure::TooMuch)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Report, Texts};
    use crate::template::canonical;
    use crate::tree;

    #[test]
    fn reads_references() {
        assert_eq!(form("no dollar"), Ok(Form::Plain));
        assert_eq!(form("$a-b"), Ok(Form::Whole("a-b")));
        assert_eq!(form("${a}"), Ok(Form::Whole("a")));
        assert_eq!(form("$list..."), Ok(Form::Entries("list")));
        let mixed = |text| match form(text) {
            Ok(Form::Mixed(pieces)) => pieces,
            other => panic!("{other:?}"),
        };
        use Piece::{Name, Text};
        assert_eq!(
            mixed("tcp to $to port ${least}-$most"),
            [
                Text("tcp to "),
                Name("to"),
                Text(" port "),
                Name("least"),
                Text("-"),
                Name("most")
            ]
        );
        assert_eq!(
            mixed("$least-$most"),
            [Name("least"), Text("-"), Name("most")]
        );
        assert_eq!(mixed("$$HOME"), [Text("$"), Text("HOME")]);
        for bad in ["$", "a $ b", "${a", "${}", "${a b}", "$-"] {
            assert!(form(bad).is_err(), "{bad}");
        }
    }

    fn read(source: &str) -> Node {
        let mut texts = Texts::default();
        let text = texts.add("f".into(), source.into());
        let mut report = Report::new(&texts);
        let node = tree::parse(text, source, &mut report);
        assert_eq!(report.errors(), 0);
        node.unwrap()
    }

    /// `settings` with these values put in, as JSON; with the room that is left.
    fn made(settings: &str, values: &str, mut room: usize) -> Result<(String, usize), Failure> {
        let values = read(values);
        let values: Values = values
            .entries()
            .unwrap()
            .iter()
            .map(|(key, value)| {
                let value = (!value.is_null()).then(|| value.clone());
                (key.text().unwrap().to_owned(), value)
            })
            .collect();
        let node = substitute(&read(settings), &values, &mut room)?;
        Ok((canonical(node.as_ref()), room))
    }

    #[test]
    fn puts_values_in_and_leaves_out_what_has_none() {
        let values = "{n: 7, t: x, b: true, l: [1, b], e: [], m: {k: v}, z: }";
        let case = |settings: &str, expected: &str| {
            let (made, _) = made(settings, values, 1 << 20).unwrap();
            assert_eq!(made, expected, "{settings}");
        };
        case("a: $n", r#"{"a":7}"#);
        case("a: '$n'", r#"{"a":7}"#);
        case("a: ${t}s$n", r#"{"a":"xs7"}"#);
        case("a: 1$n", r#"{"a":"17"}"#);
        case("a: $t-$n", r#"{"a":"x-7"}"#);
        case("a: [$l, $m]", r#"{"a":[[1,"b"],{"k":"v"}]}"#);
        case("a: [0, $l..., $e..., $z..., 9]", r#"{"a":[0,1,"b",9]}"#);
        case("a: to $l", r#"{"a":"to 1,b"}"#);
        case(
            "a: $z\nb: {c: $z}\nd: [$z, 1]\ne: is $z",
            r#"{"b":{},"d":[1]}"#,
        );
        // An empty list has no text.
        case("a: $e\nb: to $e", r#"{"a":[]}"#);
        case("a: $$n costs $$5", r#"{"a":"$n costs $5"}"#);
        case("a: $b\nb: is $b", r#"{"a":true,"b":"is true"}"#);
        // Keys are taken as they are, and so is what stands in a value.
        case("$n: ~", r#"{"$n":null}"#);
        assert_eq!(
            made("a: $t", "t: $$t", 1 << 20).unwrap().0,
            r#"{"a":"$$t"}"#
        );
        assert!(matches!(
            made("a: is $m", values, 1 << 20),
            Err(Failure::Misfit(..))
        ));
        assert!(matches!(
            made("a: [$n...]", values, 1 << 20),
            Err(Failure::Misfit(..))
        ));
    }

    #[test]
    fn what_is_made_takes_room() {
        let (_, left) = made("a: [$t, $t]", "t: abc", 10_000).unwrap();
        let used = 10_000 - left;
        assert!(used > 4 * 64, "{used}");
        assert!(made("a: [$t, $t]", "t: abc", used).is_ok());
        assert!(matches!(
            made("a: [$t, $t]", "t: abc", used - 1),
            Err(Failure::TooMuch)
        ));
    }
}
