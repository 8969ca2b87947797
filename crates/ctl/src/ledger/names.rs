//! The rows of a ledger: who is billed for what.

use weir_packet::PATH_BITS;
use weir_telemetry::usage::UsageRow;

/// The tenant of a chain for which nothing else is said.
pub const DEFAULT_TENANT: &str = "default";
/// In the place of a function: all those of a chain that have no row of their own.
pub const FURTHER: &str = "(further)";

/// A chain with its tenant and functions, in order.
#[derive(Clone, Debug)]
pub struct BilledChain<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its tenant.
    pub tenant: &'a str,
    /// Its functions.
    pub functions: Vec<&'a str>,
}

/// Names in a ledger: none has a tab or a newline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    composition: String,
    rows: Vec<UsageRow>,
}

impl Names {
    /// Of these rows.
    pub fn new(composition: &str, rows: Vec<UsageRow>) -> Names {
        Names {
            composition: plain(composition),
            rows,
        }
    }

    /// Rows for these chains: one for each, and behind it those of its functions. Of a chain with more
    /// than [`PATH_BITS`] functions the last ones share a row, as the switch counts them together.
    pub fn of_chains<'a>(
        composition: &str,
        chains: impl IntoIterator<Item = BilledChain<'a>>,
    ) -> Names {
        let mut rows = Vec::new();
        for chain in chains {
            let count = chain.functions.len();
            let own = if count > PATH_BITS {
                PATH_BITS - 1
            } else {
                count
            };
            let further = (own < count).then_some(FURTHER);
            let functions = chain.functions.iter().take(own).copied().chain(further);
            for function in std::iter::once("").chain(functions) {
                rows.push(UsageRow {
                    tenant: plain(chain.tenant),
                    chain: plain(chain.name),
                    function: plain(function),
                });
            }
        }
        Names::new(composition, rows)
    }

    /// Name of the composition, or of the instance.
    pub fn composition(&self) -> &str {
        &self.composition
    }

    /// The rows.
    pub fn rows(&self) -> &[UsageRow] {
        &self.rows
    }

    /// The row of a chain, or of a function of it: its own, or that of those without.
    pub fn row(&self, chain: &str, function: &str) -> Option<usize> {
        let find = |function: &str| {
            let mut rows = self.rows.iter();
            rows.position(|row| row.chain == chain && row.function == function)
        };
        find(function).or_else(|| find(FURTHER))
    }

    /// A line for the composition, and one for each row.
    pub(super) fn text(&self) -> String {
        let rows = self.rows.iter();
        let rows = rows.map(|row| format!("\n{}\t{}\t{}", row.tenant, row.chain, row.function));
        std::iter::once(self.composition.clone())
            .chain(rows)
            .collect()
    }

    /// The same, read.
    pub(super) fn of_text(text: &str) -> Option<Names> {
        let mut lines = text.split('\n');
        let composition = lines.next()?.to_owned();
        let row = |line: &str| {
            let mut words = line.split('\t').map(str::to_owned);
            let row = UsageRow {
                tenant: words.next()?,
                chain: words.next()?,
                function: words.next()?,
            };
            words.next().is_none().then_some(row)
        };
        Some(Names {
            composition,
            rows: lines.map(row).collect::<Option<_>>()?,
        })
    }
}

/// A name that breaks no line.
fn plain(name: &str) -> String {
    name.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain<'a>(name: &'a str, functions: &[&'a str]) -> BilledChain<'a> {
        BilledChain {
            name,
            tenant: "acme",
            functions: functions.to_vec(),
        }
    }

    #[test]
    fn names_are_as_they_were_written() {
        let names = Names::of_chains("one", [chain("a", &["x", "y"]), chain("b", &["x"])]);
        assert_eq!(Names::of_text(&names.text()), Some(names.clone()));
        let found = [("a", ""), ("a", "y"), ("b", "x"), ("b", "y"), ("c", "")]
            .map(|(chain, function)| names.row(chain, function));
        assert_eq!(found, [Some(0), Some(2), Some(4), None, None]);
        for odd in ["one\nacme\ta", "one\nacme\ta\tb\tc"] {
            assert_eq!(Names::of_text(odd), None);
        }
        assert_eq!(Names::new("a\nb", vec![]).composition(), "a b");
    }

    #[test]
    fn functions_of_a_long_chain_share_a_row() {
        let functions: Vec<String> = (0..30).map(|n| format!("f{n}")).collect();
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        let names = Names::of_chains("one", [chain("a", &functions)]);
        assert_eq!(names.rows().len(), 1 + PATH_BITS);
        assert_eq!(names.row("a", "f22"), Some(23));
        assert_eq!(names.row("a", "f23"), names.row("a", FURTHER));
        let whole = Names::of_chains("one", [chain("a", &functions[..PATH_BITS])]);
        assert_eq!(whole.row("a", "f23"), Some(24));
    }
}
