//! Taps as captures.

use std::io::Write;

use weir_ctl::observe::NamedPoint;
use weir_io::capture::{CaptureError, PcapngWriter};

/// A capture with an interface for each point and link type.
pub(crate) struct TapCapture<W: Write> {
    writer: PcapngWriter<W>,
    /// Names and descriptions of the points.
    points: Vec<(String, String)>,
    snap_len: u32,
    /// The first interface of each point: its losses are told of that.
    interfaces: Vec<Option<u32>>,
    packets: u64,
    last_time_ns: u64,
}

impl<W: Write> TapCapture<W> {
    pub(crate) fn new(
        sink: W,
        points: Vec<(String, String)>,
        snap_len: u32,
    ) -> Result<TapCapture<W>, CaptureError> {
        Ok(TapCapture {
            writer: PcapngWriter::new(sink)?,
            interfaces: vec![None; points.len()],
            points,
            snap_len,
            packets: 0,
            last_time_ns: 0,
        })
    }

    /// The interface of a point for packets of a link type.
    fn interface(&mut self, point: usize, link_type: u32) -> Result<u32, CaptureError> {
        let nothing = (String::new(), String::new());
        let (name, description) = self.points.get(point).unwrap_or(&nothing);
        let number = self
            .writer
            .interface_at(name, Some(description), link_type, self.snap_len)?;
        if let Some(first) = self.interfaces.get_mut(point) {
            first.get_or_insert(number);
        }
        Ok(number)
    }

    pub(crate) fn write(&mut self, packet: &TapPacket<'_>) -> Result<(), CaptureError> {
        let interface = self.interface(packet.point, packet.link_type)?;
        let comment = Some(packet.comment).filter(|comment| !comment.is_empty());
        self.writer.write(
            interface,
            packet.time_ns,
            packet.wire_len,
            packet.data,
            comment,
        )?;
        self.packets += 1;
        self.last_time_ns = self.last_time_ns.max(packet.time_ns);
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), CaptureError> {
        self.writer.flush()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends the capture with what each point has lost.
    pub(crate) fn finish(mut self, lost: &[u64]) -> Result<W, CaptureError> {
        for point in 0..self.points.len() {
            // A point without a packet is in the capture all the same.
            let interface = match self.interfaces.get(point).copied().flatten() {
                Some(interface) => interface,
                None => self.interface(point, 1)?,
            };
            let lost = lost.get(point).copied().unwrap_or(0);
            self.writer.statistics(interface, self.last_time_ns, lost)?;
        }
        self.writer.finish()
    }
}

/// A packet for a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TapPacket<'a> {
    pub(crate) point: usize,
    pub(crate) time_ns: u64,
    pub(crate) link_type: u32,
    pub(crate) wire_len: u32,
    pub(crate) data: &'a [u8],
    /// Empty for none.
    pub(crate) comment: &'a str,
}

/// Names and descriptions of points.
pub(crate) fn names_of(points: &[NamedPoint]) -> Vec<(String, String)> {
    let points = points.iter();
    points
        .map(|point| (point.name.clone(), point.description.clone()))
        .collect()
}
