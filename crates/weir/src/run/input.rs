//! The inputs of a run: captures and the generator, until they end or a signal
//! ends the program.

use std::fmt::Write as _;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weir_io::live::{EndSignals, Waiter};
use weir_io::port::{InputPort, MergedInput, PortCounters, PortError, Received};
use weir_packet::{Frame, FramePool};

use crate::exit::Failure;

use super::ports::Ports;
use super::signals::ONE_SIGNAL;
use super::summary::More;
use crate::mark::Mark;
use crate::output::thousands;

/// Time after which a run that has not noticed is ended all the same: it waits
/// for a pipe that nobody writes to or reads from.
const PATIENCE: Duration = Duration::from_secs(2);

/// The inputs of a run.
pub(super) struct Input {
    merged: MergedInput,
    told: Arc<Told>,
    /// Why an input could not go on: told when what was read has come.
    failed: Option<PortError>,
    taken: Option<Taken>,
}

/// Packets that were taken in, for the next switch of a cluster.
struct Taken {
    mark: Mark,
    count: u64,
    /// Those that the switch before had, which are passed over.
    before: u64,
    /// Of each port, those passed over, and their bytes.
    passed: Vec<(u64, u64)>,
}

/// Packets that are passed over with one call.
const PASSED: usize = 256;

/// Between the thread that waits for signals and the one that takes packets in.
#[derive(Default)]
struct Told {
    to_end: AtomicBool,
    noticed: AtomicBool,
}

impl Input {
    /// Opens the inputs. From here on a signal ends them, so it is to be called
    /// before other threads are started, which would be killed by it; a second
    /// one kills the program.
    pub(super) fn open(ports: &Ports) -> Result<Input, Failure> {
        // Opening may wait, for the writer of a pipe: signals still kill then.
        let merged = MergedInput::new(ports.open_inputs()?);
        let refused =
            |error: std::io::Error| Failure::outside(format!("can't wait for signals: {error}"));
        let signals = EndSignals::open().map_err(refused)?;
        let told = Arc::new(Told::default());
        let teller = Arc::clone(&told);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || teller.wait(&signals))
            .map_err(refused)?;
        Ok(Input {
            merged,
            told,
            failed: None,
            taken: None,
        })
    }

    /// Passes over what the mark says, and tells it what is taken in.
    pub(super) fn go_on_behind(&mut self, mark: Mark) {
        self.taken = Some(Taken {
            passed: vec![(0, 0); self.merged.ports().count()],
            count: 0,
            before: mark.read(),
            mark,
        });
    }

    /// As [`MergedInput::receive`]; ended where a signal came, or an input can't go
    /// on. Packets read before that still come.
    pub(super) fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        self.look();
        let passes = (self.taken.as_ref()).is_some_and(|taken| taken.count < taken.before);
        if passes {
            return Ok(self.pass_over(pool));
        }
        let before = into.len();
        let received = self.merged.receive(pool, into, max);
        if let Some(taken) = &mut self.taken {
            taken.count += (into.len() - before) as u64;
            taken.mark.write(taken.count);
        }
        match received {
            Err(error) => {
                self.merged.end();
                self.failed.get_or_insert(error);
                Ok(Received::More)
            }
            Ok(Received::End) => self.failed.take().map_or(Ok(Received::End), Err),
            Ok(Received::More) => Ok(Received::More),
        }
    }

    /// Packets that came to the switches before.
    pub(super) fn passed_over(&self) -> u64 {
        let taken = self.taken.as_ref();
        taken.map_or(0, |taken| taken.before.min(taken.count))
    }

    /// Passes over some of the packets that the switch before had.
    fn pass_over(&mut self, pool: &mut FramePool) -> Received {
        let Some(taken) = &mut self.taken else {
            return Received::More;
        };
        let most = usize::try_from(taken.before - taken.count).unwrap_or(PASSED);
        let mut passed = Vec::new();
        let received = self.merged.receive(pool, &mut passed, most.min(PASSED));
        taken.count += passed.len() as u64;
        for frame in &passed {
            let meta = pool.memory().meta(frame);
            if let Some((packets, bytes)) = taken.passed.get_mut(usize::from(meta.port)) {
                *packets += 1;
                *bytes += u64::from(meta.wire_len);
            }
        }
        pool.give_all(&mut passed);
        received.unwrap_or_else(|error| {
            self.merged.end();
            self.failed.get_or_insert(error);
            Received::More
        })
    }

    /// Reads no more: what was read still comes.
    pub(super) fn end(&mut self) {
        self.merged.end();
    }

    /// As [`MergedInput::is_over`].
    pub(super) fn is_over(&self) -> bool {
        self.merged.is_over()
    }

    /// Ends the inputs where a signal came. To be called from time to time when
    /// there is no room for packets.
    pub(super) fn look(&mut self) {
        if self.told.to_end.load(Ordering::Relaxed)
            && !self.told.noticed.swap(true, Ordering::Relaxed)
        {
            self.merged.end();
        }
    }

    /// The counters of the ports: without what was passed over.
    pub(super) fn counters(&self) -> Vec<PortCounters> {
        let mut all: Vec<PortCounters> = self.merged.ports().map(InputPort::counters).collect();
        let passed = self.taken.iter().flat_map(|taken| &taken.passed);
        for (counters, (packets, bytes)) in all.iter_mut().zip(passed) {
            counters.packets = counters.packets.saturating_sub(*packets);
            counters.bytes = counters.bytes.saturating_sub(*bytes);
        }
        all
    }

    /// The ports, in their order.
    pub(super) fn ports(&self) -> impl Iterator<Item = &dyn InputPort> {
        self.merged.ports()
    }
}

/// The part of a summary about packets that came to the switches before this one.
pub(super) struct PassedOver(pub(super) u64);

impl More for PassedOver {
    fn add_json(&self, value: &mut Value) {
        value["packets_before"] = json!(self.0);
    }

    fn add_text(&self, text: &mut String) {
        // Writing to a `String` can't fail.
        let _ = writeln!(
            text,
            "\n{} packets came to the switches before this one",
            thousands(self.0)
        );
    }
}

impl Told {
    /// Waits for a signal and tells of it. The thread ends with the program.
    fn wait(&self, signals: &EndSignals) -> ! {
        let mut waiter = Waiter::default();
        while !signals.came() {
            // The wait fails only if the kernel has no memory left.
            if waiter.sleep(&[signals.as_fd()], PATIENCE).is_err() {
                std::thread::sleep(ONE_SIGNAL);
            }
        }
        self.to_end.store(true, Ordering::Relaxed);
        std::thread::sleep(ONE_SIGNAL);
        signals.came();
        signals.release();
        std::thread::sleep(PATIENCE);
        if !self.noticed.load(Ordering::Relaxed) {
            signals.kill();
        }
        // All other threads hold the signals back: a second one kills the program through
        // this thread, however long the run takes to end.
        loop {
            std::thread::park();
        }
    }
}
