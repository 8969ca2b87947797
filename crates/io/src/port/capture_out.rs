//! A capture file as a port for packets to go out.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use weir_packet::{Frame, FramePool, LinkType, PacketMemory};

use super::{OutputPort, PortCounters, PortDrop, PortError};
use crate::capture::{CaptureError, PcapWriter, PcapngWriter, Resolution};
use weir_telemetry::Counts;

type Sink = Box<dyn Write>;

enum Writer {
    /// A pcap file, which has one link type: that of its first packet.
    PcapToBegin(Sink),
    Pcap(PcapWriter<Sink>, u32),
    Pcapng(PcapngWriter<Sink>),
    Closed,
}

/// Writes packets to a pcap (nanoseconds) or pcapng file.
pub struct CaptureOutput {
    path: String,
    writer: Writer,
    packets: u64,
    bytes: u64,
    link_type: u64,
    unwritable: u64,
    failed: u64,
    dropped_bytes: u64,
}

impl std::fmt::Debug for CaptureOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureOutput")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Creates a file, empty, unless someone writes it already: the packets of both would be lost.
fn create(path: &Path) -> io::Result<File> {
    // Not empty before it is this process's.
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    if file.metadata()?.is_file() {
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::other(
                "another run writes it; stop that one, or give this one another file",
            ),
            TryLockError::Error(error) => error,
        })?;
        file.set_len(0)?;
    }
    Ok(file)
}

impl CaptureOutput {
    /// Creates a file (`-` is standard output, as pcapng). `.pcapng` and
    /// `.ntar` make a pcapng file, `.pcap`, `.cap` and `.dump` a pcap file.
    ///
    /// # Errors
    ///
    /// If it can't be created, another process (or port) writes it, or its name does not say what it is to be.
    pub fn create(path: &Path) -> Result<CaptureOutput, PortError> {
        let name = path.display().to_string();
        let ending = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or("")
            .to_ascii_lowercase();
        let standard = path.as_os_str() == "-";
        let ng = standard || matches!(ending.as_str(), "pcapng" | "ntar");
        if !ng && !matches!(ending.as_str(), "pcap" | "cap" | "dump") {
            let message = "the name of a capture to write ends in .pcap or .pcapng";
            return Err(PortError::new(&name, message));
        }
        let sink: Sink = if standard {
            Box::new(std::io::stdout())
        } else {
            Box::new(create(path).map_err(|error| {
                PortError::new(&name, format!("can't create the capture: {error}"))
            })?)
        };
        let writer = if ng {
            Writer::Pcapng(PcapngWriter::new(sink).map_err(|error| PortError::new(&name, error))?)
        } else {
            Writer::PcapToBegin(sink)
        };
        Ok(CaptureOutput {
            path: name,
            writer,
            packets: 0,
            bytes: 0,
            link_type: 0,
            unwritable: 0,
            failed: 0,
            dropped_bytes: 0,
        })
    }

    fn begin(&mut self, dlt: u32) -> Result<(), CaptureError> {
        if let Writer::PcapToBegin(_) = self.writer
            && let Writer::PcapToBegin(sink) = core::mem::replace(&mut self.writer, Writer::Closed)
        {
            self.writer = Writer::Pcap(PcapWriter::new(sink, dlt, Resolution::Nano)?, dlt);
        }
        Ok(())
    }

    fn write(&mut self, memory: &PacketMemory, frame: &Frame) -> Result<(), CaptureError> {
        let (meta, bytes) = memory.read(frame);
        let dlt = match meta.dlt {
            0 => meta.link.to_dlt(),
            dlt => Some(u32::from(dlt)),
        };
        let Some(dlt) = dlt else {
            self.link_type += 1;
            self.dropped_bytes += bytes.len() as u64;
            return Ok(());
        };
        self.begin(dlt)?;
        let written = match &mut self.writer {
            Writer::Pcap(_, link) if *link != dlt => {
                self.link_type += 1;
                self.dropped_bytes += bytes.len() as u64;
                return Ok(());
            }
            Writer::Pcap(writer, _) => writer.write(meta.time.0, meta.wire_len, bytes),
            Writer::Pcapng(writer) => {
                let interface = writer.interface(meta.side.opposite().name(), dlt)?;
                writer.write(interface, meta.time.0, meta.wire_len, bytes, None)
            }
            Writer::PcapToBegin(_) | Writer::Closed => {
                self.failed += 1;
                return Ok(());
            }
        };
        match written {
            Ok(()) => {
                self.packets += 1;
                self.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(CaptureError::FrameTooLong { .. } | CaptureError::TimeTooLate { .. }) => {
                self.unwritable += 1;
                self.dropped_bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl OutputPort for CaptureOutput {
    fn send(&mut self, pool: &mut FramePool, frames: &mut Vec<Frame>) -> Result<(), PortError> {
        let memory = pool.memory().clone();
        let mut result = Ok(());
        for frame in frames.drain(..) {
            if result.is_ok() {
                result = self.write(&memory, &frame);
                if result.is_err() {
                    self.writer = Writer::Closed;
                    self.failed += 1;
                }
            } else {
                self.failed += 1;
            }
            pool.give(frame);
        }
        result.map_err(|error| PortError::new(&self.path, error))
    }

    fn finish(&mut self, _: &mut FramePool) -> Result<(), PortError> {
        // A file without packets is a capture all the same.
        let result = self
            .begin(LinkType::Ethernet.to_dlt().unwrap_or(1))
            .and_then(
                |()| match core::mem::replace(&mut self.writer, Writer::Closed) {
                    Writer::Pcap(writer, _) => writer.finish().map(drop),
                    Writer::Pcapng(writer) => writer.finish().map(drop),
                    Writer::PcapToBegin(_) | Writer::Closed => Ok(()),
                },
            );
        result.map_err(|error| PortError::new(&self.path, error))
    }

    fn counters(&self) -> PortCounters {
        PortCounters {
            packets: self.packets,
            bytes: self.bytes,
            drops: Counts::from_iter([
                (PortDrop::OutputLinkType, self.link_type),
                (PortDrop::OutputUnwritable, self.unwritable),
                (PortDrop::OutputFailed, self.failed),
            ]),
            dropped_bytes: self.dropped_bytes,
            ..PortCounters::default()
        }
    }
}
