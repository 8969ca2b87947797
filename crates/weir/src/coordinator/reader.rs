//! Compositions as this program reads them.

use std::collections::BTreeMap;
use std::path::Path;

use weir_coordinator::service::Reader;
use weir_coordinator::state::Facts;
use weir_graph::Composition;
use weir_nf::host::Kind;

use crate::run::up;

/// With the functions that this program has.
pub(super) struct OfThisProgram(pub(super) Vec<Kind>);

impl Reader for OfThisProgram {
    fn read(&self, folder: &Path, file: &Path) -> Result<Facts, String> {
        // No seed matters: nothing of it runs here.
        let composed = up::load(&folder.join(file), 0, &self.0).map_err(|wrong| wrong.message)?;
        let composition = composed.composition;
        if !composition.has_addresses() {
            return Err(
                "error: the hosts have no addresses\n  = help: give each host the address at which the \
                 others reach it: `address: 10.0.9.1:4790`"
                    .to_owned(),
            );
        }
        Ok(Facts {
            name: composition.name.clone(),
            hosts: composition
                .hosts
                .iter()
                .map(|host| host.name.clone())
                .collect(),
            keys: keys(&composition),
        })
    }
}

/// The keys of a composition, each with its value as text: those that are not written as well, so that
/// one that is written as it is without does not differ.
fn keys(composition: &Composition) -> BTreeMap<String, String> {
    let written = serde_json::to_value(composition).unwrap_or_default();
    let written = written.as_object().cloned().unwrap_or_default();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in written {
        // As the file has them.
        let key = match key.as_str() {
            "in" | "out" => format!("ports.{key}"),
            "heartbeat_ms" => "heartbeat".to_owned(),
            _ => key,
        };
        keys.insert(key, value.to_string());
    }
    let set = composition
        .set
        .iter()
        .map(|set| format!("{}={}", set.path, set.value));
    keys.insert("set".to_owned(), set.collect::<Vec<_>>().join(" "));
    keys
}
