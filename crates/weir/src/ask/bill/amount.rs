//! What rows of a bill cost: whole billionths of the currency, so that sums are exact.

use weir_api::v1;
use weir_graph::NANO;

/// Of how many packets prices are.
const PACKETS: u128 = 1_000_000;

/// What a row costs, in billionths of the currency, rounded once.
pub(super) fn amount(row: &v1::BillRow, prices: &v1::Prices) -> u128 {
    let nano = u128::from(NANO);
    let is_chain = row.function.is_empty();
    // All in billionths of a billionth: packets are priced by the million, the others by the billion.
    let packets = match is_chain {
        true => (
            u128::from(row.packets) + u128::from(row.dropped),
            prices.packets,
        ),
        false => (u128::from(row.packets), prices.function_packets),
    };
    let packets = product(packets).saturating_mul(nano / PACKETS);
    let bytes = match is_chain {
        true => product((u128::from(row.bytes), prices.bytes)),
        false => 0,
    };
    let compute = product((u128::from(row.compute_ns), prices.compute));
    let all = packets.saturating_add(bytes).saturating_add(compute);
    all.saturating_add(nano / 2) / nano
}

fn product((number, price): (u128, u64)) -> u128 {
    number.saturating_mul(u128::from(price))
}

/// An amount as a decimal number with so many digits behind the point at least, and all that are there.
pub(super) fn decimal(nano: u128, least: usize) -> String {
    let (whole, rest) = (nano / u128::from(NANO), nano % u128::from(NANO));
    let digits = format!("{rest:09}");
    let digits = digits.trim_end_matches('0');
    format!("{whole}.{digits:0<least$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICES: v1::Prices = v1::Prices {
        currency: String::new(),
        packets: 200_000_000,
        bytes: 10_000_000,
        compute: 50_000_000,
        function_packets: 1,
    };

    #[test]
    fn a_chain_pays_packets_bytes_and_compute() {
        let chain = v1::BillRow {
            packets: 2_999_999,
            dropped: 1,
            bytes: 1_500_000_000,
            compute_ns: 3_000_000_000,
            ..v1::BillRow::default()
        };
        // 3 million at 0.20, 1.5 GB at 0.01, 3 s at 0.05.
        assert_eq!(decimal(amount(&chain, &PRICES), 2), "0.765");
        let function = v1::BillRow {
            function: "nat".to_owned(),
            ..chain
        };
        // 2.999999 billionths and 3 s.
        assert_eq!(decimal(amount(&function, &PRICES), 2), "0.150000003");
    }

    #[test]
    fn amounts_are_decimal_numbers() {
        for (nano, text) in [
            (0, "0.00"),
            (5, "0.000000005"),
            (1_230_000_000, "1.23"),
            (12_000_000_000, "12.00"),
        ] {
            assert_eq!(decimal(nano, 2), text);
        }
        let huge = v1::BillRow {
            packets: u64::MAX,
            dropped: u64::MAX,
            ..v1::BillRow::default()
        };
        let dear = v1::Prices {
            packets: NANO * NANO,
            ..PRICES
        };
        assert!(amount(&huge, &dear) > 0);
    }
}
