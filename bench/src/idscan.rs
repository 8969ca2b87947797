//! How fast the IDS looks for 3,000 patterns in HTTP text, in a whole chain.

use std::fmt::Write as _;

use weir_packet::{Frame, FrameMeta, FramePool, HEADROOM, Side, Time};
use weir_runtime::Runtime;
use weir_runtime::harness::Craft;

use crate::chain::{self, Texts};
use crate::clock::timed;
use crate::line::{self, BATCH};
use crate::rows::ROUNDS;
use crate::seeded::Seeded;

/// Name of the row.
pub(crate) const NAME: &str = "ids-scan-3000";
/// Contents to look for, one a rule.
pub(crate) const PATTERNS: usize = 3_000;
/// Least gigabytes of payload in a second.
pub(crate) const TARGET: f64 = 0.35;

const CONNECTIONS: usize = 64;
/// Payload of the responses of one connection, in bytes.
const RESPONSES: usize = 400_000;
const SEGMENT: usize = 1_460;
/// In the last request of each connection, and a pattern more: shows that text is looked at to
/// its end.
const MARKER: &str = "X-Weir-Marker: end";

/// Measurements of a scan.
pub(crate) struct Scan {
    pub(crate) payload: u64,
    pub(crate) packets: usize,
    pub(crate) alerts: u64,
    /// Gigabytes (10^9) of payload in a second, round by round: net, the feeding of packets
    /// taken off.
    pub(crate) gigabytes: Vec<f64>,
    /// Net nanoseconds per packet of the same packets with a function that does nothing.
    pub(crate) engine: f64,
}

/// Pronounceable, so that letters are about as frequent as in text.
fn word(random: &mut Seeded) -> String {
    const ONSETS: [&str; 20] = [
        "b", "c", "ch", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "st", "t", "th", "tr",
        "v", "w", "",
    ];
    const RHYMES: [&str; 18] = [
        "a", "e", "i", "o", "u", "an", "en", "er", "in", "ing", "on", "or", "es", "ed", "al",
        "ent", "ion", "y",
    ];
    let mut word = String::new();
    for _ in 0..1 + random.below(3) {
        word += random.pick(&ONSETS);
        word += random.pick(&RHYMES);
    }
    word
}

/// Contents as rule sets have them: paths, parameters, header values, file names, markup.
fn pattern(random: &mut Seeded) -> String {
    let (a, b) = (word(random), word(random));
    let number = random.below(1_000);
    match random.below(8) {
        0 => format!("/{a}/{b}.php"),
        1 => format!("/cgi-bin/{a}{b}"),
        2 => format!("?{a}={b}{number}"),
        3 => format!("User-Agent: {a}{b}"),
        4 => format!("{a}{b}.exe"),
        5 => format!("<script src={a}{number}"),
        6 => format!("{a}-{b}{number}"),
        _ => format!("{a}{b}{number}="),
    }
}

/// The rules: every third ignores case, as about a third of a usual rule set does.
fn rules(random: &mut Seeded) -> String {
    let mut text = String::new();
    for number in 0..PATTERNS {
        let content = pattern(random);
        let nocase = if number % 3 == 0 { " nocase;" } else { "" };
        let _ = writeln!(
            text,
            "alert tcp any any -> any any (msg:\"pattern {number}\"; content:\"{content}\";{nocase} sid:{};)",
            number + 1
        );
    }
    let _ = writeln!(
        text,
        "alert tcp any any -> any any (msg:\"marker\"; content:\"{MARKER}\"; sid:{};)",
        PATTERNS + 1
    );
    text
}

/// A page of text and markup.
fn page(random: &mut Seeded, vocabulary: &[String], length: usize) -> String {
    const TAGS: [&str; 6] = ["p", "div", "span", "li", "h2", "td"];
    let mut page = String::from("<!DOCTYPE html>\r\n<html><head><title>page</title></head><body>");
    while page.len() < length {
        let tag = random.pick(&TAGS);
        let _ = write!(page, "<{tag} class=\"c{}\">", random.below(40));
        for _ in 0..4 + random.below(20) {
            // Few words are frequent, many are rare.
            let rank = random
                .below(vocabulary.len())
                .min(random.below(vocabulary.len()));
            page += &vocabulary[rank];
            page.push(' ');
        }
        let _ = write!(page, "</{tag}>\r\n");
        if random.below(4) == 0 {
            let (a, b) = (word(random), word(random));
            let _ = write!(
                page,
                "<a href=\"/{a}/{b}.html?id={}\">{b}</a>",
                random.below(9_999)
            );
        }
    }
    page.truncate(length);
    page
}

/// A packet and the side that it comes from.
type Sent = (Side, Vec<u8>);

