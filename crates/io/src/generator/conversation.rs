//! Flows that live: they open, ask and answer, and end; a new flow takes the place.

use super::content::Content;
use super::headers::{
    ACK, FIN, Headers, LEAST_DATA, MIN_FRAME, PSH, RST, SYN, SYN_OPTIONS, checksum, checksum_of,
    put, sum, sum32,
};
use super::popularity::Picker;
use super::random::{Random, mix};
use super::spec::{Family, GeneratorSpec, Protocol};
use super::tuples::{Class, Tuple, Tuples};
use super::values::{Range, Sizes};

/// The next step of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The place is free: a flow begins.
    Begin,
    Syn,
    SynAck,
    HandshakeAck,
    /// Client sends the rest of a request.
    Request,
    /// Server sends the rest of a response.
    Response,
    /// Client acknowledges and then goes on with the response or the next exchange.
    DataAck,
    /// One side closes, the other answers, the first acknowledges; `true` is the server.
    Fin(bool),
    FinAnswer(bool),
    FinAck(bool),
    Reset,
    /// UDP and ICMP.
    Ask,
    Answer,
}

/// A place where one flow after another lives.
#[derive(Clone, Copy)]
struct Slot {
    /// Flows that lived here before this one.
    generation: u32,
    /// Next sequence number of the client and of the server.
    client: u32,
    server: u32,
    /// Bytes of the current message that were sent; for ICMP and UDP the length of the question.
    sent: u32,
    /// Request or response of the stock.
    message: u32,
    step: Step,
    exchanges: u8,
    /// Segments of the server since the client last acknowledged.
    unacknowledged: u8,
}

/// One packet of a conversation, before it is put into headers.
struct Packet {
    outside: bool,
    flags: u8,
    /// Sequence number; of ICMP echo the lower half.
    sequence: u32,
    acknowledgement: u32,
    /// The message of the stock that the data comes from, and where in it.
    response: bool,
    message: u32,
    from: u32,
    data: usize,
}

/// Settings that the steps of all flows draw from.
struct Stock {
    content: Content,
    sizes: Sizes,
    requests: Range,
    seed: u64,
}

/// Flows that open, exchange messages and end.
pub(super) struct Conversations {
    stock: Stock,
    tuples: Tuples,
    /// By class, then direction.
    headers: [[Headers; 2]; 6],
    flows: u32,
    /// Flows that one place can have after one another before ports are used again.
    generations: u32,
    both: bool,
    slots: Vec<Slot>,
}

impl Conversations {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let tuples = Tuples::new(spec);
        let free = Slot {
            generation: 0,
            client: 0,
            server: 0,
            sent: 0,
            message: 0,
            step: Step::Begin,
            exchanges: 0,
            unacknowledged: 0,
        };
        Self {
            headers: Class::ALL.map(|class| Headers::pair(spec, class)),
            stock: Stock {
                content: Content::new(spec),
                sizes: spec.sizes.clone(),
                requests: spec.requests,
                seed: spec.seed,
            },
            flows: spec.flows,
            generations: (tuples.capacity() / spec.flows).max(1),
            tuples,
            both: spec.both,
            slots: vec![free; spec.flows as usize],
        }
    }

    /// Writes the next frame: its length, and whether it comes from outside.
    pub(super) fn write(
        &mut self,
        picker: &mut Picker,
        random: &mut Random,
        buffer: &mut [u8],
    ) -> Option<(usize, bool)> {
        loop {
            let place = picker.pick(random.next());
            let slot = self.slots.get_mut(place as usize)?;
            // Flow numbers of different places never meet.
            let number = place + (slot.generation % self.generations) * self.flows;
            let class = self.tuples.class(number);
            let [inside, outside] = self.headers.get(class.index())?;
            let packet = slot.step(class, number, inside.bytes.len(), &self.stock, random);
            if packet.outside && !self.both {
                continue;
            }
            let headers = if packet.outside { outside } else { inside };
            let tuple = headers.oriented(self.tuples.tuple(class, number));
            let length = emit(headers, tuple, &packet, &self.stock, buffer)?;
            return Some((length, packet.outside));
        }
    }
}

