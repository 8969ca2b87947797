//! `prices:` of a composition: the price of what a bill has (docs/billing.md).

use serde_json::json;

use crate::diagnostic::Report;
use crate::form::Own;
use crate::keys::Keys;
use crate::read;
use crate::tree::Node;

/// Billionths of one: prices and amounts are whole numbers of them, so that sums are exact.
pub const NANO: u64 = 1_000_000_000;
/// Longest name of a currency, in characters.
const LONGEST_CURRENCY: usize = 16;
/// Digits behind the point that a price may have.
const DIGITS: usize = 9;

/// Prices, in billionths of the currency; 0 costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Name of the currency, as bills show it; may be empty.
    pub currency: String,
    /// Of a million packets that a chain let out, or that a function dropped.
    pub packets: u64,
    /// Of 10⁹ bytes that a chain let out.
    pub bytes: u64,
    /// Of a second of a processor.
    pub compute: u64,
    /// Of a million packets that a function was given.
    pub function_packets: u64,
}

/// Keys of `prices:`.
pub(crate) fn price_keys() -> Keys<Prices> {
    Keys::<Prices>::new("a mapping like `{currency: EUR, packets: 0.20}`", "")
        .key(
            "currency",
            "Name of the currency, as the bill shows it; 16 characters at most.",
            Own(
                currency,
                || json!({"type": "string", "minLength": 1, "maxLength": LONGEST_CURRENCY}),
            ),
            |prices, name| prices.currency = name,
        )
        .key(
            "packets",
            "Price of a million packets that a chain lets out, or that a function drops.",
            price(),
            |prices, nano| prices.packets = nano,
        )
        .key(
            "bytes",
            "Price of a gigabyte (10⁹ bytes) that a chain lets out.",
            price(),
            |prices, nano| prices.bytes = nano,
        )
        .key(
            "compute",
            "Price of a second of a processor.",
            price(),
            |prices, nano| prices.compute = nano,
        )
        .key(
            "function_packets",
            "Price of a million packets that a function is given, for each function on their way.",
            price(),
            |prices, nano| prices.function_packets = nano,
        )
}

fn currency(node: &Node, report: &mut Report<'_>) -> Option<String> {
    let text = read::word(node, "the name of a currency like `EUR`", report)?.trim();
    let fits = (1..=LONGEST_CURRENCY).contains(&text.chars().count());
    if !fits || text.chars().any(char::is_control) {
        let message = format!("a currency has 1 to {LONGEST_CURRENCY} characters");
        report.error_help(node.span, message, "write `currency: EUR`, say");
        return None;
    }
    Some(text.to_owned())
}

fn price() -> Own<u64> {
    Own(read_price, || {
        json!({"anyOf": [
            {"type": "number", "minimum": 0, "maximum": NANO},
            {"type": "string", "pattern": "^[0-9]+(\\.[0-9]{1,9})?$"},
        ]})
    })
}

fn read_price(node: &Node, report: &mut Report<'_>) -> Option<u64> {
    let text = read::word(node, "a price like `0.20`", report)?.trim();
    let nano = nano_of(text);
    if nano.is_none() {
        report.error_help(
            node.span,
            format!("`{text}` is no price"),
            format!(
                "a price is a number from 0 to {NANO} with at most {DIGITS} digits behind the point: \
                 `0.20`, say"
            ),
        );
    }
    nano
}

/// A decimal number in billionths.
fn nano_of(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(rest) || rest.len() > DIGITS {
        return None;
    }
    let whole: u64 = whole.parse().ok().filter(|whole| *whole <= NANO)?;
    let rest: u64 = format!("{rest:0<DIGITS$}").parse().ok()?;
    Some(whole * NANO + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact() {
        let read = [
            ("0", Some(0)),
            ("0.20", Some(200_000_000)),
            ("12", Some(12 * NANO)),
            ("1.000000001", Some(NANO + 1)),
            ("1000000000", Some(NANO * NANO)),
            ("1000000001", None),
            ("1.0000000001", None),
            ("-1", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("", None),
        ];
        for (text, nano) in read {
            assert_eq!(nano_of(text), nano, "{text}");
        }
    }
}
