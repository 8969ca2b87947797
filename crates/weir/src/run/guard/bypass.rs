//! Packets along the wires of a bump, as they are.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use weir_io::live::{LiveClock, LiveOptions, LiveSpec};
use weir_io::port::PortError;
use weir_packet::{FramePool, MemoryLayout, PacketMemory, Side};

use crate::driver::BATCH;
use crate::driver::live::{Bump, Departures, Layer as _, LivePorts, Way};
use crate::exit::Failure;
use crate::say::say;

use super::super::wires::Sorted;

/// Batches that are passed before other things are looked at.
const ROUNDS: usize = 64;
/// How often the interfaces are looked after.
pub(super) const LOOK: Duration = Duration::from_millis(100);

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
    /// When the interfaces were looked after.
    looked: Instant,
    /// The last error, so that it is reported once.
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
            looked: Instant::now(),
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
            say(format_args!("warning: packets can't pass: {wrong}"));
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
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            result = ports.check();
        }
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
            self.say(failure.why().to_owned());
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::process::Command;

    use super::*;

    fn ip(words: &str) -> bool {
        let done = Command::new("ip").args(words.split(' ')).status();
        done.is_ok_and(|status| status.success())
    }

    /// In a network namespace of its own.
    fn looks_after_its_ports() {
        for words in [
            "link add left type veth peer name right",
            "link set left up",
            "link set right up",
        ] {
            assert!(ip(words), "{words}");
        }
        let spec = |name: &str| LiveSpec::Packet {
            interface: name.to_owned(),
        };
        let mut bypass = Bypass {
            departures: Departures::new(2),
            specs: vec![(spec("left"), Side::Inside), (spec("right"), Side::Outside)],
            pool: FramePool::with_layout(MemoryLayout::default()),
            bump: Bump::new(vec![[0, 1]]),
            ports: None,
            passed: (0, 0),
            looked: Instant::now(),
            said: None,
        };
        let modes = |bypass: &Bypass| -> Vec<String> {
            let ports = bypass.ports.iter().flat_map(LivePorts::live);
            ports.map(|port| port.mode().to_owned()).collect()
        };
        bypass.open();
        assert!(modes(&bypass).iter().all(|mode| mode.ends_with("MTU 1500")));
        for name in ["left", "right"] {
            assert!(ip(&format!("link set {name} mtu 4000")));
        }
        std::thread::sleep(LOOK);
        bypass.pass();
        assert_eq!(modes(&bypass).len(), 2);
        assert!(modes(&bypass).iter().all(|mode| mode.ends_with("MTU 4000")));
        // One that is gone closes it, so that it is opened again when it is back.
        assert!(ip("link del left"));
        std::thread::sleep(LOOK);
        bypass.pass();
        assert!(bypass.ports.is_none());
    }

    #[test]
    fn the_ports_are_looked_after() {
        let name = format!("weir-bypass-{}", std::process::id());
        if !ip(&format!("netns add {name}")) {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                b"SKIPPED: the bypass needs root, for a network namespace\n",
            );
            return;
        }
        let file = std::fs::File::open(format!("/run/netns/{name}")).unwrap();
        let done = std::thread::spawn(move || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
            looks_after_its_ports();
        });
        let done = done.join();
        assert!(ip(&format!("netns del {name}")));
        done.unwrap();
    }
}