impl Slot {
    /// The next packet of the flow that lives here.
    fn step(
        &mut self,
        class: Class,
        number: u32,
        headers: usize,
        stock: &Stock,
        random: &mut Random,
    ) -> Packet {
        if self.step == Step::Begin {
            self.begin(class, number, stock, random);
        }
        let data = (stock.sizes.draw(random) as usize)
            .saturating_sub(headers)
            .max(LEAST_DATA);
        match self.step {
            Step::Begin | Step::Syn => {
                let packet = self.control(false, SYN);
                self.step = Step::SynAck;
                packet
            }
            Step::SynAck => {
                self.step = Step::HandshakeAck;
                self.control(true, SYN | ACK)
            }
            Step::HandshakeAck => {
                self.step = Step::Request;
                self.control(false, ACK)
            }
            Step::Request => {
                let (packet, done) = self.segment(false, data, stock);
                if done {
                    self.sent = 0;
                    self.step = Step::Response;
                }
                packet
            }
            Step::Response => self.respond(data, stock),
            Step::DataAck => {
                self.unacknowledged = 0;
                self.step = self.after_data(stock, random);
                self.control(false, ACK)
            }
            Step::Fin(server) => {
                self.step = Step::FinAnswer(server);
                self.control(server, FIN | ACK)
            }
            Step::FinAnswer(server) => {
                self.step = Step::FinAck(server);
                self.control(!server, FIN | ACK)
            }
            Step::FinAck(server) => {
                self.end();
                self.control(server, ACK)
            }
            Step::Reset => {
                self.end();
                self.control(false, RST | ACK)
            }
            Step::Ask => {
                self.ask(random);
                self.sent = data as u32;
                self.step = Step::Answer;
                self.datagram(false, false, data)
            }
            Step::Answer => self.answer(class, data),
        }
    }

    /// The server's segment.
    fn respond(&mut self, data: usize, stock: &Stock) -> Packet {
        let (packet, done) = self.segment(true, data, stock);
        self.unacknowledged += 1;
        // Every second segment is acknowledged (RFC 9293 §3.8.6.3).
        if done || self.unacknowledged == 2 {
            self.step = Step::DataAck;
        }
        packet
    }

    /// The step after the client has acknowledged data.
    fn after_data(&mut self, stock: &Stock, random: &mut Random) -> Step {
        if (self.sent as usize) < stock.content.len(true, self.message) {
            return Step::Response;
        }
        if self.exchanges > 1 {
            self.exchanges -= 1;
            self.ask(random);
            return Step::Request;
        }
        match random.below(10) {
            0 => Step::Reset,
            1 | 2 => Step::Fin(true),
            _ => Step::Fin(false),
        }
    }

    /// The server's datagram.
    fn answer(&mut self, class: Class, data: usize) -> Packet {
        // An echo reply returns what was asked (RFC 792).
        let echo = class.protocol == Protocol::Icmp;
        let data = if echo { self.sent as usize } else { data };
        let packet = self.datagram(true, !echo, data);
        self.client = self.client.wrapping_add(1);
        self.step = Step::Ask;
        self.exchanges = self.exchanges.saturating_sub(1);
        if self.exchanges == 0 {
            self.end();
        }
        packet
    }

    fn begin(&mut self, class: Class, number: u32, stock: &Stock, random: &mut Random) {
        self.exchanges = random.between(stock.requests.low, stock.requests.high) as u8;
        if class.protocol == Protocol::Tcp {
            let flow = u64::from(number) << 32 | u64::from(self.generation);
            let initial = mix(stock.seed, flow);
            self.client = initial as u32;
            self.server = (initial >> 32) as u32;
            self.step = Step::Syn;
            self.ask(random);
        } else {
            self.client = 1;
            self.step = Step::Ask;
        }
    }

    fn ask(&mut self, random: &mut Random) {
        self.message = random.next() as u32;
        self.sent = 0;
    }

    fn end(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.step = Step::Begin;
    }

