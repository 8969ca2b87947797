//! The chains that are measured, as a chain file would write them.

use weir_graph::{ChainFile, Input, load, render};
use weir_nf::Sources;
use weir_nf::host::Stage;

/// Published with every figure of a firewall.
const RULES: &str = include_str!("../rules/scattered-100.txt");

/// Texts that settings name.
pub(crate) struct Texts<'a>(pub(crate) &'a [(&'a str, &'a str)]);

impl Sources for Texts<'_> {
    fn text(&mut self, name: &str) -> Result<String, String> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| format!("there is no text `{name}`"))
    }
}

/// The firewall's rules.
pub(crate) fn rules() -> impl Iterator<Item = &'static str> {
    RULES.lines().filter(|line| !line.starts_with('#'))
}

/// The entry of a chain file for `nf`: most by their names alone, with default settings.
fn entry(nf: &str) -> String {
    match nf {
        "firewall" => {
            let rules: String = rules().map(|rule| format!("        - {rule}\n")).collect();
            format!("  - firewall:\n      default: drop\n      rules:\n{rules}")
        }
        "nat44" => "  - nat44: {pool: 192.0.2.0/25}\n".to_owned(),
        "nat44-apdm" => {
            "  - nat44: {pool: 192.0.2.0/25, mapping: address-and-port-dependent}\n".to_owned()
        }
        // Beside `flows: {track: always}`: flows are found, and nothing is done with them.
        "engine" => "  - nop\n".to_owned(),
        "load-balancer" => {
            let backends: String = (11..15)
                .map(|n| format!("            - {{address: 198.51.100.{n}}}\n"))
                .collect();
            format!(
                "  - load-balancer:\n      services:\n        - vip: 198.18.0.80\n          \
                 port: 80\n          backends:\n{backends}"
            )
        }
        "ids" => "  - ids: {rule-files: [bench.rules]}\n".to_owned(),
        other => format!("  - {other}\n"),
    }
}

/// A chain of these functions in a row, built as `weir run` builds it.
pub(crate) fn stage(nfs: &[&str], texts: &mut Texts<'_>) -> Result<Stage, String> {
    let entries: String = nfs.iter().map(|nf| entry(nf)).collect();
    let flows = if nfs == ["engine"] {
        "flows: {track: always}\n"
    } else {
        ""
    };
    let text = format!("chain: bench\n{flows}nfs:\n{entries}");
    let file = file(&text, texts)?;
    let chain = file.chains.into_iter().next();
    Ok(chain.ok_or("no chain")?.stage)
}

/// The chain file of a text, loaded as `weir run` loads it.
pub(crate) fn file(text: &str, texts: &mut dyn Sources) -> Result<ChainFile, String> {
    let input = Input {
        name: "bench.yaml",
        text,
        kinds: weir_functions::kinds(),
        overrides: &[],
        seed: 1,
    };
    load(&input, texts).map_err(|diagnostics| render(&diagnostics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_rules_are_a_hundred() {
        assert_eq!(rules().count(), 100);
    }

    #[test]
    fn chains_can_be_built() {
        let web = ["firewall", "http", "load-balancer"];
        assert_eq!(stage(&web, &mut Texts(&[])).unwrap().nodes.len(), 3);
        let all = ["firewall", "monitor", "nat44", "http-classifier"];
        let stage = stage(&all, &mut Texts(&[])).unwrap();
        assert_eq!(stage.nodes.len(), 4);
        assert!(super::stage(&["no-such"], &mut Texts(&[])).is_err());
    }
}
