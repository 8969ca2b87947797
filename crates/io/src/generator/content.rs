//! Payloads: a stock of messages made at the beginning, so that a packet costs a copy.

use super::random::Random;
use super::spec::{GeneratorSpec, Payload};

const MESSAGES: u32 = 1_024;
const POOL: usize = 64 << 10;
/// Requests without HTTP, in bytes.
const REQUEST: (u32, u32) = (40, 600);

/// Begins with bytes of its own, goes on with bytes of the pool that all share.
#[derive(Clone, Copy)]
struct Message {
    head: usize,
    head_len: usize,
    body: usize,
    body_len: usize,
}

/// Requests and responses.
pub(super) struct Content {
    heads: Vec<u8>,
    pool: Vec<u8>,
    requests: Vec<Message>,
    responses: Vec<Message>,
}

impl Content {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let mut random = Random::new(spec.seed ^ 0x00c0_47e4);
        let mut this = Self {
            heads: Vec::new(),
            pool: pool(spec.payload, &mut random),
            requests: Vec::new(),
            responses: Vec::new(),
        };
        let (low, high) = (spec.response.low, spec.response.high);
        for _ in 0..MESSAGES {
            // The logarithm is spread evenly: small bodies are more frequent than large ones.
            let share = f64::from(random.below(1 << 16)) / f64::from(1 << 16);
            let body = f64::from(low) * (f64::from(high) / f64::from(low)).powf(share);
            let body = (body as u32).clamp(low, high);
            let (request, response) = if spec.payload == Payload::Http {
                let (request, posted) = http_request(&mut random);
                let (response, body) = http_response(&mut random, body);
                let request = this.add(request, posted, &mut random);
                (request, this.add(response, body, &mut random))
            } else {
                let asked = random.between(REQUEST.0, REQUEST.1);
                let request = this.add(String::new(), asked, &mut random);
                (request, this.add(String::new(), body, &mut random))
            };
            this.requests.push(request);
            this.responses.push(response);
        }
        this
    }

    fn add(&mut self, head: String, body_len: u32, random: &mut Random) -> Message {
        let message = Message {
            head: self.heads.len(),
            head_len: head.len(),
            body: random.below(POOL as u32) as usize,
            body_len: body_len as usize,
        };
        self.heads.extend(head.into_bytes());
        message
    }

    fn message(&self, outside: bool, number: u32) -> Option<&Message> {
        let messages = if outside {
            &self.responses
        } else {
            &self.requests
        };
        messages.get((number % MESSAGES) as usize)
    }

    /// Length in bytes of a response (`outside`) or request.
    pub(super) fn len(&self, outside: bool, number: u32) -> usize {
        let message = self.message(outside, number);
        message.map_or(0, |message| message.head_len + message.body_len)
    }

    /// Fills `out` with the bytes of a message from `at` on; with bytes of the pool where the
    /// message is over.
    pub(super) fn copy(&self, outside: bool, number: u32, at: usize, out: &mut [u8]) {
        let Some(message) = self.message(outside, number) else {
            return;
        };
        let head = self
            .heads
            .get(message.head..message.head + message.head_len);
        let head = head.and_then(|head| head.get(at..)).unwrap_or_default();
        let (first, mut rest) = out.split_at_mut(head.len().min(out.len()));
        if let Some(head) = head.get(..first.len()) {
            first.copy_from_slice(head);
        }
        let mut from = message.body + (at + first.len()).saturating_sub(message.head_len);
        while !rest.is_empty() {
            let piece = self.pool.get(from % POOL..).unwrap_or_default();
            let length = piece.len().min(rest.len());
            let (now, later) = rest.split_at_mut(length);
            if let Some(piece) = piece.get(..length) {
                now.copy_from_slice(piece);
            }
            from += length;
            rest = later;
        }
    }

    /// Bytes to fill a packet of no conversation: messages one after another.
    pub(super) fn stretch(&self, outside: bool, first: u32, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut rest = bytes.as_mut_slice();
        let mut number = first;
        while !rest.is_empty() {
            let whole = self.len(outside, number).clamp(1, rest.len());
            let (now, later) = rest.split_at_mut(whole);
            self.copy(outside, number, 0, now);
            rest = later;
            number = number.wrapping_add(1);
        }
        bytes
    }
}

