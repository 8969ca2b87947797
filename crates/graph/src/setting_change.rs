//! What differs between two versions of a function's settings.

use std::collections::BTreeMap;

use serde_json::Value;

/// A setting that has changed: one of the two is `None` where it is new, or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// Its path, as `--set` takes it: `rules[2]`, `reading.head-limit`.
    pub path: String,
    /// Its value before, as JSON.
    pub before: Option<String>,
    /// Its value from now on.
    pub after: Option<String>,
}

/// The path of a list whose entries are the same in another order.
const ORDER: &str = "in another order";

/// The differences between settings in their canonical spelling (JSON; nothing for none), in the
/// order of their paths.
pub(crate) fn changes(before: &str, after: &str) -> Vec<SettingChange> {
    let mut found = Vec::new();
    compare("", value(before), value(after), &mut found);
    found
}

fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn compare(
    path: &str,
    before: Option<Value>,
    after: Option<Value>,
    found: &mut Vec<SettingChange>,
) {
    match (before, after) {
        (before, after) if before == after => {}
        (None, Some(Value::Object(after))) => {
            compare(
                path,
                Some(Value::Object(Default::default())),
                Some(Value::Object(after)),
                found,
            );
        }
        (Some(Value::Object(before)), None) => {
            compare(
                path,
                Some(Value::Object(before)),
                Some(Value::Object(Default::default())),
                found,
            );
        }
        (Some(Value::Object(mut before)), Some(Value::Object(mut after))) => {
            let mut keys: Vec<String> = before.keys().chain(after.keys()).cloned().collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                compare(&path, before.remove(&key), after.remove(&key), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            lists(path, &before, &after, found);
        }
        (before, after) => found.push(SettingChange {
            path: path.to_owned(),
            before: before.map(|value| value.to_string()),
            after: after.map(|value| value.to_string()),
        }),
    }
}

/// Entries that are in one of the lists alone, by their places there: one that was put in before
/// others is no change of these.
fn lists(path: &str, before: &[Value], after: &[Value], found: &mut Vec<SettingChange>) {
    let texts = |list: &[Value]| list.iter().map(Value::to_string).collect::<Vec<_>>();
    let (before, after) = (texts(before), texts(after));
    let known = found.len();
    for (number, text) in alone(&before, &after) {
        found.push(SettingChange {
            path: format!("{path}[{number}]"),
            before: Some(text),
            after: None,
        });
    }
    for (number, text) in alone(&after, &before) {
        found.push(SettingChange {
            path: format!("{path}[{number}]"),
            before: None,
            after: Some(text),
        });
    }
    if found.len() == known {
        found.push(SettingChange {
            path: path.to_owned(),
            before: Some(format!("[{}]", before.join(","))),
            after: Some(ORDER.to_owned()),
        });
    }
}

/// Entries of `list` beyond those of `other`, with their places.
fn alone(list: &[String], other: &[String]) -> Vec<(usize, String)> {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for text in other {
        *left.entry(text).or_default() += 1;
    }
    let entries = list.iter().enumerate();
    let entries = entries.filter(|(_, text)| match left.get_mut(text.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    entries
        .map(|(number, text)| (number, text.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(before: &str, after: &str) -> Vec<String> {
        let changes = changes(before, after).into_iter();
        let side = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        changes
            .map(|c| format!("{} {} {}", c.path, side(c.before), side(c.after)))
            .collect()
    }

    #[test]
    fn values_are_told_by_path_and_entries_of_lists_by_place() {
        assert!(told(r#"{"a":1}"#, r#"{"a":1}"#).is_empty());
        assert_eq!(told("", r#"{"a":1}"#), ["a - 1"]);
        assert_eq!(told(r#"{"a":{"b":1}}"#, ""), ["a.b 1 -"]);
        assert_eq!(
            told(r#"{"a":{"b":1,"c":"x"}}"#, r#"{"a":{"b":2,"c":"x"}}"#),
            ["a.b 1 2"]
        );
        // One that comes first moves the others, which are the same.
        assert_eq!(
            told(r#"{"r":["x","y"]}"#, r#"{"r":["n","x","y"]}"#),
            [r#"r[0] - "n""#]
        );
        assert_eq!(
            told(r#"{"r":["x","x"]}"#, r#"{"r":["x"]}"#),
            [r#"r[1] "x" -"#]
        );
        assert_eq!(
            told(r#"{"r":["x","y"]}"#, r#"{"r":["y","x"]}"#),
            [r#"r ["x","y"] in another order"#]
        );
    }
}
