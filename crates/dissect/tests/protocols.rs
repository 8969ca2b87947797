//! TLS, SSH, SMTP and FTP in real captures against tshark.

mod common;

use std::collections::BTreeMap;

use common::Run;
use weir_dissect::Limits;

/// tshark's field, ours, and how to write tshark's as ours.
type Column<'a> = (&'a str, &'a str, fn(&str) -> String);

/// Differences between a column of tshark's and a field of ours, by value, over one capture.
struct Comparison<'a> {
    file: &'a str,
    filter: &'a str,
    fields: &'a [Column<'a>],
    least: usize,
}

fn same(text: &str) -> String {
    text.to_owned()
}

fn check(comparison: &Comparison<'_>) {
    let Some(traces) = common::traces::traces() else {
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

/// Serial number, SHA-1 and validity of each server's own certificate; the names of one of them, as
/// `openssl x509 -subject -issuer` writes them.
#[test]
fn certificates_are_those_of_tshark_and_openssl() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    for (name, least) in [
        ("a-mixed/ndpi__reddit.pcap", 20),
        ("b-http/ndpi__http_ipv6.pcap", 5),
    ] {
        let file = traces.join("traces").join(name);
        let Some(rows) =
            common::tshark(&file, "tls.handshake.certificate", &["x509af.serialNumber"])
        else {
            return;
        };
        let mut difference = BTreeMap::<String, i32>::new();
        for row in &rows {
            let first = row[0].split('|').next().unwrap_or("").to_owned();
            *difference.entry(first).or_default() += 1;
        }
        assert!(rows.len() >= least, "{} certificates", rows.len());
        let mut names = Vec::new();
        for flow in common::flows(&file) {
            let run = Run {
                limits: Limits::default(),
                seed: None,
            };
            for message in common::messages(&flow, run) {
                let serial = message
                    .lines()
                    .find_map(|l| l.strip_prefix("  tls.cert_serial true "));
                if let Some(serial) = serial {
                    let serial = serial.replace(':', "").to_lowercase();
                    *difference.entry(serial).or_default() -= 1;
                    names.extend(
                        message
                            .lines()
                            .filter(|l| l.contains(".cert_"))
                            .map(str::to_owned),
                    );
                    names.extend(message.lines().last().map(str::to_owned));
                }
            }
        }
        difference.retain(|_, count| *count != 0);
        assert!(difference.is_empty(), "{name}: {difference:#?}");
        if name.contains("http_ipv6") {
            for expected in KNOWN {
                assert!(
                    names.iter().any(|line| line.contains(expected)),
                    "{expected}: {names:#?}"
                );
            }
        }
    }
}

const KNOWN: [&str; 4] = [
    "fingerprint true fb:a6:ff:a7:58:f3:9d:54:24:45:e5:a0:c4:04:18:d5:58:91:e0:34",
    "subject true OU=Domain Control Validated, OU=PositiveSSL, CN=shop.ntop.org",
    "issuer true C=GB, ST=Greater Manchester, L=Salford, O=COMODO CA Limited, CN=COMODO RSA Domain",
    "(TlsNotBefore, 1447545600), (TlsNotAfter, 1542239999), (TlsChainLength, 3)",
];
