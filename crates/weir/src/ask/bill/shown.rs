//! A bill as a table, as JSON and as CSV.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_api::v1;

use super::super::table::{Table, row, text as table_text};
use super::amount::{amount, decimal};
use crate::args::time_of;
use crate::output::thousands;

/// In the place of a function, of the chain's own row.
const NO_FUNCTION: &str = "-";

/// Digits of amounts for people.
const DIGITS: usize = 2;

fn amounts(bill: &v1::GetBillResponse) -> Option<(&v1::Prices, Vec<u128>)> {
    let prices = bill.prices.as_ref()?;
    Some((
        prices,
        bill.rows.iter().map(|it| amount(it, prices)).collect(),
    ))
}

/// What each tenant has to pay.
fn totals<'a>(rows: &'a [v1::BillRow], amounts: &[u128]) -> BTreeMap<&'a str, u128> {
    let mut totals = BTreeMap::new();
    for (row, amount) in rows.iter().zip(amounts) {
        let total: &mut u128 = totals.entry(row.tenant.as_str()).or_default();
        *total = total.saturating_add(*amount);
    }
    totals
}

/// For people.
pub(super) fn text(bill: &v1::GetBillResponse) -> String {
    let priced = amounts(bill);
    let by_hour = bill.rows.iter().any(|row| row.hour > 0);
    let mut head = row(["TENANT", "CHAIN", "FUNCTION"]);
    if by_hour {
        head.push("HOUR".to_owned());
    }
    head.extend(row(["PACKETS", "BYTES", "DROPPED", "COMPUTE"]));
    if priced.is_some() {
        head.push("AMOUNT".to_owned());
    }
    let mut table: Table = vec![head];
    for (number, it) in bill.rows.iter().enumerate() {
        let function = match it.function.as_str() {
            "" => NO_FUNCTION,
            name => name,
        };
        let mut cells = row([&it.tenant, &it.chain, function]);
        if by_hour {
            cells.push(time_of(it.hour));
        }
        cells.extend([it.packets, it.bytes, it.dropped].map(thousands));
        cells.push(format!("{:.3} s", it.compute_ns as f64 / 1e9));
        let amount = priced.as_ref().and_then(|(_, all)| all.get(number));
        cells.extend(amount.map(|nano| decimal(*nano, DIGITS)));
        table.push(cells);
    }
    let mut text = table_text(&table);
    if let Some((prices, amounts)) = &priced {
        text.push('\n');
        for (tenant, nano) in totals(&bill.rows, amounts) {
            let line = format!("{tenant}: {} {}", decimal(nano, DIGITS), prices.currency);
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text.trim_end().to_owned()
}

/// For programs. Amounts are text: they are exact.
pub(super) fn json(bill: &v1::GetBillResponse) -> Value {
    let priced = amounts(bill);
    let rows = bill.rows.iter().enumerate().map(|(number, it)| {
        let amount = priced.as_ref().and_then(|(_, all)| all.get(number));
        json!({
            "tenant": it.tenant,
            "chain": it.chain,
            "function": (!it.function.is_empty()).then_some(&it.function),
            "hour": (it.hour > 0).then(|| time_of(it.hour)),
            "packets": it.packets,
            "bytes": it.bytes,
            "dropped": it.dropped,
            "compute_ns": it.compute_ns,
            "amount": amount.map(|nano| decimal(*nano, DIGITS)),
        })
    });
    let totals = priced.as_ref().map(|(_, amounts)| {
        let totals = totals(&bill.rows, amounts).into_iter();
        totals
            .map(|(tenant, nano)| (tenant.to_owned(), json!(decimal(nano, DIGITS))))
            .collect::<serde_json::Map<_, _>>()
    });
    json!({
        "composition": bill.composition,
        "currency": priced.as_ref().map(|(prices, _)| &prices.currency),
        "rows": rows.collect::<Vec<_>>(),
        "totals": totals,
        "cut": bill.cut,
    })
}

/// For spreadsheets (RFC 4180): a row per line, the head first.
pub(super) fn csv(bill: &v1::GetBillResponse) -> String {
    let priced = amounts(bill);
    let mut lines = vec![
        "tenant,chain,function,hour,packets,bytes,dropped,compute_ns,amount,currency".to_owned(),
    ];
    for (number, it) in bill.rows.iter().enumerate() {
        let hour = match it.hour {
            0 => String::new(),
            hour => time_of(hour),
        };
        let amount = priced.as_ref().and_then(|(_, all)| all.get(number));
        let currency = priced.as_ref().map_or("", |(prices, _)| &prices.currency);
        lines.push(
            [
                quoted(&it.tenant),
                quoted(&it.chain),
                quoted(&it.function),
                hour,
                it.packets.to_string(),
                it.bytes.to_string(),
                it.dropped.to_string(),
                it.compute_ns.to_string(),
                amount.map_or_else(String::new, |nano| decimal(*nano, DIGITS)),
                quoted(currency),
            ]
            .join(","),
        );
    }
    lines.join("\n")
}

/// A field, in quotes where it needs some.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill() -> v1::GetBillResponse {
        let of = |function: &str, packets| v1::BillRow {
            tenant: "acme".to_owned(),
            chain: "edge".to_owned(),
            function: function.to_owned(),
            packets,
            bytes: 60 * packets,
            ..v1::BillRow::default()
        };
        v1::GetBillResponse {
            rows: vec![of("", 1_000_000), of("nat", 1_000_000)],
            prices: Some(v1::Prices {
                currency: "EUR, net".to_owned(),
                packets: 250_000_000,
                function_packets: 1_000_000,
                ..v1::Prices::default()
            }),
            composition: "one".to_owned(),
            cut: false,
        }
    }

    #[test]
    fn a_bill_is_shown_in_three_ways() {
        let table = text(&bill());
        assert!(
            table.contains("acme    edge   -         1,000,000"),
            "{table}"
        );
        assert!(table.ends_with("acme: 0.251 EUR, net"), "{table}");
        let json = json(&bill());
        assert_eq!(json["totals"]["acme"], "0.251");
        assert_eq!(json["rows"][0]["function"], Value::Null);
        assert_eq!(json["rows"][1]["amount"], "0.001");
        let csv = csv(&bill());
        let last = csv.lines().last();
        let wanted = "acme,edge,nat,,1000000,60000000,0,0,0.001,\"EUR, net\"";
        assert_eq!(last, Some(wanted));
    }

    #[test]
    fn without_prices_nothing_is_said_of_money() {
        let free = v1::GetBillResponse {
            prices: None,
            ..bill()
        };
        assert!(!text(&free).contains("AMOUNT"));
        assert_eq!(json(&free)["totals"], Value::Null);
        assert!(csv(&free).ends_with(",0,0,,"));
    }
}
