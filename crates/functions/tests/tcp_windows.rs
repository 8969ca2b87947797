//! Which resets are believed, over real captures: none that is a connection's own is called
//! invalid, nearly all are at the number that their receiver expects.

mod support;

use std::path::{Path, PathBuf};

use weir_functions::firewall;
use weir_nf::packet::{LinkType, Side, Time, tcp::flag};
use weir_nf::prelude::*;
use weir_nf::tcp_seen;
use weir_runtime::harness::Harness;

/// Counts resets by what is thought of them.
#[derive(Debug)]
struct Probe;

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Resets outside of the window.
        Outside = "outside",
        /// Resets that were doubted.
        Doubted = "doubted",
        /// Resets that were believed.
        Believed = "believed",
        /// Resets of no connection.
        Other = "other",
        /// FINs that were ignored.
        FinsIgnored = "fins_ignored",
    }
}

impl NetworkFunction for Probe {
    type Settings = ();
    type State = ();
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        counters: Count::TABLE,
        ..Descriptor::new("probe", "Counts resets")
    };

    fn new((): (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(Probe)
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if packet.headers().tcp_flags & flag::RST != 0 {
            let seen = flow.info.tcp_seen();
            cx.count(
                match seen {
                    _ if seen & tcp_seen::RESET_OUTSIDE != 0 => Count::Outside,
                    _ if seen & tcp_seen::RESET_DOUBTED != 0 => Count::Doubted,
                    _ if seen & tcp_seen::RESET != 0 => Count::Believed,
                    _ => Count::Other,
                },
                1,
            );
        }
        let fin = match flow.info.to_server() {
            true => tcp_seen::FIN_CLIENT,
            false => tcp_seen::FIN_SERVER,
        };
        let says = packet.headers().tcp_flags & (flag::FIN | flag::SYN | flag::RST);
        if says == flag::FIN && flow.info.tcp_seen() & fin == 0 {
            cx.count(Count::FinsIgnored, 1);
        }
        Verdict::Pass
    }
}

fn captures(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            captures(&path, found);
        } else if path
            .extension()
            .is_some_and(|e| e == "pcap" || e == "pcapng")
        {
            found.push(path);
        }
    }
}

#[test]
fn no_reset_of_a_real_connection_is_called_invalid() {
    let Some(root) = support::traces() else {
        return;
    };
    let mut all = Vec::new();
    captures(&root, &mut all);
    all.sort();
    let mut sums = [0; 5];
    let mut outside = Vec::new();
    for path in all {
        let builder = Harness::builder().with::<Probe>(()).expect("no settings");
        let builder = builder.with::<firewall::Firewall>(firewall::Settings::default());
        let mut harness = builder.expect("default settings").build();
        for packet in support::load(&path) {
            harness.set_time(Time(packet.time_ns));
            harness.queue_link(Side::Inside, LinkType::from_dlt(packet.dlt), &packet.data);
            harness.flush();
        }
        let counts = ["outside", "doubted", "believed", "other", "fins_ignored"]
            .map(|name| harness.counter("probe", name));
        let report = harness.finish();
        assert_eq!(report.flows.resets_ignored, counts[0]);
        let drops: u64 = report
            .drops
            .iter()
            .filter(|d| d.0 == "firewall.invalid")
            .map(|d| d.1)
            .sum();
        assert_eq!(drops, counts[0], "{}", path.display());
        if counts.iter().any(|&n| n > 0) {
            println!("{counts:?} {}", path.display());
        }
        if counts[0] > 0 {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            outside.push((name.into_owned(), counts[0]));
        }
        for (sum, n) in sums.iter_mut().zip(counts) {
            *sum += n;
        }
    }
    println!("{sums:?}");
    assert_eq!(outside, []);
    assert!(sums[2] > 300 && sums[1] * 10 < sums[2], "{sums:?}");
    // Two captures have a FIN without ACK, which no receiver takes.
    assert_eq!(sums[4], 2, "ends that were not believed");
}
