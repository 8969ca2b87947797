//! The function `payload-compressor`.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::WorkSpace;
use weir_nf::prelude::*;

use super::format::{Coded, Encoder};
use super::segment::Segment;
use super::selection::{Selection, Towards, http_ports};

/// Settings of [`PayloadCompressor`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// TCP ports of servers; the same as at the decompressor.
    pub ports: Vec<u16>,
    /// Segments to these ports (`to-server`), from them (`to-client`), or `both`; the same as at
    /// the decompressor.
    pub direction: Towards,
    /// Payloads of fewer bytes are sent as they are.
    pub smallest: u16,
    /// Payloads of more bytes are sent as they are: merged segments, which the other end may have
    /// no frame for.
    pub largest: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ports: http_ports(),
            direction: Towards::Both,
            smallest: 64,
            largest: 1_500,
        }
    }
}

/// Compresses payloads of TCP segments.
#[derive(Debug)]
pub struct PayloadCompressor {
    selection: Selection,
    smallest: usize,
    largest: usize,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// The compressed payload does not fit the frame.
        NoRoom = "no_room",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Payloads that were compressed.
        Compressed = "compressed",
        /// Payloads that would not get shorter.
        Incompressible = "incompressible",
        /// Payloads that were sent as they are, untried.
        NotTried = "not_tried",
        /// Payloads that looked coded and were coded without being compressed.
        Escaped = "escaped",
        /// Bytes of payloads as they came.
        BytesIn = "bytes_in": Counter<Bytes>,
        /// Bytes of payloads as they went.
        BytesOut = "bytes_out": Counter<Bytes>,
    }
}

impl NetworkFunction for PayloadCompressor {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Compresses the payload of each TCP segment to or from the given ports by itself
(LZ4, some 1,000 cycles a packet), for `payload-decompressor` at the other end
of a link, which gives the same bytes back. A payload that would not get shorter is
sent as it is, counted as incompressible; bytes_in and bytes_out are the payloads
before and after. Lengths and checksums are right after it; a checksum that was wrong
stays wrong, here and behind the other end.

A coded payload begins with F5 77 7A 8A, the kind, the length and a check. A payload
that begins so already and does not get shorter is sent one byte longer, so that the
other end can tell it (escaped); where no byte is free it is dropped as `no_room`.

Looked at are whole segments whose length stands in the IP header alone: no fragments,
no packets that a capture cut, none in an opened tunnel, none in PPPoE, LLC or under
MPLS. These pass both ends untouched. Sequence numbers stay those of the bytes as they
were, so that nothing between the two ends may follow TCP's streams, split segments or
merge them, or fragment packets. Both ends must be told the same ports and direction.",
        needs: Needs::Transport,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        writes: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        cycles: 1_000,
        ..Descriptor::new(
            "payload-compressor",
            "compresses TCP payloads, packet by packet",
        )
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<PayloadCompressor, SettingsError> {
        if settings.smallest > settings.largest {
            let message = format!(
                "{} is more than `largest`, {}: nothing would be compressed",
                settings.smallest, settings.largest
            );
            return Err(SettingsError::new("smallest", message).help("64 is a good value"));
        }
        Ok(PayloadCompressor {
            selection: Selection::new(settings.ports, settings.direction)?,
            smallest: usize::from(settings.smallest),
            largest: usize::from(settings.largest),
        })
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        match Segment::of(packet, &self.selection) {
            None => Verdict::Pass,
            Some(segment) => cx
                .with_work_space(|encoder, cx| self.compress(packet, segment, encoder, cx))
                .unwrap_or(Verdict::Drop(Reason::NoRoom.into())),
        }
    }

    fn work_space(&self) -> WorkSpace {
        WorkSpace::new(Encoder::new())
    }
}

impl PayloadCompressor {
    fn compress(
        &self,
        packet: &mut Packet<'_>,
        segment: Segment,
        encoder: &mut Encoder,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let marks = segment.marks(packet);
        let payload = segment.payload(packet);
        let length = payload.len();
        let compress = (self.smallest..=self.largest).contains(&length);
        let (sent, counter) = match encoder.encode(payload, compress, marks) {
            Coded::Plain if compress => (None, Count::Incompressible),
            Coded::Plain => (None, Count::NotTried),
            Coded::Compressed(bytes) => (Some(bytes), Count::Compressed),
            Coded::Stored(bytes) => (Some(bytes), Count::Escaped),
        };
        if let Some(bytes) = sent
            && segment.replace(packet, bytes, Default::default()).is_none()
        {
            return Verdict::Drop(Reason::NoRoom.into());
        }
        cx.count(counter, 1);
        cx.count(Count::BytesIn, length as u64);
        cx.count(Count::BytesOut, sent.map_or(length, <[u8]>::len) as u64);
        Verdict::Pass
    }
}
