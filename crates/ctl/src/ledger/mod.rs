//! What tenants have used: totals by hour, chain and function (docs/billing.md).
//!
//! A ledger lies in memory that several processes map, or in a file: what was counted stays when the
//! process that counts is killed, and the next one goes on with it. Numbers are added as they come,
//! without a system call.
//!
//! ```text
//! head: magic, version, id, octets of names, rows, hours, 0
//! names: the composition, and a line per row: tenant, chain, function
//! slots, one per hour, in a ring: the hour (since 1970), then the numbers of each row
//! ```
//!
//! - [`names`]: the rows of a ledger.
//! - [`folder`]: ledgers in files.
//! - [`count`]: from what a switch lets out to a ledger.

pub mod count;
pub mod folder;
pub mod names;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::shared::{Longs, SharedMapping};
use weir_telemetry::usage::{Usage, UsageSum};

use names::Names;

/// First number of a ledger: `weirbill`.
const MAGIC: u64 = u64::from_le_bytes(*b"weirbill");
/// Version of the layout.
const VERSION: u64 = 1;
/// Numbers of the head.
const HEAD: usize = 8;
/// Octets of a number.
const LONG: usize = 8;
/// Numbers of a row: the fields of [`Usage`], in their order.
const NUMBERS: usize = 5;
const PACKETS: usize = 0;
const BYTES: usize = 1;
const DROPPED: usize = 2;
const SAMPLED_NS: usize = 3;
const SAMPLED: usize = 4;
/// Hours that a ledger has: 92 days. Then the oldest one makes room.
pub const HOURS: u64 = 92 * 24;
/// Longest names, in octets: 255 chains with 25 rows each are far below.
const MOST_NAMES: usize = 4 << 20;

/// A ledger. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Ledger {
    file: SharedMapping,
    longs: Arc<Longs>,
    names: Arc<Names>,
    id: [u64; 2],
    /// The first slot's place.
    slots: usize,
    /// Slots.
    hours: u64,
}

/// The usage of a row in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Hours since 1970.
    pub hour: u64,
    /// Number of the row.
    pub row: usize,
    /// The usage.
    pub usage: Usage,
}

impl Ledger {
    /// A ledger in memory that goes with the last process that has it. `id` is one that no other
    /// ledger has.
    ///
    /// # Errors
    ///
    /// There is no memory for it.
    pub fn create(names: Names, id: [u64; 2]) -> io::Result<Ledger> {
        let file = SharedMapping::create("weir-ledger", Self::octets(&names))?;
        Self::begin(file, names, id)
    }

    /// One that another process has made, and passed on.
    ///
    /// # Errors
    ///
    /// It is none, or of another version.
    pub fn attach(file: OwnedFd) -> io::Result<Ledger> {
        Self::over(SharedMapping::of_file(file)?)
    }

    /// Octets of a ledger with these rows.
    fn octets(names: &Names) -> usize {
        let slot = 1 + names.rows().len() * NUMBERS;
        let all = HEAD + names.text().len().div_ceil(LONG) + HOURS as usize * slot;
        all * LONG
    }

    /// Writes the head of one that is empty. The magic comes last: a ledger that was not begun to the
    /// end is none.
    fn begin(file: SharedMapping, names: Names, id: [u64; 2]) -> io::Result<Ledger> {
        let longs = file.longs(0, file.len() / LONG)?;
        let text = names.text();
        let head = [
            VERSION,
            id[0],
            id[1],
            text.len() as u64,
            names.rows().len() as u64,
            HOURS,
        ];
        for (place, number) in longs.iter().skip(1).zip(head) {
            place.store(number, Ordering::Relaxed);
        }
        for (place, octets) in longs.iter().skip(HEAD).zip(text.as_bytes().chunks(LONG)) {
            let mut whole = [0; LONG];
            for (to, from) in whole.iter_mut().zip(octets) {
                *to = *from;
            }
            place.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        if let Some(magic) = longs.first() {
            magic.store(MAGIC, Ordering::Release);
        }
        Self::over(file)
    }

    fn over(file: SharedMapping) -> io::Result<Ledger> {
        let none = |why: &str| io::Error::other(format!("it is no ledger: {why}"));
        let longs = file.longs(0, file.len() / LONG)?;
        let at = |place: usize| longs.get(place).map_or(0, |it| it.load(Ordering::Acquire));
        if at(0) != MAGIC {
            return Err(none("it does not begin as one"));
        }
        if at(1) != VERSION {
            return Err(none(&format!(
                "version {} is not {VERSION}, which this weir knows",
                at(1)
            )));
        }
        let length = usize::try_from(at(4)).unwrap_or(usize::MAX);
        if length > MOST_NAMES {
            return Err(none("its names are too long"));
        }
        let names = length.div_ceil(LONG);
        let octets = (HEAD..HEAD + names).flat_map(|place| at(place).to_le_bytes());
        let text = String::from_utf8(octets.take(length).collect());
        let names = text.ok().and_then(|text| Names::of_text(&text));
        let names = names.ok_or_else(|| none("its names can't be read"))?;
        if at(5) != names.rows().len() as u64 {
            return Err(none("it has other rows than names"));
        }
        let slots = HEAD + length.div_ceil(LONG);
        let slot = 1 + names.rows().len() * NUMBERS;
        let hours = at(6);
        let needed = usize::try_from(hours)
            .ok()
            .and_then(|hours| hours.checked_mul(slot)?.checked_add(slots));
        if hours == 0 || needed.is_none_or(|needed| needed > longs.len()) {
            return Err(none("it is cut"));
        }
        Ok(Ledger {
            id: [at(2), at(3)],
            names: Arc::new(names),
            longs: Arc::new(longs),
            file,
            slots,
            hours,
        })
    }

    /// To be passed to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Its rows.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Names it among all ledgers: 16 octets.
    pub fn id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        let octets = self.id.iter().flat_map(|half| half.to_be_bytes());
        for (to, from) in id.iter_mut().zip(octets) {
            *to = from;
        }
        id
    }

