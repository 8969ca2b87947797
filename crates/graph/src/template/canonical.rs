//! Settings in one spelling.

use crate::de::{Scalar, resolve};
use crate::tree::{Node, Value};

/// Settings as text that is the same however they were spelled: JSON with
/// sorted keys. Empty where there are none.
pub(crate) fn canonical(settings: Option<&Node>) -> String {
    let mut out = String::new();
    if let Some(node) = settings.filter(|node| !node.is_null()) {
        write(node, &mut out);
    }
    out
}

/// A value as JSON.
pub(crate) fn json(node: &Node) -> Option<serde_json::Value> {
    serde_json::from_str(&canonical(Some(node))).ok()
}

fn write(node: &Node, out: &mut String) {
    match &node.value {
        Value::Scalar { text, plain } => match resolve(text, *plain) {
            Scalar::Null => out.push_str("null"),
            Scalar::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Scalar::Unsigned(value) => out.push_str(&value.to_string()),
            Scalar::Signed(value) => out.push_str(&value.to_string()),
            Scalar::Float(value) => out.push_str(&format!("{value:?}")),
            Scalar::Text => quoted(text, out),
        },
        Value::List(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            let mut sorted: Vec<&(Node, Node)> = entries.iter().collect();
            sorted.sort_by_key(|(key, _)| key.text());
            out.push('{');
            for (number, (key, value)) in sorted.into_iter().enumerate() {
                if number > 0 {
                    out.push(',');
                }
                quoted(key.text().unwrap_or(""), out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn quoted(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Report, Texts};
    use crate::tree;

    fn of(source: &str) -> String {
        let mut texts = Texts::default();
        let text = texts.add("f".into(), source.into());
        let mut report = Report::new(&texts);
        canonical(tree::parse(text, source, &mut report).as_ref())
    }

    #[test]
    fn spelling_and_order_make_no_difference_and_values_do() {
        let one = of("b: [1, 0x10, \"1\"]\na: {y: ~, x: True}\n");
        assert_eq!(one, r#"{"a":{"x":true,"y":null},"b":[1,16,"1"]}"#);
        assert_eq!(one, of("{a: {x: true, y: }, 'b': [1, 16, '1']}"));
        assert_ne!(of("a: 1"), of("a: '1'"));
        assert_ne!(of("a: []"), of("a: {}"));
        assert_eq!(of("a: \"q\\\"\\n\""), "{\"a\":\"q\\\"\\n\"}");
        assert_eq!(of(""), "");
    }
}