const WORDS: [&str; 32] = [
    "river", "stone", "garden", "market", "window", "paper", "copper", "meadow", "harbour",
    "signal", "timber", "lantern", "orchard", "bridge", "weather", "station", "journal", "mirror",
    "basket", "village", "autumn", "engine", "castle", "ribbon", "valley", "anchor", "pepper",
    "candle", "forest", "island", "thunder", "saddle",
];

fn word(random: &mut Random) -> &'static str {
    let index = random.below(WORDS.len() as u32) as usize;
    WORDS.get(index).copied().unwrap_or("weir")
}

fn pool(payload: Payload, random: &mut Random) -> Vec<u8> {
    match payload {
        Payload::Zero => vec![0; POOL],
        Payload::Random => (0..POOL / 8)
            .flat_map(|_| random.next().to_le_bytes())
            .collect(),
        Payload::Text | Payload::Http => {
            let mut text = String::new();
            while text.len() < POOL {
                text.push_str(word(random));
                text.push_str(if random.percent(10) { ".\r\n" } else { " " });
            }
            text.truncate(POOL);
            text.into_bytes()
        }
    }
}

fn host(random: &mut Random) -> String {
    let names = ["www", "api", "static", "shop", "news"];
    let name = names.get(random.below(names.len() as u32) as usize);
    let domain = word(random);
    format!("{}.{domain}.example", name.copied().unwrap_or("www"))
}

fn path(random: &mut Random) -> String {
    let mut path = String::new();
    for _ in 0..random.between(1, 3) {
        path.push('/');
        path.push_str(word(random));
    }
    let number = random.below(100_000);
    match random.below(4) {
        0 => path.push_str(&format!("/{number}.html")),
        1 => path.push_str(&format!("/{number}.png")),
        2 => path.push_str(&format!("?id={number}&q={}+{}", word(random), word(random))),
        _ => path.push('/'),
    }
    path
}

/// The head of a request, and the length of its body.
fn http_request(random: &mut Random) -> (String, u32) {
    let (path, host) = (path(random), host(random));
    let agents = [
        "curl/8.5.0",
        "Mozilla/5.0 (X11; Linux x86_64)",
        "weir-generator/1",
    ];
    let agent = agents.get(random.below(agents.len() as u32) as usize);
    let agent = agent.copied().unwrap_or("weir-generator/1");
    let (method, body) = match random.below(10) {
        0 => ("POST", random.between(10, 400)),
        _ => ("GET", 0),
    };
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n"
    );
    if body > 0 {
        head.push_str(&format!(
            "Content-Type: text/plain\r\nContent-Length: {body}\r\n"
        ));
    }
    if random.percent(30) {
        head.push_str(&format!("Cookie: session={:016x}\r\n", random.next()));
    }
    head.push_str("\r\n");
    (head, body)
}

/// The head of a response, and the length of its body.
fn http_response(random: &mut Random, body: u32) -> (String, u32) {
    let (status, body) = match random.below(20) {
        0 => ("404 Not Found", body.min(512)),
        1 => ("302 Found", 0),
        2 => ("304 Not Modified", 0),
        _ => ("200 OK", body),
    };
    let mut head = format!("HTTP/1.1 {status}\r\nServer: weir\r\n");
    match status {
        "304 Not Modified" => head.push_str("ETag: \"1\"\r\n"), // never has a body (RFC 9110 §15.4.5)
        "302 Found" => {
            head.push_str(&format!(
                "Location: {}\r\nContent-Length: 0\r\n",
                path(random)
            ));
        }
        _ => head.push_str(&format!(
            "Content-Type: text/plain\r\nContent-Length: {body}\r\n"
        )),
    }
    head.push_str("\r\n");
    (head, body)
}
