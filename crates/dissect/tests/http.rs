//! HTTP in real captures against tshark.

mod common;

use std::collections::BTreeMap;

use common::Run;
use weir_dissect::Limits;

/// Lines of messages in which a field stands, by its bytes.
fn of(messages: &[String], field: &str, found: &mut BTreeMap<String, i32>, sign: i32) {
    for message in messages.iter().filter(|m| m.contains(" Head\n")) {
        for line in message.lines() {
            // tshark leaves an empty target out.
            if let Some(value) = line.strip_prefix(&format!("  {field} true "))
                && !value.is_empty()
            {
                *found.entry(format!("{field} {value}")).or_default() += sign;
            }
        }
    }
}

const FIELDS: [(&str, &str); 8] = [
    ("http.request.method", "http.method"),
    ("http.request.uri", "http.uri.raw"),
    ("http.user_agent", "http.user_agent"),
    ("http.host", "http.host.raw"),
    ("http.response.code", "http.stat_code"),
    ("http.response.phrase", "http.stat_msg"),
    ("http.content_type", "http.content_type"),
    ("http.location", "http.location"),
];

#[test]
fn fields_are_those_of_tshark() {
    let Some(traces) = common::traces() else {
        return;
    };
    let mut compared = 0;
    for name in [
        "b-http/zeek__get.pcap",
        "b-http/zeek__get-gzip.pcap",
        "b-http/zeek__methods.pcap",
        "b-http/zeek__pipelined-requests.pcap",
        "b-http/zeek__100-continue.pcap",
        "b-http/zeek__206_example_c.pcap",
        "a-mixed/zeek__workshop_2011_browse.pcap",
        "a-mixed/zeek__wikipedia.pcap",
        "h-attack/malcolm-test-artifacts__apache_exploit_success.pcap",
        "h-attack/malcolm-test-artifacts__log4j-attack.pcap",
    ] {
        let file = traces.join("traces").join(name);
        assert!(file.is_file(), "{} is missing", file.display());
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        let Some(rows) = common::tshark(&file, "http && tcp", &names) else {
            return;
        };
        let mut difference = BTreeMap::new();
        for row in rows {
            for (column, (_, field)) in row.iter().zip(FIELDS) {
                let values = column.split('|').filter(|v| !v.is_empty());
                let code = row[4] == "100";
                for value in values.filter(|_| !code) {
                    *difference.entry(format!("{field} {value}")).or_default() += 1;
                    compared += 1;
                }
            }
        }
        for flow in common::flows(&file) {
            let run = Run {
                limits: Limits::default(),
                seed: None,
            };
            let messages = common::messages(&flow, run);
            for (_, field) in FIELDS {
                of(&messages, field, &mut difference, -1);
            }
        }
        difference.retain(|_, count| *count != 0);
        assert!(
            difference.is_empty(),
            "{name}: tshark has more (+) or less (-): {difference:#?}"
        );
    }
    assert!(compared > 500, "{compared} fields");
}
