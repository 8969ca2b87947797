//! What fuzzing starts from: the examples' captures and chain files, captures
//! of a folder of real ones if there is one, and a few texts.

use std::path::{Path, PathBuf};

use weir_io::capture::{CaptureReader, OwnedRecord, PcapWriter, Resolution};
use weir_packet::{LinkType, ParseOptions, parse};
use weir_runtime::harness::Craft;

/// Captures larger than this are not taken.
const LARGEST: u64 = 200_000;

/// Most captures of a folder.
const CAPTURES: usize = 400;

/// Rules, and a stream that some of them alert on.
const RULES: &str = "\
alert tcp any any -> any any (msg:\"a\"; content:\"GET\"; offset:0; depth:3; content:\"passwd\"; nocase; distance:1; within:40; fast_pattern; sid:1; rev:2;)
alert tcp $HOME_NET any -> $EXTERNAL_NET [80,8000:8100,!8080] (flow:established,to_server; content:!\"x|0d 0a|\"; content:\"b\"; flowbits:set,a; flowbits:noalert; sid:2;)
drop udp [10.0.0.0/8,!10.1.0.0/16] any <> any 53 (content:\"|00 01|\"; dsize:>10; ttl:<5; sid:3; classtype:bad-unknown; priority:1;)
alert tcp any any -> any any (content:\"end\"; endswith; startswith; flags:S,12; sid:4; flowbits:isset,a;)
#comment
alert icmp any any -> any any (itype:8; icode:0; sid:5;) \\
";

/// HTTP as [`crate::http::run`] reads it: NUL behind what a client sends, 1
/// behind what a server sends.
const HTTP: [&str; 5] = [
    "\u{5}GET /a?b=%27+or+1=1-- HTTP/1.1\r\nHost: x\r\nUser-Agent: y\r\n\r\n\0HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Type: text/html\r\n\r\nabc\u{1}",
    "\u{9}POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: u\r\n\r\nGET /2 HTTP/1.0\r\n\r\n\0HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nHTTP/1.0 404 No\n\nrest\u{1}",
    "\u{3}HEAD /h HTTP/1.1\r\nHost:a\r\n folded\r\n\r\n\0HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n\u{1}CONNECT a:1 HTTP/1.1\r\n\r\n\0HTTP/1.1 200 OK\r\n\r\n\u{1}raw\0",
    "\u{2}GET /old\r\n\0<html>\u{1}",
    "\u{7}\r\n\r\nPUT /p HTTP/1.1\nContent-Length: 4\n\nabcdGET http://h/../x HTTP/1.1\n\n\0HTTP/1.1 204 N\r\n\r\nHTTP/1.1 301 M\r\nLocation: /z\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\u{1}",
];

/// Chain files, beside those of the examples.
const CHAIN: &str = "\
chain: edge
ports:
  - {name: lan, side: inside}
  - {name: wan, side: outside}
match:
  - {protocol: tcp, port: [80, 8000-8100]}
  - {prefix: \"10.0.0.0/8\", vlan: 5}
flows: {max: 100, when-full: refuse, timeouts: {udp: 90s, reuse: false}, inner: true, malformed: pass, buffers: 64KiB, track: always}
nfs:
  - firewall: &f {default: drop, rules: [accept tcp from any to any port 80 name web, {action: drop, protocol: [udp]}]}
  - http-classifier: {ports: [80]}
    as: web
    links: {other: out}
  - nat44: {pool: 203.0.113.1, inside: 10.0.0.0/8}
  - load-balancer: {services: [{vip: 192.0.2.1, port: 80, backends: [{address: 10.0.0.9, weight: 3}]}]}
  - policer: {rate: 10mbit/s}
  - filter: {drop: [{dscp: 46}]}
  - udp-whitelist: {learn: [{port: 443}]}
\0firewall.default=accept
flows.max=7
";

/// Inputs by target.
pub type Seeds = Vec<(&'static str, Vec<u8>)>;

/// All seeds that can be had here.
pub fn seeds() -> Seeds {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds: Seeds = Vec::new();
    seeds.push(("chain_file", CHAIN.into()));
    seeds.push((
        "rules",
        [RULES.as_bytes(), b"\0\x05GET /etc/PASSWD b end"].concat(),
    ));
    seeds.extend(HTTP.map(|text| ("http", text.into())));
    let payloads = crate::compression::examples();
    seeds.extend(payloads.into_iter().map(|bytes| ("compression", bytes)));
    seeds.push(("template", crate::template::example()));
    seeds.push(("notices", crate::notices::example()));
    let links = crate::router::examples();
    seeds.extend(links.into_iter().map(|story| ("router", story)));
    seeds.push(("border", crate::border::example()));
    seeds.extend(stories());
    seeds.extend(frames());
    of_capture(&made(), 0, &mut seeds);
    for file in files(&root.join("examples")) {
        let Ok(text) = std::fs::read(&file) else {
            continue;
        };
        match file.extension().and_then(|e| e.to_str()) {
            Some("yaml") => seeds.push(("chain_file", text)),
            Some("rules") => seeds.push(("rules", text)),
            _ => {}
        }
    }
    let mut folders = vec![
        root.join("examples/captures"),
        root.join("../shared/traces"),
    ];
    folders.extend(std::env::var_os("WEIR_TRACES").map(PathBuf::from));
    let mut captures = 0;
    for file in folders.iter().flat_map(|folder| files(folder)) {
        let capture = file
            .extension()
            .is_some_and(|e| e == "pcap" || e == "pcapng" || e == "cap");
        let small = std::fs::metadata(&file).is_ok_and(|m| m.len() < LARGEST);
        if capture
            && small
            && captures < CAPTURES
            && let Ok(bytes) = std::fs::read(&file)
        {
            captures += 1;
            of_capture(&bytes, captures as u8, &mut seeds);
        }
    }
    seeds.extend(crate::dissect::seeds());
    let classifiers = classifiers(&seeds);
    seeds.extend(classifiers);
    seeds
}

/// What processes say to one another.
fn frames() -> Seeds {
    let mut seeds: Seeds = vec![("nsh", crate::nsh::example()), ("nsh", vec![1, 0, 18, 1])];
    for message in crate::message::examples() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        seeds.push(("message", bytes));
    }
    // Send, pass on, change, wait: see `crate::stream`.
    let script: Vec<u8> = (0..240_u8).flat_map(|n| [n % 8, n, 40, n / 3, 9]).collect();
    seeds.push(("stream", script));
    seeds.push((
        "stream",
        vec![0, 200, 255, 4, 0, 4, 1, 1, 6, 30, 1, 7, 3, 0, 2, 3, 9],
    ));
    seeds
}

/// A capture that needs no file.
fn made() -> Vec<u8> {
    let packets = [
        Craft::tcp("10.0.0.1:1000", "192.0.2.1:80")
            .flags("S")
            .options(&[2, 4, 5, 180])
            .build(),
        Craft::tcp("[2001:db8::1]:1000", "[2001:db8::2]:80")
            .flags("PA")
            .payload(b"GET / HTTP/1.1")
            .build(),
        Craft::udp("10.0.0.1:1000", "192.0.2.1:53")
            .vlan(5)
            .payload(b"query")
            .build(),
        Craft::udp("10.0.0.1:1000", "192.0.2.1:53")
            .fragment(0x2000)
            .payload(b"in parts")
            .build(),
        Craft::ping("10.0.0.1:7", "192.0.2.1:1").build(),
    ];
    let Ok(mut writer) = PcapWriter::new(Vec::new(), 1, Resolution::Micro) else {
        return Vec::new();
    };
    for packet in packets {
        // Memory can be written to.
        let _ = writer.write(1_700_000_000_000_000_000, packet.len() as u32, &packet);
    }
    writer.finish().unwrap_or_default()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn of_capture(file: &[u8], number: u8, seeds: &mut Seeds) {
    if file.len() < 20_000 {
        seeds.push(("capture", file.to_vec()));
    }
    let mut records = Vec::new();
    if let Ok(mut reader) = CaptureReader::open(file) {
        while let Ok(Some(record)) = reader.next() {
            records.push(OwnedRecord::from(record));
        }
    }
    // Distinct shapes are worth more than many frames of one.
    let mut shapes = std::collections::BTreeSet::new();
    for record in &records {
        let link = LinkType::from_dlt(record.dlt);
        let options = ParseOptions {
            lenient: true,
            ..ParseOptions::default()
        };
        let found = parse(&record.data, link, &options);
        let shape = match &found {
            Ok(headers) => format!("{:?} {} {}", headers.flags, headers.proto, headers.l4),
            Err(fault) => format!("{fault:?}"),
        };
        if record.data.len() > 2_000 || shapes.len() > 12 || !shapes.insert(shape) {
            continue;
        }
        seeds.push((
            "packet_parse",
            [&[link as u8, 4][..], &record.data].concat(),
        ));
        if let Ok(headers) = found {
            let ip = if headers.is_ipv4() { 5 } else { 6 };
            seeds.push((
                "wire",
                [
                    &[ip],
                    record.data.get(usize::from(headers.l3)..).unwrap_or(&[]),
                ]
                .concat(),
            ));
            let choice = match headers.proto {
                6 => 8,
                17 => 10,
                132 => 11,
                1 => 12,
                58 => 13,
                47 => 16,
                _ => continue,
            };
            seeds.push(("wire", [&[choice], headers.l4_of(&record.data)].concat()));
        }
    }
    for chain in 0..5 {
        if usize::from(number) % 5 != chain && records.len() > 8 {
            continue;
        }
        let mut story = vec![chain as u8];
        for (i, record) in records.iter().take(40).enumerate() {
            let Ok(length) = u16::try_from(record.data.len()) else {
                continue;
            };
            story.extend([1 | (i as u8 & 1) << 4, LinkType::from_dlt(record.dlt) as u8]);
            story.extend(length.to_be_bytes());
            story.extend(&record.data);
        }
        if story.len() < 30_000 {
            seeds.push(("engine", story));
        }
    }
}

/// Handshakes with a request, answers, errors, a wait, for each chain.
fn stories() -> Seeds {
    let request = b"GET /a?id=1%20union%20select HTTP/1.1\r\nHost: x\r\n\r\n";
    (0..5)
        .map(|chain| {
            let mut story = vec![chain];
            for conversation in 0..12 {
                story.extend([2, conversation, 0, 0, 15, 10, 0x12, 2, conversation, 2, 0]);
                story.extend([2, conversation, 3, request.len() as u8]);
                story.extend(request);
                story.extend([
                    15,
                    10,
                    0x18,
                    11,
                    3,
                    6,
                    conversation,
                    0,
                    2,
                    1,
                    2,
                    15,
                    10,
                    0,
                    8,
                    conversation,
                    0,
                    0,
                    13,
                    9,
                ]);
            }
            story.extend([
                9, 3, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 1, 1, 9, 45, 2, 88, 15,
            ]);
            ("engine", story)
        })
        .collect()
}

/// The engine's stories, with something done to units between their packets.
fn classifiers(seeds: &Seeds) -> Seeds {
    let stories = seeds.iter().filter(|(target, _)| *target == "engine");
    stories
        .enumerate()
        .filter_map(|(number, (_, story))| {
            let (chain, rest) = story.split_first()?;
            let mut random = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let deeds: Vec<u8> = (0..600)
                .map(|_| {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random >> 24) as u8
                })
                .collect();
            let length = (deeds.len() as u16).to_be_bytes();
            let parts: [&[u8]; 4] = [&[*chain], &length, &deeds, rest];
            Some(("classifier", parts.concat()))
        })
        .collect()
}
