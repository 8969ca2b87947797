//! TLS, SSH, SMTP and FTP in real captures against tshark.

mod common;

use std::collections::BTreeMap;

use common::Run;
use weir_dissect::Limits;

/// Differences between a column of tshark's and a field of ours, by value, over one capture.
struct Comparison<'a> {
    file: &'a str,
    filter: &'a str,
    /// tshark's field, ours, and how to write tshark's as ours.
    fields: &'a [(&'a str, &'a str, fn(&str) -> String)],
    least: usize,
}

fn same(text: &str) -> String {
    text.to_owned()
}

fn check(comparison: &Comparison<'_>) {
    let Some(traces) = common::traces() else {
        return;
    };
    let file = traces.join(comparison.file);
    assert!(file.is_file(), "{} is missing", file.display());
    let names: Vec<&str> = comparison.fields.iter().map(|(name, ..)| *name).collect();
    let Some(rows) = common::tshark(&file, comparison.filter, &names) else {
        return;
    };
    let (mut difference, mut compared) = (BTreeMap::<String, i32>::new(), 0);
    for row in rows {
        for (column, (_, field, write)) in row.iter().zip(comparison.fields) {
            for value in column.split('|').filter(|value| !value.is_empty()) {
                *difference
                    .entry(format!("{field} {}", write(value)))
                    .or_default() += 1;
                compared += 1;
            }
        }
    }
    for flow in common::flows(&file) {
        let run = Run {
            limits: Limits::default(),
            seed: None,
        };
        for message in common::messages(&flow, run) {
            // With its certificate a server's hello is handed out once more.
            let again = message.contains("\n  tls.certs ");
            for (_, field, _) in comparison.fields.iter().filter(|_| !again) {
                let start = format!("  {field} true ");
                for value in message.lines().filter_map(|line| line.strip_prefix(&start)) {
                    *difference.entry(format!("{field} {value}")).or_default() -= 1;
                }
            }
        }
    }
    difference.retain(|_, count| *count != 0);
    assert!(
        difference.is_empty(),
        "{}: {difference:#?}",
        comparison.file
    );
    assert!(compared >= comparison.least, "{compared} values");
}

#[test]
fn hellos_are_those_of_tshark() {
    for (file, least) in [
        ("traces/a-mixed/ndpi__reddit.pcap", 200),
        ("traces/a-mixed/arkime__arkime_synthetic.pcap", 5),
        ("traces/b-http/ndpi__http_ipv6.pcap", 10),
    ] {
        check(&Comparison {
            file,
            filter: "tcp && tls.handshake && !vlan && !gre",
            fields: &[
                ("tls.handshake.extensions_server_name", "tls.sni", same),
                ("tls.handshake.ja3", "ja3.hash", same),
                ("tls.handshake.ja3_full", "ja3.string", same),
                ("tls.handshake.ja3s", "ja3s.hash", same),
            ],
            least,
        });
    }
}

#[test]
fn banners_of_ssh_are_those_of_tshark() {
    check(&Comparison {
        file: "ids/suricata-verify/ssh-newkeys/input.pcap",
        filter: "ssh.protocol",
        fields: &[("ssh.protocol", "ssh.software", |banner| {
            let software = banner.splitn(3, '-').nth(2).unwrap_or("");
            software.split(' ').next().unwrap_or("").to_owned()
        })],
        least: 2,
    });
}

#[test]
fn commands_of_smtp_are_those_of_tshark() {
    check(&Comparison {
        file: "ids/suricata-verify/smtp-eve/input.pcap",
        filter: "smtp.req.command",
        fields: &[("smtp.req.command", "smtp.command", |word| {
            word.to_uppercase()
        })],
        least: 4,
    });
}

#[test]
fn commands_of_ftp_are_those_of_tshark() {
    check(&Comparison {
        file: "traces/a-mixed/arkime__arkime_synthetic.pcap",
        filter: "ftp.request && !vlan && !gre",
        fields: &[
            ("ftp.request.command", "ftp.command", same),
            ("ftp.request.arg", "ftp.command_data", same),
        ],
        least: 0,
    });
}
