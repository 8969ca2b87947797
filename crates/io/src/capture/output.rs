//! Buffered writing that knows how much of the file was written when it fails.

use std::io::{self, BufWriter, Write};

use super::CaptureError;

const BUFFER: usize = 256 << 10;

struct Counted<W> {
    writer: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.writer.write(bytes)?;
        self.written += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// The file behind a capture writer. Dropped unfinished, it writes what it still holds if it can.
pub(super) struct Output<W: Write> {
    buffered: BufWriter<Counted<W>>,
}

impl<W: Write> Output<W> {
    pub(super) fn new(writer: W) -> Self {
        let counted = Counted { writer, written: 0 };
        Self {
            buffered: BufWriter::with_capacity(BUFFER, counted),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let result = self.buffered.write_all(bytes);
        result.map_err(|source| self.failed(source))
    }

    pub(super) fn flush(&mut self) -> Result<(), CaptureError> {
        let result = self.buffered.flush();
        result.map_err(|source| self.failed(source))
    }

    pub(super) fn finish(mut self) -> Result<W, CaptureError> {
        self.flush()?;
        // Nothing is buffered any more, so the parts can be taken without another write.
        let (counted, _) = self.buffered.into_parts();
        Ok(counted.writer)
    }

    fn failed(&self, source: io::Error) -> CaptureError {
        CaptureError::Write {
            at: self.buffered.get_ref().written,
            source,
        }
    }
}
