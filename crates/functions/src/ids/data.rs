//! Files of values that rules name: read once each, and given to the rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_signatures::{DataKind, DataSet, Reputations, Rule};

use super::collect::Collected;

/// A file, and the kind of its values.
type Place = (String, DataKind);
/// Reads a file by its name.
type Read<'r> = &'r mut dyn FnMut(&str) -> Result<String, String>;

/// The rules that can't be used, by generator and number, and why.
pub(super) type Unusable = Vec<((u32, u32), String)>;

/// The file of each named set, and the kind of its values; `Err` of one that has two.
type Named = BTreeMap<String, Result<(String, DataKind), String>>;

/// Gives the rules the values of the files that they name. Names are those of files beside the file of the rule.
pub(super) fn load(
    rules: &mut Collected,
    reputations: &Arc<Reputations>,
    read: Read<'_>,
) -> Unusable {
    let named = named(rules);
    let mut known: BTreeMap<Place, Result<Arc<DataSet>, String>> = BTreeMap::new();
    let mut unusable = Vec::new();
    for (rule, text) in rules.with_texts() {
        let loaded = rule
            .load_reputations(reputations)
            .and_then(|()| load_rule(rule, text, &named, &mut known, read));
        if let Err(why) = loaded {
            unusable.push(((rule.gid, rule.sid), why));
        }
    }
    unusable
}

/// A set has one file, which one of the rules that use it gives.
fn named(rules: &mut Collected) -> Named {
    let mut named = Named::new();
    for (rule, text) in rules.with_texts() {
        for test in rule.data_tests() {
            let (Some(name), Some(file), Some(kind)) = (&test.name, &test.file, test.kind) else {
                continue;
            };
            let given = (beside(text, file), kind);
            let known = named
                .entry(name.clone())
                .or_insert_with(|| Ok(given.clone()));
            if known.as_ref().is_ok_and(|known| *known != given) {
                *known = Err(format!("rules give two files or types to the set `{name}`"));
            }
        }
    }
    named
}

fn load_rule(
    rule: &mut Rule,
    text: &str,
    named: &Named,
    known: &mut BTreeMap<Place, Result<Arc<DataSet>, String>>,
    read: Read<'_>,
) -> Result<(), String> {
    for test in rule.data_tests() {
        let own = test
            .file
            .as_ref()
            .map(|file| beside(text, file))
            .zip(test.kind);
        let (file, kind) = match &test.name {
            None => own.ok_or("a file of hashes is named")?,
            Some(name) => named.get(name).cloned().unwrap_or_else(|| {
                Err(format!(
                    "no rule says where the values of `{name}` are: write `load FILE` beside it"
                ))
            })?,
        };
        if !test.takes(kind) {
            let name = test.name.as_deref().unwrap_or(&file);
            return Err(format!(
                "the set `{name}` has values of another type than is looked up"
            ));
        }
        let place = (file, kind);
        let values = known
            .entry(place.clone())
            .or_insert_with(|| read_set(&place, read));
        test.load(values.clone()?);
    }
    Ok(())
}

fn read_set((file, kind): &Place, read: Read<'_>) -> Result<Arc<DataSet>, String> {
    let text = read(file)?;
    let set = DataSet::parse(*kind, &text);
    set.map(Arc::new)
        .map_err(|(line, why)| format!("{file}:{line}: {why}"))
}

/// The name of a file that a text names: one beside it, unless it is a whole path.
fn beside(text: &str, file: &str) -> String {
    match text.rsplit_once('/') {
        Some((folder, _)) if !file.starts_with('/') => format!("{folder}/{file}"),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_beside_the_rules() {
        assert_eq!(beside("rules", "a.lst"), "a.lst");
        assert_eq!(beside("sets/x.rules", "a.lst"), "sets/a.lst");
        assert_eq!(beside("sets/x.rules", "../a.lst"), "sets/../a.lst");
        assert_eq!(beside("sets/x.rules", "/a.lst"), "/a.lst");
    }
}
