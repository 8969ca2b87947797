//! Packets for chains: of the generator, made one by one, and of captures.

use std::path::{Path, PathBuf};

use weir_io::port::{MergedInput, PortSpec};
use weir_packet::{FrameMeta, Side, Time};
use weir_runtime::harness::Craft;

use super::dice::Dice;
use super::planned::{Packets, read};

/// All captures under a folder, in the order of their names.
pub(crate) fn captures(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    entries.sort_by_key(|entry| entry.as_ref().unwrap().path());
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            captures(&path, into);
        } else if std::fs::File::open(&path)
            .is_ok_and(|file| weir_io::capture::CaptureReader::open(file).is_ok())
        {
            into.push(path);
        }
    }
}

/// The first packets of a port.
fn of_port(spec: &PortSpec, most: usize) -> Packets {
    let port = spec.open_input(0, Side::Inside).unwrap();
    let mut packets = read(MergedInput::new(vec![port]));
    packets.truncate(most);
    packets
}

/// The first `most` packets of a capture.
pub(crate) fn of_capture(path: &Path, most: usize) -> Packets {
    of_port(&PortSpec::Capture(path.to_owned()), most)
}

/// A profile of the generator: its setting.
pub(crate) fn profile(dice: &mut Dice) -> String {
    let flows = dice.pick(&["5", "40", "300"]);
    let shape = *dice.pick(&[
        "life=tcp,payload=http,response=50-3000",
        "life=tcp,proto=mix,ip=mix,payload=http",
        "proto=tcp:70/udp:30,payload=http,size=400,both=yes",
        "proto=mix,ip=mix,payload=random,size=imix,both=yes",
        "proto=udp,payload=text,size=60-300,popularity=zipf:1",
        "life=tcp,ip=6,payload=text,response=1-900",
        "proto=mix,ip=mix,vlan=7,payload=text,size=90",
    ]);
    let rate = dice.pick(&["100", "2000", "100k"]);
    let seed = dice.roll(1_000_000);
    format!("gen:flows={flows},packets=1200,{shape},rate={rate},seed={seed}")
}

pub(crate) fn generated(setting: &str) -> Packets {
    of_port(&PortSpec::parse(setting).unwrap().1, usize::MAX)
}

const REQUESTS: [&[u8]; 6] = [
    b"GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /?id=1%27%20or%20%271%27=%271 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /?q=<script>alert(1)</script> HTTP/1.0\r\n\r\n",
    b"POST /p HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"SSH-2.0-x\r\n",
];

/// Packets one by one: handshakes, requests, attacks, fragments in and out of
/// order, damage, other protocols, long silence.
pub(crate) fn crafted(dice: &mut Dice, count: usize) -> Packets {
    let mut now = Time::from_secs(1_700_000_000);
    let mut packets = Packets::new();
    while packets.len() < count {
        let wait = match dice.roll(40) {
            0 => 400_000,
            1 => 12_000,
            2..8 => dice.roll(3_000) as u64,
            _ => 0,
        };
        now = now.plus(wait * 1_000_000);
        let six = dice.one_in(4);
        let (client, server) = (dice.roll(5) + 1, dice.roll(3) + 1);
        let port = dice.pick(&[80, 80, 443, 7]);
        let (mut from, mut to) = match six {
            false => (
                format!("10.0.0.{client}:100{client}"),
                format!("198.18.0.{server}:{port}"),
            ),
            true => (
                format!("[fd00:1::{client}]:1000"),
                format!("[fd00:2::{server}]:{port}"),
            ),
        };
        if dice.one_in(3) {
            std::mem::swap(&mut from, &mut to);
        }
        let payload: Vec<u8> = match dice.roll(4) {
            0 => Vec::new(),
            1 => vec![b'a' + dice.roll(4) as u8; dice.roll(400)],
            _ => dice.pick(&REQUESTS).to_vec(),
        };
        let flags = *dice.pick(&["S", "SA", "A", "PA", "PA", "PA", "FA", "R"]);
        let seq = dice.roll(3) as u32 * 40;
        let craft = match dice.roll(8) {
            0..4 => Craft::tcp(&from, &to).flags(flags).seq(seq),
            4 | 5 => Craft::udp(&from, &to),
            6 if !six => {
                let id = dice.roll(4) as u16;
                let at = *dice.pick(&[0x2000, 0x2000, 0x2005, 0x000a]);
                let eighty = vec![b'f'; 40];
                let craft = Craft::udp(&from, &to).ip_id(id).fragment(at);
                packets.push((FrameMeta::received(now, 0), craft.payload(&eighty).build()));
                continue;
            }
            _ => Craft::ping(&from, &to),
        };
        let mut craft = craft.payload(&payload);
        if dice.one_in(8) {
            craft = craft.ttl(dice.roll(3) as u8);
        }
        if dice.one_in(10) {
            craft = craft.vlan(7);
        }
        let mut bytes = craft.build();
        match dice.roll(14) {
            // A header checksum, any byte, an end, a protocol that is not IP.
            0 if !six => bytes[24] ^= 0x55,
            1 => {
                let at = 14 + dice.roll(bytes.len() - 14);
                bytes[at] ^= 1 << dice.roll(8);
            }
            2 => bytes.truncate(14 + dice.roll(bytes.len() - 14)),
            3 => bytes[12..14].copy_from_slice(&[0x88, 0xb5]),
            _ => {}
        }
        packets.push((FrameMeta::received(now, 0), bytes));
    }
    number(&mut packets);
    packets
}

fn number(packets: &mut Packets) {
    for (number, (meta, bytes)) in packets.iter_mut().enumerate() {
        meta.sequence = number as u64 + 1;
        meta.wire_len = bytes.len() as u32;
    }
}

/// Gives packets of private and of documentation addresses their sides, as a
/// chain between two ports sees them.
pub(crate) fn with_sides(packets: &mut Packets) {
    for (meta, bytes) in packets {
        let from = match (bytes.get(12), bytes.get(13)) {
            (Some(0x08), Some(0)) => bytes.get(26),
            (Some(0x86), Some(0xdd)) => bytes.get(25),
            _ => None,
        };
        let inside = matches!(from, None | Some(10 | 192 | 172 | 1));
        meta.side = if inside { Side::Inside } else { Side::Outside };
    }
}
