//! One conversation: who says what, when.

use weir_packet::{LinkType, Side};

use super::packet::{Planned, Shape};
use crate::chain::Chain;
use crate::random::Random;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// Collects the packets of one conversation.
struct Talk<'a> {
    random: &'a mut Random,
    all: &'a mut Vec<Planned>,
    flow: u32,
    at: u64,
    /// Typical nanoseconds between two packets.
    gap: u64,
    end: u64,
    left: u32,
}

impl Talk<'_> {
    fn say(&mut self, to_server: bool, shape: Shape) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.at = (self.at + self.random.within(1, 2 * self.gap)).min(self.end);
        self.all.push(Planned {
            at: self.at,
            flow: self.flow,
            to_server,
            side: if to_server {
                Side::Inside
            } else {
                Side::Outside
            },
            link: LinkType::Ethernet,
            shape,
        });
    }
}

/// Adds at most `most` packets of one conversation that starts at `start`.
pub(super) fn plan(
    random: &mut Random,
    chain: Chain,
    flow: u32,
    (start, end): (u64, u64),
    most: u32,
    all: &mut Vec<Planned>,
) {
    let gap = [40_000, 300_000, 2_000_000, 9_000_000][random.below(4) as usize];
    let kind = random.below(100);
    let mut talk = Talk {
        random,
        all,
        flow,
        at: start,
        gap,
        end,
        left: most,
    };
    let tcp = match chain {
        Chain::Web | Chain::Inspect => 75,
        Chain::Clients => 35,
        _ => 50,
    };
    match kind {
        0..=1 => odd(&mut talk),
        2..=4 => echo(&mut talk),
        5..=9 => fragments(&mut talk),
        _ if kind < 10 + tcp => tcp_talk(&mut talk),
        _ => datagrams(&mut talk),
    }
}

/// The server's port of a flow: it stays the same when the flow comes back.
pub(crate) fn server_port(flow: u32) -> u16 {
    match flow % 10 {
        0 => 443,
        1 => 8_080,
        2 => 23,
        3 => 53,
        4 => 123,
        _ => 80,
    }
}

fn tcp_talk(talk: &mut Talk<'_>) {
    let mut client = talk.random.number() as u32;
    let mut server = talk.random.number() as u32;
    let tcp = |flags, seq, ack, payload: Vec<u8>| Shape::Tcp {
        flags,
        seq,
        ack,
        ttl: 64,
        payload,
    };
    if !talk.random.chance(60) {
        talk.say(true, tcp(SYN, client, 0, Vec::new()));
        client = client.wrapping_add(1);
        talk.say(false, tcp(SYN | ACK, server, client, Vec::new()));
        server = server.wrapping_add(1);
        talk.say(true, tcp(ACK, client, server, Vec::new()));
    }
    let mut number = 0;
    while talk.left > 3 && number < 40 {
        let request = request(talk.random, number);
        let parts = talk.random.within(1, 3) as usize;
        let mut segments = cut(&request, parts, &mut client);
        if talk.random.chance(150) {
            segments.reverse();
        }
        for (seq, bytes) in segments {
            talk.say(true, tcp(PUSH | ACK, seq, server, bytes));
        }
        let response = response(talk.random);
        let parts = talk.random.within(1, 4) as usize;
        let mut segments = cut(&response, parts, &mut server);
        if talk.random.chance(150) {
            segments.reverse();
        }
        for (seq, bytes) in segments {
            if talk.random.chance(20) {
                talk.say(false, tcp(PUSH | ACK, seq, client, bytes.clone()));
            }
            talk.say(false, tcp(PUSH | ACK, seq, client, bytes));
        }
        if talk.random.chance(300) {
            talk.say(true, tcp(ACK, client, server, Vec::new()));
        }
        number += 1;
        if talk.random.chance(200) {
            break;
        }
    }
    match talk.random.below(10) {
        0..=5 => {
            talk.say(true, tcp(FIN | ACK, client, server, Vec::new()));
            client = client.wrapping_add(1);
            talk.say(false, tcp(FIN | ACK, server, client, Vec::new()));
            server = server.wrapping_add(1);
            talk.say(true, tcp(ACK, client, server, Vec::new()));
        }
        6 => talk.say(true, tcp(RST | ACK, client, server, Vec::new())),
        7 => talk.say(false, tcp(RST, server, 0, Vec::new())),
        // The rest fall silent.
        _ => {}
    }
}

