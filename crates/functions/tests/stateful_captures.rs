//! The functions that change or drop packets, over real captures: every packet
//! is accounted for, every port comes back, and no checksum that was right is
//! wrong afterwards.

use std::fs::File;
use std::path::{Path, PathBuf};

use weir_functions::words::Words;
use weir_functions::{firewall, load_balancer, nat44, policer, udp_whitelist};
use weir_io::capture::CaptureReader;
use weir_nf::packet::checksum::{self, Verdict};
use weir_nf::packet::{LinkType, ParseOptions, Side, Time, parse};
use weir_runtime::harness::Harness;

fn traces() -> Option<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let root = if beside.is_dir() {
        beside
    } else {
        PathBuf::from(std::env::var_os("WEIR_TRACES")?)
    };
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|e| e == "pcap" || e == "pcapng")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    (!found.is_empty()).then_some(found)
}

fn is_wrong(frame: &[u8], link: LinkType) -> bool {
    match parse(frame, link, &ParseOptions::default()) {
        Ok(headers) => {
            checksum::check_ipv4(frame, &headers) == Verdict::Bad
                || checksum::check_transport(frame, &headers) == Verdict::Bad
        }
        Err(_) => true,
    }
}

/// Sends a capture through a chain, packet by packet, every third one from
/// outside where `sides` says so. Gives packets in, packets out.
fn run(path: &Path, harness: &mut Harness, sides: bool) -> (u64, u64) {
    let mut counts = (0, 0);
    let Ok(mut reader) = File::open(path)
        .map_err(drop)
        .and_then(|file| CaptureReader::open(file).map_err(drop))
    else {
        return counts;
    };
    // A capture that ends early is run up to there.
    while let Ok(Some(record)) = reader.next() {
        let link = LinkType::from_dlt(record.dlt);
        let wrong = is_wrong(record.data, link);
        harness.set_time(Time(record.time_ns));
        let side = if sides && counts.0 % 3 == 0 {
            Side::Outside
        } else {
            Side::Inside
        };
        counts.0 += 1;
        harness.queue_link(side, link, record.data);
        for out in harness.flush() {
            counts.1 += 1;
            assert!(
                wrong || !is_wrong(&out.bytes, link),
                "{}: packet {} was broken",
                path.display(),
                counts.0
            );
        }
    }
    counts
}

fn over_all(name: &str, sides: bool, chain: impl Fn() -> Harness) {
    let Some(captures) = traces() else {
        // Straight to standard error: the harness keeps what a passed test prints.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!(
                "SKIPPED: {name}: no captures (put them beside the project or set WEIR_TRACES)\n"
            )
            .as_bytes(),
        );
        return;
    };
    let mut total = (0, 0);
    for path in &captures {
        let mut harness = chain();
        let counts = run(path, &mut harness, sides);
        // Panics where packets or frames are not accounted for.
        harness.finish();
        assert_eq!(harness.runtime().leases().leased(), 0, "{}", path.display());
        total = (total.0 + counts.0, total.1 + counts.1);
    }
    eprintln!(
        "{name}: {} captures, {} packets in, {} out",
        captures.len(),
        total.0,
        total.1
    );
    assert!(total.0 > 10_000 && total.1 > total.0 / 10, "{total:?}");
}

fn nat_settings() -> nat44::Settings {
    nat44::Settings {
        pool: Words::from("198.18.0.0/30"),
        // Nearly everyone is inside, so that nearly everything is translated.
        inside: Words::from("0.0.0.0/1,128.0.0.0/2,192.0.0.0/6,196.0.0.0/7"),
        ..nat44::Settings::default()
    }
}

fn rules(texts: &[&str]) -> firewall::Settings {
    firewall::Settings {
        rules: texts
            .iter()
            .map(|text| firewall::Written::Text((*text).to_owned()))
            .collect(),
        ..firewall::Settings::default()
    }
}

fn balancer_settings() -> load_balancer::Settings {
    let backend = |address: &str| load_balancer::Backend {
        address: address.parse().expect("an address"),
        port: Some(8_000),
        weight: 1,
        drain: false,
    };
    load_balancer::Settings {
        services: vec![load_balancer::Service {
            // Servers of some of the captures.
            vip: Words::from("10.0.0.1,192.168.1.1,192.168.0.1,198.189.255.75,10.0.2.2"),
            backends: vec![backend("198.18.1.1"), backend("198.18.1.2")],
            ..load_balancer::Service::default()
        }],
        table_size: 251,
    }
}

#[test]
fn nat44_over_captures() {
    over_all("nat44", false, || {
        Harness::of::<nat44::Nat44>(nat_settings())
    });
}

#[test]
fn nat44_from_both_sides_over_captures() {
    over_all("nat44, two sides", true, || {
        Harness::of::<nat44::Nat44>(nat_settings())
    });
}

#[test]
fn rejecting_firewall_over_captures() {
    over_all("firewall", true, || {
        Harness::of::<firewall::Firewall>(rules(&[
            "drop tcp flags syn,fin",
            "reject tcp to any port 80,443",
            "reject udp in",
            "accept",
        ]))
    });
}

#[test]
fn all_together_over_captures() {
    over_all("chain", true, || {
        Harness::builder()
            .with::<firewall::Firewall>(rules(&["drop icmp icmp-type 13", "accept"]))
            .and_then(|b| b.with::<nat44::Nat44>(nat_settings()))
            .and_then(|b| b.with::<load_balancer::LoadBalancer>(balancer_settings()))
            .and_then(|b| {
                b.with::<udp_whitelist::UdpWhitelist>(udp_whitelist::Settings {
                    allow: Words::from("0.0.0.0/1, ::/0"),
                    ..udp_whitelist::Settings::default()
                })
            })
            .and_then(|b| {
                b.with::<policer::Policer>(policer::Settings {
                    action: policer::Beyond::Mark,
                    dscp: 10,
                    ..policer::Settings::default()
                })
            })
            .expect("settings that make sense")
            .build()
    });
}
