//! Tables on the screen and in a file, raw figures as JSON lines, plots.

use std::fmt::Write as _;

use serde_json::Value;

use crate::log::{self, Log};
use crate::plot::{Plot, svg};

/// Where figures go: `bench/results/snf`, or `snf-quick` for the quick form.
pub(super) struct Report {
    log: Log,
    folder: &'static str,
    text: String,
}

impl Report {
    /// Starts `figures.jsonl`; `head` is its second line.
    pub(super) fn create(folder: &'static str, head: &Value) -> Result<Report, String> {
        let path = log::folder().join(folder);
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("can't make {}: {error}", path.display()))?;
        let mut log = Log::create(&format!("{folder}/figures.jsonl"))?;
        log.line(head)?;
        Ok(Report {
            log,
            folder,
            text: String::new(),
        })
    }

    /// A line of raw figures.
    pub(super) fn raw(&mut self, value: &Value) -> Result<(), String> {
        self.log.line(value)
    }

    /// A paragraph.
    pub(super) fn say(&mut self, text: &str) {
        println!("{text}\n");
        let _ = writeln!(self.text, "{text}\n");
    }

    /// A table with a title; the first column is aligned to the left.
    pub(super) fn table(&mut self, title: &str, columns: &[&str], rows: &[Vec<String>]) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let names: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut table = format!("### {title}\n\n{}|---", line(&names));
        table += &"|--:".repeat(columns.len().saturating_sub(1));
        table += "|\n";
        rows.iter().for_each(|row| table += &line(row));
        self.say(table.trim_end());
    }

    /// A plot.
    pub(super) fn plot(&mut self, name: &str, plots: &[Plot]) -> Result<(), String> {
        log::plot(&format!("{}/{name}", self.folder), &svg(plots))
    }

    /// Writes `tables.md`, and says where all is.
    pub(super) fn finish(self) -> Result<(), String> {
        let path = log::folder().join(self.folder).join("tables.md");
        std::fs::write(&path, self.text)
            .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        println!("tables: {}", path.display());
        self.log.finish()
    }
}

/// Nanoseconds as µs or ms, with three digits.
pub(super) fn time(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us {
        ..10.0 => format!("{us:.2} µs"),
        ..100.0 => format!("{us:.1} µs"),
        ..1_000.0 => format!("{us:.0} µs"),
        ..10_000.0 => format!("{:.2} ms", us / 1e3),
        ..100_000.0 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}

/// A share in per cent.
pub(super) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// How many times more one is than the other.
pub(super) fn times(one: u64, other: u64) -> String {
    let ratio = one as f64 / other.max(1) as f64;
    match ratio {
        ..10.0 => format!("{ratio:.2} ×"),
        ..1_000.0 => format!("{ratio:.0} ×"),
        _ => format!("{:.1}K ×", ratio / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units() {
        assert_eq!(time(440), "0.44 µs");
        assert_eq!(time(11_010), "11.0 µs");
        assert_eq!(time(2_800_000), "2.80 ms");
        assert_eq!(time(275_400_000), "275 ms");
        assert_eq!(
            (times(30, 20), times(19_600, 1)),
            ("1.50 ×".into(), "19.6K ×".into())
        );
        assert_eq!(percent(0.9043), "90.43 %");
    }
}
