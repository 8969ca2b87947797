//! Raw figures of one benchmark as JSON lines.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

/// A file of `bench/results`.
pub(crate) struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Starts a file; its first line says when and where.
    pub(crate) fn create(name: &str) -> Result<Log, String> {
        let path = folder().join(name);
        let file = File::create(&path)
            .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        let mut log = Log { file, path };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        log.line(&json!({
            "date": crate::results::today(),
            "machine": format!("{cores} cores, {}", std::env::consts::ARCH),
        }))?;
        Ok(log)
    }

    /// Adds a line, and writes it: a run that is stopped keeps its figures.
    pub(crate) fn line(&mut self, value: &Value) -> Result<(), String> {
        let written = writeln!(self.file, "{value}");
        written.map_err(|error| self.failure(&error))
    }

    /// Ends the file.
    pub(crate) fn finish(self) -> Result<(), String> {
        println!("\nraw figures: {}", self.path.display());
        Ok(())
    }

    fn failure(&self, error: &std::io::Error) -> String {
        format!("can't write {}: {error}", self.path.display())
    }
}

/// Where raw figures and plots go.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results"))
}

/// Writes a plot beside the raw figures.
pub(crate) fn plot(name: &str, svg: &str) -> Result<(), String> {
    let path = folder().join(name);
    std::fs::write(&path, svg)
        .map_err(|error| format!("can't write {}: {error}", path.display()))?;
    println!("plot: {}", path.display());
    Ok(())
}