    /// A TCP packet without data.
    fn control(&mut self, outside: bool, flags: u8) -> Packet {
        let acknowledged = if flags & ACK == 0 { 0 } else { u32::MAX };
        let packet = Packet {
            outside,
            flags,
            sequence: if outside { self.server } else { self.client },
            acknowledgement: acknowledged & if outside { self.client } else { self.server },
            response: outside,
            message: 0,
            from: 0,
            data: 0,
        };
        self.advance(outside, u32::from(flags & (SYN | FIN) != 0));
        packet
    }

    /// The next TCP segment of the current message, and whether it is the last one.
    fn segment(&mut self, outside: bool, data: usize, stock: &Stock) -> (Packet, bool) {
        let whole = stock.content.len(outside, self.message);
        let left = whole.saturating_sub(self.sent as usize);
        let data = data.min(left);
        let done = data == left;
        let packet = Packet {
            from: self.sent,
            message: self.message,
            data,
            ..self.control(outside, if done { ACK | PSH } else { ACK })
        };
        self.sent += data as u32;
        self.advance(outside, data as u32);
        (packet, done)
    }

    fn datagram(&mut self, outside: bool, response: bool, data: usize) -> Packet {
        Packet {
            outside,
            flags: 0,
            sequence: self.client,
            acknowledgement: 0,
            response,
            message: self.message,
            from: 0,
            data,
        }
    }

    fn advance(&mut self, outside: bool, count: u32) {
        let sequence = if outside {
            &mut self.server
        } else {
            &mut self.client
        };
        *sequence = sequence.wrapping_add(count);
    }
}

/// Writes one packet; its length, or `None` if it doesn't fit `buffer`.
fn emit(
    headers: &Headers,
    tuple: Tuple,
    packet: &Packet,
    stock: &Stock,
    buffer: &mut [u8],
) -> Option<usize> {
    let protocol = headers.class.protocol;
    let options = if packet.flags & SYN == 0 {
        0
    } else {
        SYN_OPTIONS.len()
    };
    let data_at = headers.bytes.len() + options;
    let end = data_at + packet.data;
    let length = end.max(MIN_FRAME);
    let frame = buffer.get_mut(..length)?;
    frame
        .get_mut(..headers.bytes.len())?
        .copy_from_slice(&headers.bytes);
    let data = frame.get_mut(data_at..end)?;
    stock
        .content
        .copy(packet.response, packet.message, packet.from as usize, data);
    frame.get_mut(end..)?.fill(0); // Ethernet padding
    headers.put_addresses(frame, tuple);
    headers.put_ports(frame, tuple);

    let (ip, l4) = (headers.ip, headers.l4);
    let l4_length = (end - l4) as u16;
    match headers.class.family {
        Family::V4 => {
            put(frame, ip + 2, ((end - ip) as u16).to_be_bytes());
            let ip_sum = sum(frame.get(ip..l4)?);
            put(frame, ip + 10, checksum(ip_sum).to_be_bytes());
        }
        Family::V6 => put(frame, ip + 4, l4_length.to_be_bytes()),
    }
    match protocol {
        Protocol::Tcp => {
            put(frame, l4 + 4, packet.sequence.to_be_bytes());
            put(frame, l4 + 8, packet.acknowledgement.to_be_bytes());
            put(frame, l4 + 12, [(5 + options as u8 / 4) << 4, packet.flags]);
            if options > 0 {
                put(frame, l4 + 20, SYN_OPTIONS);
                let largest = stock.sizes.longest() as usize;
                let largest = largest.saturating_sub(headers.bytes.len()).max(LEAST_DATA);
                put(frame, l4 + 22, (largest as u16).to_be_bytes());
            }
        }
        Protocol::Udp => put(frame, l4 + 4, l4_length.to_be_bytes()),
        Protocol::Icmp => put(frame, l4 + 6, (packet.sequence as u16).to_be_bytes()),
    }
    let mut covered = sum(frame.get(l4..end)?) + headers.pseudo_sum();
    if headers.has_pseudo_header() {
        covered += sum32(tuple.src) + sum32(tuple.dst) + u32::from(l4_length);
    }
    let checksum = checksum_of(protocol, covered);
    put(frame, headers.checksum_at(), checksum.to_be_bytes());
    Some(length)
}