fn request(random: &mut Random, number: u32) -> Vec<u8> {
    let path = match random.below(12) {
        0 => "/etc/passwd".to_owned(),
        n => format!("/page/{n}?number={number}"),
    };
    let filler = "z".repeat(random.below(300) as usize);
    format!("GET {path} HTTP/1.1\r\nHost: www.example\r\nUser-Agent: sim\r\nX: {filler}\r\n\r\n")
        .into_bytes()
}

fn response(random: &mut Random) -> Vec<u8> {
    let length = [0, 5, 80, 600][random.below(4) as usize];
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + length, b'b');
    bytes
}

/// Cuts a message into segments with their sequence numbers.
fn cut(message: &[u8], parts: usize, seq: &mut u32) -> Vec<(u32, Vec<u8>)> {
    let size = message.len().div_ceil(parts.max(1)).max(1);
    let mut segments = Vec::with_capacity(parts);
    for part in message.chunks(size) {
        segments.push((*seq, part.to_vec()));
        *seq = seq.wrapping_add(part.len() as u32);
    }
    segments
}

fn datagrams(talk: &mut Talk<'_>) {
    let rounds = talk.random.within(1, 40);
    for round in 0..rounds {
        let ttl = if talk.random.chance(40) { 1 } else { 64 };
        let payload = format!("query {round}").into_bytes();
        talk.say(true, Shape::Udp { ttl, payload });
        if talk.random.chance(800) {
            let payload = format!("answer {round}").into_bytes();
            talk.say(false, Shape::Udp { ttl: 64, payload });
        }
        if talk.left == 0 {
            return;
        }
    }
}

fn echo(talk: &mut Talk<'_>) {
    let rounds = talk.random.within(1, 8) as u16;
    for number in 0..rounds {
        talk.say(true, Shape::Echo { number });
        talk.say(false, Shape::Echo { number });
    }
}

fn fragments(talk: &mut Talk<'_>) {
    let rounds = talk.random.within(1, 4);
    for _ in 0..rounds {
        let id = talk.random.number() as u16;
        let whole = vec![b'f'; 1_000];
        let part = |offset: u16, length: u16, more| Shape::Fragment {
            id,
            offset,
            more,
            whole: whole.clone(),
            length,
        };
        let mut parts = vec![
            part(0, 400, true),
            part(400, 400, true),
            part(800, 208, false),
        ];
        match talk.random.below(4) {
            0 => parts.reverse(),
            1 => parts.swap(0, 1),
            _ => {}
        }
        if talk.random.chance(100) {
            parts.pop();
        }
        for shape in parts {
            talk.say(true, shape);
        }
    }
}

/// Packets that have no flow, or contradict themselves.
fn odd(talk: &mut Talk<'_>) {
    let rounds = talk.random.within(1, 5);
    for _ in 0..rounds {
        let mut bytes = vec![0xff; 6];
        bytes.extend([2, 0, 0, 0, 0, 1]);
        match talk.random.below(4) {
            0 => {
                // ARP: who has 10.0.0.2?
                bytes.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
                bytes.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
            }
            1 => {
                // LLDP, more or less.
                bytes.extend([0x88, 0xcc, 2, 7, 4, 2, 0, 0, 0, 0, 1, 0, 0]);
            }
            2 => {
                // An IPv4 header that ends too early.
                bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 1]);
            }
            _ => {
                // A header length that can't be.
                bytes.extend([8, 0, 0x41, 0, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0]);
                bytes.extend([10, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0]);
            }
        }
        talk.say(true, Shape::Raw(bytes));
    }
}
