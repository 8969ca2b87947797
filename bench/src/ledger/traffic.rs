//! Sender and receiver of numbered packets, each a thread at a host's interface.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weir_io::port::OutputPort;
use weir_packet::FrameMeta;

use super::book::{Book, Verdict};
use super::packet::Numbered;
use crate::wire::open_port;

/// Time between two bursts of the sender.
const TURN: Duration = Duration::from_micros(200);
/// Most packets that are sent or received at once.
const BURST: usize = 64;

/// State shared by sender, receiver and the thread that injects faults.
#[derive(Debug)]
pub(super) struct Shared {
    start: Instant,
    /// The sender is to stop, or the receiver.
    stop: [AtomicBool; 2],
    sent: AtomicU64,
    came: AtomicU64,
    /// Longest delay since it was last taken, in nanoseconds.
    longest: AtomicU64,
    /// Longest time without a packet since it was last taken, in nanoseconds.
    silence: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Arc<Shared> {
        Arc::new(Shared {
            start: Instant::now(),
            stop: Default::default(),
            sent: AtomicU64::new(0),
            came: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            silence: AtomicU64::new(0),
        })
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn stop_sending(&self) {
        self.stop[0].store(true, Ordering::Relaxed);
    }

    pub(super) fn stop_receiving(&self) {
        self.stop[1].store(true, Ordering::Relaxed);
    }

    /// Packets sent, and packets that came.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let came = self.came.load(Ordering::Relaxed);
        (self.sent.load(Ordering::Relaxed), came)
    }

    /// The longest delay of a packet that came since this was called last, in ms.
    pub(super) fn take_longest(&self) -> f64 {
        self.longest.swap(0, Ordering::Relaxed) as f64 / 1e6
    }

    /// The longest time in which no packet came since this was called last, in ms.
    pub(super) fn take_silence(&self) -> f64 {
        self.silence.swap(0, Ordering::Relaxed) as f64 / 1e6
    }
}

/// Sends packets of `flows` flows in turn, `rate` per second, until it is told to stop: how many
/// of each flow's numbers are used up. Those that the interface did not take are the error.
pub(super) fn send(shared: &Shared, flows: u32, rate: u64) -> Result<u64, String> {
    let (mut port, mut pool) = open_port()?;
    let mut frames = Vec::with_capacity(BURST);
    let mut next = 0u64;
    let began = Instant::now();
    while !shared.stop[0].load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        while next < due {
            for _ in 0..(due - next).min(BURST as u64) {
                let numbered = Numbered {
                    flow: (next % u64::from(flows)) as u32,
                    number: (next / u64::from(flows)) as u32,
                    sent: shared.now(),
                };
                let copy = pool.copy(&numbered.write(), FrameMeta::default());
                frames.push(copy.map_err(|_| "the sender has no frame")?);
                next += 1;
            }
            port.send(&mut pool, &mut frames)
                .map_err(|error| error.to_string())?;
            shared.sent.store(next, Ordering::Relaxed);
        }
        std::thread::sleep(TURN);
    }
    match OutputPort::counters(&*port).dropped() {
        0 => Ok(next),
        lost => Err(format!(
            "the sender's interface did not take {lost} packets"
        )),
    }
}

/// Enters what comes into the book, until it is told to stop. What its own interface lost is the
/// error: then the book says nothing.
pub(super) fn receive(shared: &Shared, flows: u32) -> Result<Verdict, String> {
    let (mut port, mut pool) = open_port()?;
    let mut book = Book::new(flows);
    let mut frames = Vec::with_capacity(BURST);
    let mut last = shared.now();
    while !shared.stop[1].load(Ordering::Relaxed) {
        port.receive(&mut pool, &mut frames, BURST)
            .map_err(|error| error.to_string())?;
        if frames.is_empty() {
            std::thread::sleep(TURN / 4);
            continue;
        }
        let now = shared.now();
        shared.silence.fetch_max(now - last, Ordering::Relaxed);
        last = now;
        for frame in frames.drain(..) {
            if let Some((numbered, mapping)) = Numbered::read(pool.memory().bytes(&frame)) {
                book.enter(numbered, mapping);
                let delay = now.saturating_sub(numbered.sent);
                shared.longest.fetch_max(delay, Ordering::Relaxed);
            }
            pool.give(frame);
        }
        shared.came.store(book.verdict().came, Ordering::Relaxed);
    }
    let counters = weir_io::port::InputPort::counters(&*port);
    match counters.dropped() {
        0 => Ok(book.verdict()),
        lost => Err(format!(
            "the receiver's own interface lost {lost} packets: send slower"
        )),
    }
}
