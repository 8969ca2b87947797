//! Costs of functions, measured in an earlier run: the file of `--costs`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::exit::Failure;

/// Most bytes of a summary.
const MOST: u64 = 64 << 20;

/// Cycles per packet of each function of a summary, by its name there.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, u32>, Failure> {
    let name = path.display();
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MOST).read_to_string(&mut text))
        .map_err(|error| Failure::outside(format!("can't read {name}: {error}")))?;
    of_text(&text).map_err(|what| {
        Failure::chain(format!(
            "error: {name}: {what}; --costs takes what `weir run --output json` prints"
        ))
    })
}

fn of_text(text: &str) -> Result<BTreeMap<String, u32>, String> {
    let summary: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let functions = summary["nfs"].as_object().ok_or("it has no `nfs`")?;
    let mut costs = BTreeMap::new();
    for (name, counts) in functions {
        let cycles = counts["cycles_per_packet"].as_f64();
        let cycles = cycles.ok_or_else(|| format!("`{name}` has no `cycles_per_packet`"))?;
        // A function that no packet reached was not measured.
        if counts["packets"].as_u64().is_some_and(|n| n > 0) {
            // A conversion from a float stays within the type's bounds.
            costs.insert(name.clone(), cycles.round().max(1.0) as u32);
        }
    }
    Ok(costs)
}

/// Those of one chain: with several in a file names begin with the chain's.
pub(super) fn of_chain(
    all: &BTreeMap<String, u32>,
    chain: &str,
    several: bool,
) -> BTreeMap<String, u32> {
    if !several {
        return all.clone();
    }
    let own = |name: &String| Some(name.strip_prefix(chain)?.strip_prefix('.')?.to_owned());
    let of_chain = all.iter().filter_map(|(name, n)| Some((own(name)?, *n)));
    of_chain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_and_given_to_their_chain() {
        let text = r#"{"nfs": {
            "a.monitor": {"packets": 10, "cycles_per_packet": 41.6},
            "ab.monitor": {"packets": 10, "cycles_per_packet": 0.1},
            "a.nop": {"packets": 0, "cycles_per_packet": 0.0}}}"#;
        let all = of_text(text).unwrap();
        let named = |n: &str, c| BTreeMap::from([(n.to_owned(), c)]);
        assert_eq!(of_chain(&all, "a", true), named("monitor", 42));
        assert_eq!(of_chain(&all, "ab", true), named("monitor", 1));
        assert_eq!(of_chain(&all, "a", false), all);
    }

    #[test]
    fn what_is_no_summary_is_said() {
        for (text, part) in [
            ("", "EOF"),
            ("[]", "`nfs`"),
            (r#"{"nfs": {"a": {}}}"#, "`a` has no `cycles_per_packet`"),
        ] {
            let error = of_text(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
