//! The table on the screen, and raw figures as JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::idscan::Scan;
use crate::rows::{Measured, Row};
use crate::stats::Spread;

/// Where figures go.
pub(crate) struct Results {
    file: BufWriter<File>,
    path: PathBuf,
    missed: usize,
}

impl Results {
    /// Starts `bench/results/latest.jsonl`.
    pub(crate) fn create() -> Result<Results, String> {
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results/latest.jsonl"));
        let file = File::create(&path)
            .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        let mut results = Results {
            file: BufWriter::new(file),
            path,
            missed: 0,
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        results.line(&json!({
            "date": today(),
            "machine": format!("{cores} cores, {}", std::env::consts::ARCH),
            "unit": "ns per packet, CPU time of one thread",
        }))?;
        Ok(results)
    }

    fn line(&mut self, value: &Value) -> Result<(), String> {
        writeln!(self.file, "{value}")
            .map_err(|error| format!("can't write {}: {error}", self.path.display()))
    }

    /// Says what the columns are.
    pub(crate) fn head(&self) {
        println!("ns per packet, medians of {} rounds", crate::rows::ROUNDS);
        println!(
            "{:22} {:>7} {:>6} {:>7} {:>15} {:>7} {:>6}  best peer",
            "work", "total", "gen", "net", "quartiles", "target", "ratio"
        );
    }

    /// A row of the table.
    pub(crate) fn row(&mut self, row: &Row, measured: &Measured) -> Result<(), String> {
        let [total, sink, net] =
            [&measured.total, &measured.sink, &measured.net].map(|samples| Spread::of(samples));
        println!(
            "{:22} {:>7.1} {:>6.1} {:>7.1} {:>15} {:>7} {:>6}  {}",
            row.name,
            total.median,
            sink.median,
            net.median,
            format!("{:.1}–{:.1}", net.lower_quartile, net.upper_quartile),
            row.target.map_or(String::new(), |t| format!("{t:.1}")),
            row.target
                .map_or(String::new(), |t| format!("{:.2}", net.median / t)),
            row.peer,
        );
        self.missed += usize::from(row.target.is_some_and(|target| net.median > target));
        self.line(&json!({
            "row": row.name,
            "chain": row.chain,
            "flows": row.traffic.flows,
            "traffic": row.traffic.settings,
            "stages": row.per,
            "target": row.target,
            "net_median": net.median,
            "net_least": net.least,
            "net_most": net.most,
            "total": measured.total,
            "generator_sink": measured.sink,
            "net": measured.net,
        }))
    }

    /// The row of the pattern scan.
    pub(crate) fn scan(&mut self, scan: &Scan) -> Result<(), String> {
        let speed = Spread::of(&scan.gigabytes);
        println!(
            "{:22} {:.3} GB/s (quartiles {:.3}–{:.3}), target {:.2}, ratio {:.2}; {} patterns, \
             {} MB of payload, {} alerts a round; the same packets through flow-nop {:.1} ns each",
            crate::idscan::NAME,
            speed.median,
            speed.lower_quartile,
            speed.upper_quartile,
            crate::idscan::TARGET,
            speed.median / crate::idscan::TARGET,
            crate::idscan::PATTERNS,
            scan.payload / 1_000_000,
            scan.alerts,
            scan.engine,
        );
        self.missed += usize::from(speed.median < crate::idscan::TARGET);
        self.line(&json!({
            "row": crate::idscan::NAME,
            "patterns": crate::idscan::PATTERNS,
            "payload_bytes": scan.payload,
            "packets": scan.packets,
            "alerts": scan.alerts,
            "target_gigabytes_per_s": crate::idscan::TARGET,
            "gigabytes_per_s": scan.gigabytes,
        }))
    }

    /// Says where the raw figures are.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        self.file
            .flush()
            .map_err(|error| format!("can't write {}: {error}", self.path.display()))?;
        println!("{} targets missed; raw figures in {}", self.missed, {
            self.path.display()
        });
        Ok(())
    }
}

/// The date (UTC), as YYYY-MM-DD.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// Of a number of days since 1970.
fn date(mut days: u64) -> String {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(58), "1970-02-28");
        assert_eq!(date(59), "1970-03-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_818), "2026-12-31");
    }
}
