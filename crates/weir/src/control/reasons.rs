//! Why packets are dropped, in words: the one list of all reasons.

use weir_packet::Malformed;

/// What is said of a reason that is not in the list: one of a function that
/// did not come with weir.
pub(super) const UNKNOWN: &str = "Not a reason of weir's own.";

/// Reasons of ports, chains and the engine.
const OWN: &[(&str, &str)] = &[
    (
        "kernel_dropped",
        "The kernel had no room for it on its way to weir: weir was too slow for a moment.",
    ),
    (
        "frame_too_large",
        "It is longer than the largest frame of packet memory, or no frame was free.",
    ),
    (
        "segment_unfinished",
        "It is a segment of a packet that was being cut when the port was closed.",
    ),
    (
        "bad_descriptor",
        "The kernel gave a descriptor that lies outside packet memory.",
    ),
    (
        "new_queue",
        "It came on a queue that the interface was given after weir had started: start it again.",
    ),
    (
        "output_full",
        "The interface took no more: it is slower than what is sent to it.",
    ),
    (
        "output_down",
        "The interface that it was to leave by is down.",
    ),
    (
        "output_too_long",
        "It is longer than the interface it was to leave by takes (its MTU).",
    ),
    (
        "output_failed",
        "The port could not put it out: an error of the system.",
    ),
    (
        "output_link_type",
        "Its link type is none that the capture file it was to be written to can have.",
    ),
    (
        "output_unwritable",
        "It can't be written in the format of the capture file.",
    ),
    ("no_chain", "No chain of the file takes it (`match:`)."),
    (
        "stage_died",
        "A stage in a process of its own died, or was ended, while it had it.",
    ),
    (
        "tenant_stalled",
        "It was for a stage that is not trusted (`untrusted`), which did not keep up.",
    ),
    (
        "tenant_gone",
        "It was for a stage that is not trusted and has died: it is being started again, or died too often for that.",
    ),
    (
        "tenant_refused",
        "A stage that is not trusted gave it back as it must not; it was ended for that.",
    ),
    (
        "tenant_dropped",
        "A stage that is not trusted did not give it back, and named no reason that it has.",
    ),
    (
        "flow_table_full",
        "It would open a flow, the table is full (`flows.max`), and the chain refuses new flows.",
    ),
    (
        "scope_table_full",
        "No record was free for the client, or other scope, that its flow belongs to.",
    ),
    (
        "fragments_full",
        "A later fragment came before the first one, and no place was free to hold it.",
    ),
    (
        "fragment_timeout",
        "A later fragment was held, and the first one never came.",
    ),
    (
        "turned_twice",
        "A function sent it back through the chain a second time.",
    ),
    (
        "no_verdict",
        "A function said nothing of it: a fault of the function.",
    ),
    (
        "no_such_unit",
        "Under a switch: the unit that it belongs to has no place in the runtime.",
    ),
    (
        "no_frame",
        "No frame of packet memory was free for what it may cause.",
    ),
    (
        "misplaced",
        "In a later stage: it is for no function there, or its flow is not what it says.",
    ),
];

/// Reasons of functions, by their kinds.
const OF_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "ip-check",
        "bad_checksum",
        "The checksum of its IPv4 header is wrong.",
    ),
    (
        "ip-check",
        "ttl_zero",
        "Its time to live, or hop limit, is 0.",
    ),
    (
        "ip-check",
        "martian_source",
        "Its source address is one that no packet on a network can have.",
    ),
    (
        "ip-check",
        "bad_transport_checksum",
        "The checksum of its TCP, UDP, SCTP or ICMP part is wrong.",
    ),
    ("ip-check", "bad_header", "Its IP header is damaged."),
    ("filter", "filtered", "An entry of `drop` matches it."),
    (
        "filter",
        "no_match",
        "No entry matches it, and `otherwise` says to drop it.",
    ),
    (
        "firewall",
        "denied",
        "A `drop` rule matches it, or none does and that is the default.",
    ),
    (
        "firewall",
        "rejected",
        "A `reject` rule matches it: its sender was told.",
    ),
    (
        "firewall",
        "invalid",
        "It is of no connection that the firewall has seen begin.",
    ),
    (
        "firewall",
        "non_ip",
        "It is neither IPv4 nor IPv6, and `non-ip` says to drop it.",
    ),
    (
        "ids",
        "rule",
        "A rule with the action `drop` or `reject` matches it.",
    ),
    (
        "load-balancer",
        "no_server",
        "No server is there for its service.",
    ),
    (
        "load-balancer",
        "untranslatable",
        "Its headers can't be rewritten: they are damaged or not all there.",
    ),
    (
        "nat44",
        "no_port",
        "No port of the pool is free for a new mapping.",
    ),
    (
        "nat44",
        "no_mapping",
        "It comes from outside to an address of the pool, and no client has that port.",
    ),
    (
        "nat44",
        "protocol",
        "Its protocol has no ports, and the chain does not let those pass.",
    ),
    (
        "nat44",
        "untranslatable",
        "Its headers can't be rewritten: they are damaged or not all there.",
    ),
    (
        "nat44",
        "spoofed",
        "It comes from outside with the address of a client inside.",
    ),
    (
        "nat44",
        "hairpin_off",
        "A client wrote to another's public address, and `hairpin` is off.",
    ),
    (
        "payload-compressor",
        "no_room",
        "The frame has no room for the coded payload.",
    ),
    (
        "payload-decompressor",
        "truncated",
        "Its payload ends inside the coding's header.",
    ),
    (
        "payload-decompressor",
        "unknown_version",
        "Its payload is coded in a version that is not known.",
    ),
    (
        "payload-decompressor",
        "bad_length",
        "The length that its payload's coding declares can't be right.",
    ),
    (
        "payload-decompressor",
        "bad_data",
        "Its payload can't be decoded.",
    ),
    (
        "payload-decompressor",
        "bad_check",
        "Its payload's check value is not that of what was decoded.",
    ),
    (
        "payload-decompressor",
        "no_room",
        "The frame has no room for the decoded payload.",
    ),
    (
        "policer",
        "exceeded",
        "Its flow sends more than its rate and burst allow.",
    ),
    (
        "syn-guard",
        "too_many_half_open",
        "Its client has as many half-open connections as it may.",
    ),
    (
        "ttl",
        "ttl_expired",
        "Its time to live, or hop limit, is over.",
    ),
    (
        "udp-whitelist",
        "not_listed",
        "Its sender has not logged in over TCP.",
    ),
    (
        "url-validator",
        "blocked",
        "The URL that its flow asked for looks like an attack.",
    ),
];