    /// Place of the slot for an hour.
    fn slot(&self, hour: u64) -> usize {
        let slot = 1 + self.names.rows().len() * NUMBERS;
        self.slots + (hour % self.hours) as usize * slot
    }

    fn long(&self, place: usize) -> Option<&AtomicU64> {
        self.longs.get(place)
    }

    /// Begins an hour: numbers of the one that the slot had before go. One process does that at a time.
    fn begin_hour(&self, hour: u64) {
        let at = self.slot(hour);
        let Some(start) = self.long(at) else { return };
        // A clock that was set back goes on with what is there.
        if start.load(Ordering::Acquire) >= hour {
            return;
        }
        start.store(0, Ordering::Release);
        let numbers = self.names.rows().len() * NUMBERS;
        for number in self.longs.iter().skip(at + 1).take(numbers) {
            number.store(0, Ordering::Relaxed);
        }
        start.store(hour, Ordering::Release);
    }

    /// True once an hour was begun.
    fn has_begun(&self, hour: u64) -> bool {
        let start = self.long(self.slot(hour));
        start.is_some_and(|start| start.load(Ordering::Acquire) == hour)
    }

    /// Adds to a number of a row.
    #[inline]
    fn add(&self, hour: u64, row: usize, number: usize, count: u64) {
        if count > 0
            && let Some(place) = self.long(self.slot(hour) + 1 + row * NUMBERS + number)
        {
            place.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// All that is counted, by hour and row. A row without any use in an hour is left out.
    pub fn records(&self) -> Vec<Record> {
        let rows = self.names.rows().len();
        let mut all = Vec::new();
        for slot in 0..self.hours {
            let at = self.slot(slot);
            let hour = self.long(at).map_or(0, |it| it.load(Ordering::Acquire));
            if hour == 0 {
                continue;
            }
            for row in 0..rows {
                let from = at + 1 + row * NUMBERS;
                let number = |n: usize| {
                    let place = self.long(from + n);
                    place.map_or(0, |it| it.load(Ordering::Relaxed))
                };
                let usage = Usage::of_numbers(std::array::from_fn(number));
                if !usage.is_none() {
                    all.push(Record { hour, row, usage });
                }
            }
        }
        all.sort_by_key(|record| (record.hour, record.row));
        all
    }
}

impl Ledger {
    /// Adds all entries, or those of a tenant, to `sum`.
    pub fn add_to(&self, sum: &mut UsageSum, tenant: Option<&str>) {
        for record in self.records() {
            let row = self.names.rows().get(record.row);
            if let Some(row) = row.filter(|row| tenant.is_none_or(|it| it == row.tenant)) {
                sum.add(self.id(), row.clone(), record.hour, &record.usage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_telemetry::usage::UsageRow;

    use super::*;

    fn names() -> Names {
        let row = |function: &str| UsageRow {
            tenant: "acme".to_owned(),
            chain: "edge".to_owned(),
            function: function.to_owned(),
        };
        Names::new("one", vec![row(""), row("nat")])
    }

    #[test]
    fn another_process_goes_on_with_what_was_counted() {
        let ledger = Ledger::create(names(), [7, 9]).unwrap();
        ledger.begin_hour(500_000);
        ledger.add(500_000, 1, PACKETS, 3);
        let file = ledger.file().try_clone_to_owned().unwrap();
        let other = Ledger::attach(file).unwrap();
        drop(ledger);
        assert_eq!(other.names(), &names());
        assert_eq!(other.id()[7..9], [7, 0]);
        other.begin_hour(500_000);
        other.add(500_000, 1, PACKETS, 4);
        other.add(500_000, 1, BYTES, 60);
        let usage = Usage {
            packets: 7,
            bytes: 60,
            ..Usage::default()
        };
        let record = Record {
            hour: 500_000,
            row: 1,
            usage,
        };
        assert_eq!(other.records(), [record]);
    }

    #[test]
    fn the_oldest_hour_makes_room() {
        let ledger = Ledger::create(names(), [1, 1]).unwrap();
        for hour in [HOURS, HOURS + 1, 2 * HOURS] {
            ledger.begin_hour(hour);
            ledger.add(hour, 0, PACKETS, hour);
        }
        // The clock was set back by more than the ledger has.
        ledger.begin_hour(HOURS);
        let hours: Vec<u64> = ledger.records().iter().map(|it| it.hour).collect();
        assert_eq!(hours, [HOURS + 1, 2 * HOURS]);
        assert!(!ledger.has_begun(HOURS));
        assert!(ledger.has_begun(2 * HOURS));
    }

    #[test]
    fn what_is_no_ledger_is_refused() {
        let cut = SharedMapping::create("test", 64).unwrap();
        for (place, number, why) in [
            (0, 0, "does not begin as one"),
            (1, 2, "version 2 is not 1"),
            (4, u64::MAX, "too long"),
            (4, 1 << 20, "it is cut"),
            (5, 9, "other rows"),
            (6, u64::MAX, "it is cut"),
            (6, 0, "it is cut"),
        ] {
            let ledger = Ledger::create(names(), [1, 1]).unwrap();
            ledger.longs[place].store(number, Ordering::Relaxed);
            let file = ledger.file().try_clone_to_owned().unwrap();
            let said = Ledger::attach(file).unwrap_err().to_string();
            assert!(said.contains(why), "{place}: {said}");
        }
        let file = cut.as_fd().try_clone_to_owned().unwrap();
        assert!(Ledger::attach(file).is_err());
    }
}
