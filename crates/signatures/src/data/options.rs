//! The options of rules that name files of values.

use std::sync::Arc;

use super::set::{DataKind, DataSet};
use crate::compare::Compare;
use crate::error::{Fault, SkipReason, Span};
use crate::raw_option::RawOption;

/// What a rule asks of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataUse {
    /// It is in the file (`isset`, `filemd5:`).
    IsSet,
    /// It is not in the file (`isnotset`, `filemd5:!`).
    IsNotSet,
    /// It is in the file, and its number meets the condition (`datarep`).
    Number(Compare),
}

/// A condition on a value: that a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataTest {
    /// Name of the set, by which other rules may name it; `None` of a file of hashes.
    pub name: Option<String>,
    /// The file; `None` where another rule gives it.
    pub file: Option<String>,
    /// The kind of its values; `None` where another rule gives it.
    pub kind: Option<DataKind>,
    /// Addresses are looked up.
    pub of_addresses: bool,
    /// What is asked.
    pub wants: DataUse,
    values: Option<Arc<DataSet>>,
}

impl DataTest {
    /// True if the value meets the condition.
    #[inline]
    pub(crate) fn holds(&self, value: &[u8]) -> bool {
        let Some(values) = &self.values else {
            debug_assert!(false, "rules were compiled before their files were read");
            return false;
        };
        match (self.wants, values.get(value)) {
            (DataUse::IsSet, found) => found.is_some(),
            (DataUse::IsNotSet, found) => found.is_none(),
            (DataUse::Number(compare), Some(number)) => compare.holds(u32::from(number)),
            (DataUse::Number(_), None) => false,
        }
    }

    /// True if values of this kind can be looked up: they are what the rule says, or, where it says nothing, what it
    /// looks at.
    pub fn takes(&self, kind: DataKind) -> bool {
        self.kind.is_none_or(|own| own == kind) && kind.is_address() == self.of_addresses
    }

    /// Takes the values of its file.
    pub fn load(&mut self, values: Arc<DataSet>) {
        self.values = Some(values);
    }

    /// The number of its values, where they were read.
    pub(crate) fn fingerprint(&self) -> Option<u64> {
        self.values.as_ref().map(|values| values.fingerprint())
    }
}

/// Reads `dataset:COMMAND,NAME[,OPTION ...]` and `datarep:NAME,OPERATOR,NUMBER[,OPTION ...]`, of bytes or of
/// addresses.
pub(crate) fn parse(text: &str, option: &RawOption, of_addresses: bool) -> Result<DataTest, Fault> {
    let keyword = option.keyword.as_str();
    let fault = |why: &str| Fault::new(option.value, format!("the value of `{keyword}`: {why}"));
    let mut parts = option.value.of(text).split(',').map(str::trim);
    let mut next = |what: &str| {
        parts
            .next()
            .filter(|part| !part.is_empty())
            .ok_or_else(|| fault(what))
    };
    let (name, wants) = match keyword {
        "datarep" => {
            let name = next("a name is missing")?;
            let (operator, number) = (
                next("an operator is missing")?,
                next("a number is missing")?,
            );
            let operator = if operator == "==" { "=" } else { operator };
            let compare = Compare::of_words(operator, number, u32::from(u16::MAX));
            (name, DataUse::Number(compare.map_err(|why| fault(&why))?))
        }
        _ => {
            let command = next("a command is missing")?;
            let wants = match command {
                "isset" => DataUse::IsSet,
                "isnotset" => DataUse::IsNotSet,
                other => {
                    return Err(fault(&format!("unknown command `{other}`"))
                        .help("commands are isset and isnotset"));
                }
            };
            (next("a name is missing")?, wants)
        }
    };
    let name = name.to_owned();
    let (mut kind, mut file) = (None, None);
    for part in parts {
        let (word, value) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        let value = value.trim();
        match word {
            "type" => {
                let named = DataKind::named(value);
                kind = Some(named.ok_or_else(|| {
                    fault(&format!("`{value}` is no type of values"))
                        .help("types are string, md5, sha1, sha256, ipv4, ipv6 and ip")
                })?);
            }
            "load" if !value.is_empty() => file = Some(value.to_owned()),
            // Bounds of Suricata's memory.
            "memcap" | "hashsize" => {}
            other => {
                let skip = SkipReason::Keywords(vec![format!("{keyword}:{other}")]);
                return Err(fault(&format!("`{other}` is not supported")).skip(skip));
            }
        }
    }
    if file.is_some() && kind.is_none() {
        return Err(fault("a type is missing").help("write `type string` beside `load`"));
    }
    Ok(DataTest {
        name: Some(name),
        file,
        kind,
        of_addresses,
        wants,
        values: None,
    })
}

/// Reads `filemd5:[!]FILE` and its like, whose files have hashes of this kind.
pub(crate) fn hash_list(text: &str, option: &RawOption, kind: DataKind) -> Result<DataTest, Fault> {
    let written = option.value.of(text);
    let (wants, file) = match written.strip_prefix('!') {
        Some(file) => (DataUse::IsNotSet, file.trim()),
        None => (DataUse::IsSet, written),
    };
    if file.is_empty() {
        let at = Span::new(option.name.start, option.value.end);
        let message = format!("`{}` needs the name of a file", option.keyword);
        return Err(Fault::new(at, message));
    }
    Ok(DataTest {
        name: None,
        file: Some(file.to_owned()),
        kind: Some(kind),
        of_addresses: false,
        wants,
        values: None,
    })
}
