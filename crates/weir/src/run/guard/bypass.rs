//! Packets along the wires of a bump, as they are.

use std::os::fd::BorrowedFd;

use weir_io::live::{LiveClock, LiveOptions, LiveSpec};
use weir_io::port::PortError;
use weir_packet::{FramePool, MemoryLayout, PacketMemory, Side};

use crate::driver::live::{BATCH, Bump, Departures, Layer as _, LivePorts, Way};
use crate::exit::Failure;

use super::super::wires::Sorted;

/// Batches that are passed before other things are looked at.
const ROUNDS: usize = 64;

/// The interfaces of a bump without a chain between them. By packet sockets,
/// whatever the chain has them by: those are opened fastest, and packets of an
/// interface whose XDP program went with its process come to them.
pub(super) struct Bypass {
    specs: Vec<(LiveSpec, Side)>,
    pool: FramePool,
    bump: Bump,
    ports: Option<LivePorts>,
    departures: Departures,
    /// Packets and bytes that passed.
    passed: (u64, u64),
    /// What was wrong last, so that it is said once.
    said: Option<String>,
}

impl Bypass {
    pub(super) fn new(sorted: &Sorted, wires: Vec<[usize; 2]>) -> Result<Bypass, Failure> {
        let plain = |spec: &LiveSpec| match spec {
            LiveSpec::Tap { .. } => spec.clone(),
            spec => LiveSpec::Packet {
                interface: spec.interface().to_owned(),
            },
        };
        let specs: Vec<(LiveSpec, Side)> = sorted
            .live
            .iter()
            .filter_map(|port| Some((plain(port.spec.live()?), port.side)))
            .collect();
        let memory = PacketMemory::new(MemoryLayout::default(), weir_io::advise_large_pages);
        let pool = FramePool::new(memory)
            .ok_or_else(|| Failure::outside("packet memory was taken twice"))?;
        Ok(Bypass {
            departures: Departures::new(specs.len()),
            specs,
            pool,
            bump: Bump::new(wires),
            ports: None,
            passed: (0, 0),
            said: None,
        })
    }

    /// Opens the interfaces, if it can now.
    pub(super) fn open(&mut self) {
        if self.ports.is_some() {
            return;
        }
        match self.opened() {
            Ok(ports) => self.ports = Some(ports),
            Err(error) => self.say(error.to_string()),
        }
    }

    fn opened(&mut self) -> Result<LivePorts, PortError> {
        let clock = LiveClock::start();
        let mut open = Vec::new();
        for (number, (spec, side)) in self.specs.iter().enumerate() {
            let options = LiveOptions {
                number: number as u8,
                side: *side,
                clock,
                busy_poll: false,
            };
            open.push(Way::Both(spec.open(options, &mut self.pool)?));
        }
        Ok(LivePorts::new(open, clock, true))
    }

    /// Says what keeps packets from passing, once.
    fn say(&mut self, wrong: String) {
        if self.said.as_ref() != Some(&wrong) {
            eprintln!("warning: packets can't pass: {wrong}");
            self.said = Some(wrong);
        }
    }

    /// Passes what has come.
    pub(super) fn pass(&mut self) {
        let Some(ports) = &mut self.ports else {
            return;
        };
        let mut frames = Vec::with_capacity(BATCH);
        let mut result = Ok(());
        for _ in 0..ROUNDS {
            let mut found = false;
            for number in 0..ports.count() {
                let received = ports.receive(number, &mut self.pool, &mut frames, BATCH);
                result = result.and(received);
                found |= !frames.is_empty();
                self.bump
                    .leaving(&mut self.pool, &mut frames, &mut self.departures);
                result = result.and(ports.send(&mut self.pool, &mut self.departures));
            }
            if !found || result.is_err() {
                break;
            }
        }
        if let Err(failure) = result {
            // It is opened again when it is there again.
            self.close();
            self.say(failure.message);
        }
    }

    /// Descriptors to wait for packets on, to the end of `into`.
    pub(super) fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        if let Some(ports) = &self.ports {
            ports.descriptors(into);
        }
    }

    /// Leaves the interfaces to the engine.
    pub(super) fn close(&mut self) {
        let Some(mut ports) = self.ports.take() else {
            return;
        };
        // Interfaces have nothing to flush.
        let _ = ports.close(&mut self.pool);
        for sent in ports.went_out() {
            self.passed.0 += sent.packets;
            self.passed.1 += sent.bytes;
        }
        self.said = None;
    }

    /// Packets and bytes that passed, up to when it was closed last.
    pub(super) fn passed(&self) -> (u64, u64) {
        self.passed
    }
}