/// Reasons of ports, chains and the engine, with what they mean.
pub(super) fn own() -> impl Iterator<Item = (String, &'static str)> {
    let malformed = Malformed::ALL.iter();
    let malformed =
        malformed.map(|fault| (format!("malformed.{}", fault.reason()), fault.meaning()));
    let own = OWN
        .iter()
        .map(|(name, meaning)| ((*name).to_owned(), *meaning));
    own.chain(malformed)
}

/// Reasons of a router around the chains, with what they mean.
pub(super) fn of_router() -> impl Iterator<Item = (String, &'static str)> {
    let all = weir_router::Reason::ALL.into_iter();
    all.map(|reason| (format!("network.{}", reason.name()), reason.meaning()))
}

/// Reasons of this kind of function.
pub(super) fn of_function(kind: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_kind = OF_FUNCTIONS
        .iter()
        .filter(move |(known, ..)| *known == kind);
    of_kind.map(|(_, reason, meaning)| (*reason, *meaning))
}

/// What a reason of a kind of function means.
pub(super) fn meaning_in(kind: &str, reason: &str) -> String {
    let known = of_function(kind).find(|(known, _)| *known == reason);
    match known {
        Some((_, meaning)) => meaning.to_owned(),
        // The chain may lead a label nowhere.
        None => format!("The chain drops what {kind} calls `{reason}`; see `weir nf show {kind}`."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_of_every_function_has_a_meaning() {
        for kind in weir_functions::kinds() {
            let descriptor = kind.descriptor;
            let known: Vec<&str> = of_function(descriptor.name).map(|(name, _)| name).collect();
            let mut declared = descriptor.drops.to_vec();
            let mut told = known.clone();
            declared.sort_unstable();
            told.sort_unstable();
            assert_eq!(told, declared, "{}", descriptor.name);
        }
    }

    #[test]
    fn every_reason_of_the_engine_has_a_meaning() {
        let known: Vec<String> = own().map(|(name, _)| name).collect();
        for reason in weir_runtime::DROP_REASONS {
            assert!(known.iter().any(|name| name == reason), "{reason}");
        }
        for fault in Malformed::ALL {
            let name = format!("malformed.{}", fault.reason());
            assert!(known.contains(&name), "{name}");
        }
    }

    /// Ports count under names in their sources: none may be left out here.
    #[test]
    fn every_reason_of_a_port_has_a_meaning() {
        let io = concat!(env!("CARGO_MANIFEST_DIR"), "/../io/src");
        let known: Vec<String> = own().map(|(name, _)| name).collect();
        let mut found = 0;
        let mut folders = ["port", "live"]
            .map(|name| format!("{io}/{name}").into())
            .to_vec();
        while let Some(folder) = folders.pop() {
            let folder: std::path::PathBuf = folder;
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(path).unwrap();
                // Lists of reasons and counts are given to this function, or have this name.
                let given = text.split("drops: PortCounters::dropped_for(&[").skip(1);
                for list in given.chain(text.split("let drops = [").skip(1)) {
                    let list = list.split(']').next().unwrap();
                    for name in list.split("(\"").skip(1) {
                        let name = name.split('"').next().unwrap();
                        assert!(known.iter().any(|n| n == name), "{name}");
                        found += 1;
                    }
                }
            }
        }
        assert!(found >= 10, "{found}");
    }

    #[test]
    fn meanings_are_sentences_and_said_once() {
        let all = own().chain(of_router());
        let of = OF_FUNCTIONS.iter();
        let of = of.map(|(kind, reason, meaning)| (format!("{kind}.{reason}"), *meaning));
        let mut names = Vec::new();
        for (name, meaning) in all.chain(of) {
            assert!(
                meaning.ends_with('.') && meaning.len() > 20,
                "{name}: {meaning}"
            );
            names.push(name);
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