/// Connections with requests and responses, packets of all of them in turn; and how much payload
/// they carry.
fn traffic(random: &mut Seeded) -> (Vec<Sent>, u64) {
    let vocabulary: Vec<String> = (0..4_000).map(|_| word(random)).collect();
    let mut connections: Vec<Vec<Sent>> = Vec::new();
    let mut payload = 0;
    for number in 0..CONNECTIONS {
        let client = format!(
            "10.0.{}.{}:{}",
            number / 250,
            number % 250 + 1,
            20_000 + number
        );
        let server = "198.18.0.1:80";
        let (mut seq, mut ack) = (1_000u32, 5_000u32);
        let mut sent = Vec::new();
        let out = |seq, ack, flags: &str, data: &[u8]| {
            let craft = Craft::tcp(&client, server).seq(seq).ack(ack).flags(flags);
            (Side::Inside, craft.payload(data).build())
        };
        let back = |seq, ack, flags: &str, data: &[u8]| {
            let craft = Craft::tcp(server, &client).seq(seq).ack(ack).flags(flags);
            (Side::Outside, craft.payload(data).build())
        };
        sent.push(out(seq, 0, "S", &[]));
        sent.push(back(ack, seq + 1, "SA", &[]));
        (seq, ack) = (seq + 1, ack + 1);
        sent.push(out(seq, ack, "A", &[]));
        let mut left = RESPONSES;
        while left > 0 {
            let length = (4_000 + random.below(60_000)).min(left);
            left -= length;
            let marker = if left == 0 { MARKER } else { "X-Request: more" };
            let (a, b) = (word(random), word(random));
            let request = format!(
                "GET /{a}/{b}.html?{b}={} HTTP/1.1\r\nHost: www.{a}.example\r\n\
                 User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\n\
                 Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\n\
                 Cookie: session={:016x}\r\n{marker}\r\n\r\n",
                random.below(100_000),
                random.next()
            );
            sent.push(out(seq, ack, "AP", request.as_bytes()));
            seq += request.len() as u32;
            let body = page(random, &vocabulary, length);
            let response = format!(
                "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/html\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            for piece in response.as_bytes().chunks(SEGMENT) {
                sent.push(back(ack, seq, "A", piece));
                ack += piece.len() as u32;
            }
            payload += (request.len() + response.len()) as u64;
        }
        connections.push(sent);
    }
    let longest = connections.iter().map(Vec::len).max().unwrap_or(0);
    let mut all = Vec::new();
    for turn in 0..longest {
        for connection in &mut connections {
            if let Some(packet) = connection.get_mut(turn) {
                all.push((packet.0, core::mem::take(&mut packet.1)));
            }
        }
    }
    (all, payload)
}

/// Feeds packets, through a chain where there is one.
fn feed(
    pool: &mut FramePool,
    packets: &[Sent],
    mut runtime: Option<&mut Runtime>,
) -> Result<(), String> {
    let mut input: Vec<Frame> = Vec::with_capacity(BATCH);
    let mut output: Vec<Frame> = Vec::with_capacity(4 * BATCH);
    let mut now = 1_767_225_600_000_000_000;
    for batch in packets.chunks(BATCH) {
        for (side, bytes) in batch {
            let mut frame = pool
                .take(bytes.len())
                .map_err(|error| format!("no frame: {error:?}"))?;
            let (meta, room) = pool.memory().split_mut(&mut frame);
            *meta = FrameMeta::received(Time(now), bytes.len() as u32);
            meta.side = *side;
            if let Some(place) = room.get_mut(HEADROOM..HEADROOM + bytes.len()) {
                place.copy_from_slice(bytes);
            }
            now += 1_000;
            input.push(frame);
        }
        match &mut runtime {
            Some(runtime) => runtime.process(pool, &mut input, &mut output),
            None => output.append(&mut input),
        }
        for frame in output.drain(..) {
            pool.give(frame);
        }
    }
    Ok(())
}

/// Measures it. Each round has a runtime of its own and the same packets.
pub(crate) fn measure() -> Result<Scan, String> {
    let mut random = Seeded::new(3_000);
    let rules = rules(&mut random);
    let (packets, payload) = traffic(&mut random);
    let texts = [("bench.rules", rules.as_str())];
    let stage = chain::stage(&["ids"], &mut Texts(&texts))?;
    let engine = chain::stage(&["flow-nop"], &mut Texts(&[]))?;
    let mut pool = line::pool()?;
    let mut scan = Scan {
        payload,
        packets: packets.len(),
        alerts: 0,
        gigabytes: Vec::new(),
        engine: 0.0,
    };
    let mut engines = Vec::new();
    feed(&mut pool, &packets, None)?;
    for round in 0..ROUNDS + 1 {
        let (sink, done) = timed(|| feed(&mut pool, &packets, None));
        done?;
        let mut runtime = line::runtime(&engine)?;
        let (idle, done) = timed(|| feed(&mut pool, &packets, Some(&mut runtime)));
        done?;
        let mut runtime = line::runtime(&stage)?;
        let (total, done) = timed(|| feed(&mut pool, &packets, Some(&mut runtime)));
        done?;
        let report = runtime.report();
        if report.dropped() > 0 {
            return Err(format!("packets were dropped: {:?}", report.drops));
        }
        scan.alerts = report.events;
        if scan.alerts < CONNECTIONS as u64 {
            return Err(format!(
                "{} alerts, where each of {CONNECTIONS} connections has a match",
                scan.alerts
            ));
        }
        // The first round touches the memory of the tables for the first time.
        if round > 0 {
            scan.gigabytes
                .push(payload as f64 / total.saturating_sub(sink).max(1) as f64);
            engines.push(idle.saturating_sub(sink) as f64 / packets.len() as f64);
        }
    }
    scan.engine = crate::stats::Spread::of(&engines).median;
    Ok(scan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_text_come_from_the_seed() {
        let make = |seed| {
            let mut random = Seeded::new(seed);
            (rules(&mut random), traffic(&mut random))
        };
        let (a, b) = (make(1), make(1));
        assert!(a == b && a != make(2));
        assert_eq!(a.0.lines().count(), PATTERNS + 1);
        let bytes: u64 = a.1.0.iter().map(|(_, p)| p.len() as u64 - 54).sum();
        assert_eq!(bytes, a.1.1);
        assert!(a.1.0.iter().all(|(_, p)| p.len() <= 54 + SEGMENT));
    }
}
