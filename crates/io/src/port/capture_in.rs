//! A capture file as a port for packets to come in.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use weir_packet::{Frame, FrameMeta, FramePool, LinkType, NoFrame, Side, Time};

use super::pipe::{self, Pipe};
use super::{InputPort, PortCounters, PortDrop, PortError, Received};
use crate::capture::{CaptureError, CaptureReader};

/// Packets from a pcap or pcapng file, with the file's times. They are
/// numbered as Wireshark does.
pub struct CaptureInput {
    path: String,
    reader: CaptureReader<Box<dyn Read>>,
    length: Option<u64>,
    number: u8,
    side: Side,
    /// Bytes of a record for which no frame was free; it comes first next time.
    waiting: Option<(FrameMeta, Vec<u8>)>,
    ended: bool,
    sequence: u64,
    packets: u64,
    bytes: u64,
    too_large: u64,
    dropped_bytes: u64,
    cut_short: Option<String>,
}

impl std::fmt::Debug for CaptureInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureInput")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl CaptureInput {
    /// Opens a file (`-` is standard input) as ingress port `number` on `side`.
    ///
    /// # Errors
    ///
    /// If it can't be opened or is no capture.
    pub fn open(path: &Path, number: u8, side: Side) -> Result<CaptureInput, PortError> {
        let name = path.display().to_string();
        let file = match path.as_os_str() == "-" {
            true => pipe::standard(&std::io::stdin()),
            false => File::open(path),
        };
        let file = file
            .map_err(|error| PortError::new(&name, format!("can't open the capture: {error}")))?;
        let length = file
            .metadata()
            .ok()
            .filter(|m| m.is_file())
            .map(|m| m.len());
        let (source, patience): (Box<dyn Read>, _) = match length {
            Some(_) => (Box::new(file), None),
            None => {
                let (pipe, patience) = Pipe::new(file);
                (Box::new(pipe), Some(patience))
            }
        };
        let reader = CaptureReader::open(source).map_err(|error| PortError::new(&name, error))?;
        // From here on the thread has other work.
        if let Some(patience) = patience {
            patience.end();
        }
        Ok(CaptureInput {
            path: name,
            reader,
            length,
            number,
            side,
            waiting: None,
            ended: false,
            sequence: 0,
            packets: 0,
            bytes: 0,
            too_large: 0,
            dropped_bytes: 0,
            cut_short: None,
        })
    }

    fn taken(&mut self, frame: Frame, bytes: usize, into: &mut Vec<Frame>) {
        self.packets += 1;
        self.bytes += bytes as u64;
        into.push(frame);
    }
}

impl InputPort for CaptureInput {
    fn receive(
        &mut self,
        pool: &mut FramePool,
        into: &mut Vec<Frame>,
        max: usize,
    ) -> Result<Received, PortError> {
        if let Some((meta, bytes)) = self.waiting.take() {
            match pool.copy(&bytes, meta) {
                Ok(frame) => self.taken(frame, bytes.len(), into),
                Err(_) => {
                    self.waiting = Some((meta, bytes));
                    return Ok(Received::More);
                }
            }
        }
        while into.len() < max && !self.ended {
            let record = match self.reader.next() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.ended = true;
                    break;
                }
                Err(error @ (CaptureError::Truncated { .. } | CaptureError::Corrupt { .. })) => {
                    self.ended = true;
                    self.cut_short = Some(error.to_string());
                    break;
                }
                Err(error) if error.is_wait() => break,
                Err(error) => return Err(PortError::new(&self.path, error)),
            };
            self.sequence += 1;
            let mut meta = FrameMeta::received(Time(record.time_ns), record.data.len() as u32);
            meta.wire_len = record.wire_len.max(record.data.len() as u32);
            meta.link = LinkType::from_dlt(record.dlt);
            meta.dlt = u16::try_from(record.dlt).unwrap_or(0);
            meta.sequence = self.sequence;
            meta.port = self.number;
            meta.side = self.side;
            match pool.copy(record.data, meta) {
                Ok(frame) => {
                    let bytes = record.data.len();
                    self.taken(frame, bytes, into);
                }
                Err(NoFrame::TooLarge) => {
                    self.too_large += 1;
                    self.dropped_bytes += record.data.len() as u64;
                }
                Err(NoFrame::Exhausted) => {
                    self.waiting = Some((meta, record.data.to_vec()));
                    return Ok(Received::More);
                }
            }
        }
        Ok(if self.ended {
            Received::End
        } else {
            Received::More
        })
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.packets,
            bytes: self.bytes,
            drops: [(PortDrop::FrameTooLarge, self.too_large)]
                .into_iter()
                .collect(),
            dropped_bytes: self.dropped_bytes,
            cut_short: self
                .cut_short
                .as_ref()
                .map(|why| format!("{}: {why}", self.path)),
            ..PortCounters::default()
        }
    }

    fn progress(&self) -> Option<f64> {
        self.length
            .map(|length| self.reader.position() as f64 / length.max(1) as f64)
    }
}
