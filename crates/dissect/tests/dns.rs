//! DNS in real captures against tshark.

mod common;

use std::collections::BTreeMap;

use common::Run;
use weir_dissect::Limits;

#[test]
fn names_and_codes_are_those_of_tshark() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    let mut compared = 0;
    for name in [
        "traces/a-mixed/trex-core__dns.pcap",
        "traces/a-mixed/zeek__wikipedia.pcap",
        "traces/a-mixed/deeptraffic__Tinba.pcap",
        "traces/a-mixed/ipfixprobe__mixed.pcap",
        "ids/suricata-verify/dns-udp-z-flag-fp/input.pcap",
        "ids/suricata-verify/dns__v2__dns-z-bit/input.pcap",
    ] {
        let file = traces.join(name);
        assert!(file.is_file(), "{} is missing", file.display());
        let fields = [
            "dns.id",
            "dns.flags.opcode",
            "dns.flags.rcode",
            "dns.qry.name",
            "dns.resp.name",
        ];
        let filter = "udp.port == 53 && dns && !mdns && !_ws.malformed && !icmp";
        let Some(rows) = common::tshark(&file, filter, &fields) else {
            return;
        };
        let mut difference: BTreeMap<String, i32> = BTreeMap::new();
        for row in rows {
            let id = u16::from_str_radix(row[0].trim_start_matches("0x"), 16).unwrap();
            let names = row[3].replace('|', " ").replace("<Root>", "");
            *difference
                .entry(format!("{id} {} {names}", row[1]))
                .or_default() += 1;
            compared += 1;
        }
        for flow in common::flows(&file) {
            if flow.ports.1 != 53 {
                continue;
            }
            let run = Run {
                limits: Limits::default(),
                seed: None,
            };
            for message in common::messages(&flow, run) {
                let names: Vec<&str> = message
                    .lines()
                    .filter_map(|line| line.strip_prefix("  dns.query true "))
                    .collect();
                let number = |name: &str| {
                    let at = message.find(&format!("({name}, ")).unwrap() + name.len() + 3;
                    message[at..].split(')').next().unwrap().to_owned()
                };
                let text = format!(
                    "{} {} {}",
                    number("DnsId"),
                    number("DnsOpcode"),
                    names.join(" ")
                );
                *difference.entry(text).or_default() -= 1;
            }
        }
        difference.retain(|_, count| *count != 0);
        assert!(difference.is_empty(), "{name}: {difference:#?}");
    }
    assert!(compared > 1000, "{compared} messages");
}
