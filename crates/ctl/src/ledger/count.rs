//! From what switches let out, and what functions take, to a ledger.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_packet::{PATH_BITS, Time};
use weir_protocol::switch::{Meter, Volume};

use super::{BYTES, DROPPED, Ledger, PACKETS, SAMPLED, SAMPLED_NS};

/// Nanoseconds between two looks at the clock of the world.
const LOOK: u64 = 1_000_000_000;
/// Seconds of an hour.
const HOUR: u64 = 3_600;

/// The hour of now, since 1970.
pub fn hour() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() / HOUR)
}

/// A chain's rows, and what of its totals is in the ledger.
#[derive(Debug)]
struct Chain {
    /// Row of the chain.
    row: usize,
    /// Rows of its functions, by their numbers.
    functions: Vec<usize>,
    done: Meter,
}

/// Adds to a ledger what switches have let out. It makes no system call, and takes no memory.
#[derive(Debug)]
pub struct Bookkeeper {
    ledger: Ledger,
    /// By chain; `None` for one without rows.
    chains: Vec<Option<Chain>>,
    hour: u64,
    /// When the hour is looked at again, by the caller's clock.
    look: Time,
}

impl Bookkeeper {
    /// For switches of these chains, each with its functions in order. Each switch has let nothing out.
    pub fn new<'a>(
        ledger: Ledger,
        chains: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>,
    ) -> Bookkeeper {
        let names = ledger.names();
        let chains = chains.into_iter().map(|(name, functions)| {
            let row = names.row(name, "")?;
            let functions = functions.iter().take(PATH_BITS);
            let functions = functions.map(|function| names.row(name, function));
            Some(Chain {
                row,
                functions: functions.collect::<Option<_>>()?,
                done: Meter::default(),
            })
        });
        Bookkeeper {
            chains: chains.collect(),
            ledger,
            hour: 0,
            look: Time::ZERO,
        }
    }

    /// Looks at the clock of the world where that is due; before [`Bookkeeper::add`].
    #[inline]
    pub fn at(&mut self, now: Time) {
        if now >= self.look || self.hour == 0 {
            self.begin(now);
        }
    }

    #[cold]
    fn begin(&mut self, now: Time) {
        self.look = Time(now.0.saturating_add(LOOK));
        let hour = hour().max(1);
        if hour != self.hour {
            self.ledger.begin_hour(hour);
            self.hour = hour;
        }
    }

    /// Adds what a chain's switch has let out since the last call.
    pub fn add(&mut self, chain: usize, meter: &Meter) {
        let Some(Some(chain)) = self.chains.get_mut(chain) else {
            return;
        };
        let (ledger, hour, done) = (&self.ledger, self.hour, &mut chain.done);
        // A packet that functions were given ends in one of these: nothing else is new, or it waits.
        if (meter.out, meter.dropped) == (done.out, done.dropped) {
            return;
        }
        let grown = |now: Volume, done: Volume| Volume {
            packets: now.packets.wrapping_sub(done.packets),
            bytes: now.bytes.wrapping_sub(done.bytes),
        };
        let out = grown(meter.out, done.out);
        ledger.add(hour, chain.row, PACKETS, out.packets);
        ledger.add(hour, chain.row, BYTES, out.bytes);
        let dropped = grown(meter.dropped, done.dropped);
        ledger.add(hour, chain.row, DROPPED, dropped.packets);
        let functions = meter.functions.iter().zip(&done.functions);
        for (row, (now, done)) in chain.functions.iter().zip(functions) {
            let given = grown(*now, *done);
            ledger.add(hour, *row, PACKETS, given.packets);
            ledger.add(hour, *row, BYTES, given.bytes);
        }
        *done = meter.clone();
    }
}

/// Adds samples of what packets cost to a ledger.
#[derive(Clone, Debug)]
pub struct Samples(Ledger);

impl Samples {
    /// For this ledger.
    pub fn new(ledger: Ledger) -> Samples {
        Samples(ledger)
    }

    /// The row of a chain, or of its function.
    pub fn row(&self, chain: &str, function: &str) -> Option<usize> {
        self.0.names().row(chain, function)
    }

    /// So many packets of a row took so long. Before anything was let out in an hour nothing is added.
    pub fn add(&self, hour: u64, row: usize, packets: u64, ns: u64) {
        if self.0.has_begun(hour) {
            self.0.add(hour, row, SAMPLED_NS, ns);
            self.0.add(hour, row, SAMPLED, packets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::{BilledChain, Names};
    use super::*;

    fn ledger() -> Ledger {
        let chain = BilledChain {
            name: "edge",
            tenant: "acme",
            functions: vec!["a", "b"],
        };
        Ledger::create(Names::of_chains("one", [chain]), [1, 2]).unwrap()
    }

    fn meter(packets: u64) -> Meter {
        let volume = |packets| Volume {
            packets,
            bytes: packets * 100,
        };
        let mut meter = Meter::default();
        meter.out = volume(packets);
        meter.dropped = volume(packets / 10);
        meter.functions[0] = volume(packets + packets / 10);
        meter.functions[1] = volume(packets);
        meter
    }

    #[test]
    fn what_was_let_out_is_added_once() {
        let ledger = ledger();
        let chains = || [("edge", vec!["a", "b"]), ("unknown", vec![])];
        let mut books = Bookkeeper::new(ledger.clone(), chains());
        books.at(Time(5));
        for packets in [10, 10, 30] {
            books.add(0, &meter(packets));
            books.add(1, &meter(packets));
        }
        // The next switch begins with nothing.
        let mut books = Bookkeeper::new(ledger.clone(), chains());
        books.at(Time(5));
        books.add(0, &meter(20));
        let records = ledger.records();
        let hours: Vec<u64> = records.iter().map(|it| it.hour).collect();
        let sum = |row: usize| {
            let of = records.iter().filter(|it| it.row == row);
            of.fold((0, 0, 0), |sum, it| {
                let usage = it.usage;
                (
                    sum.0 + usage.packets,
                    sum.1 + usage.bytes,
                    sum.2 + usage.dropped,
                )
            })
        };
        // An hour may have begun between the two.
        assert!(hours.len() >= 3 && hours.is_sorted(), "{hours:?}");
        assert_eq!(sum(0), (50, 5_000, 5));
        assert_eq!(sum(1), (55, 5_500, 0));
        assert_eq!(sum(2), (50, 5_000, 0));
    }

    #[test]
    fn samples_wait_for_their_hour() {
        let ledger = ledger();
        let samples = Samples::new(ledger.clone());
        let row = samples.row("edge", "b").unwrap();
        samples.add(7, row, 10, 1_000);
        assert_eq!(ledger.records(), []);
        ledger.begin_hour(7);
        samples.add(7, row, 10, 1_000);
        assert_eq!(samples.row("edge", "c"), None);
        let records = ledger.records();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].usage.sampled, 10);
        assert_eq!(records[0].usage.sampled_ns, 1_000);
    }
}
