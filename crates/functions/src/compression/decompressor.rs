//! The function `payload-decompressor`.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::WorkSpace;
use weir_nf::prelude::*;

use super::format::{Decoder, Fault};
use super::segment::Segment;
use super::selection::{Selection, Towards, http_ports};

/// Settings of [`PayloadDecompressor`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// TCP ports of servers. Must be those of the compressor.
    pub ports: Vec<u16>,
    /// Segments to these ports (`to-server`), from them (`to-client`), or `both`. Must be that of
    /// the compressor.
    pub direction: Towards,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            ports: http_ports(),
            direction: Towards::Both,
        }
    }
}

/// Restores payloads that `payload-compressor` has changed.
#[derive(Debug)]
pub struct PayloadDecompressor {
    selection: Selection,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// The payload ends inside the compressor's header.
        Truncated = "truncated",
        /// The version in the compressor's header is unknown.
        UnknownVersion = "unknown_version",
        /// The length in the compressor's header is impossible.
        BadLength = "bad_length",
        /// The payload is not LZ4, or not of the declared length.
        BadData = "bad_data",
        /// The checksum of the decompressed payload is wrong.
        BadCheck = "bad_check",
        /// The decompressed payload does not fit the frame.
        NoRoom = "no_room",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Payloads decompressed.
        Decompressed = "decompressed",
        /// Payloads sent escaped, not compressed: they began with the magic bytes by chance.
        Unescaped = "unescaped",
        /// Payloads without the compressor's header, passed unchanged.
        NotCoded = "not_coded",
        /// Payload bytes in, without those of dropped packets.
        BytesIn = "bytes_in": Counter<Bytes>,
        /// Payload bytes out.
        BytesOut = "bytes_out": Counter<Bytes>,
    }
}

impl NetworkFunction for PayloadDecompressor {
    type Settings = Settings;
    type State = ();
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Restores the payloads of TCP segments that `payload-compressor` has changed at the
other end of a link; payloads that it did not change pass. Both ends must have the
same ports and direction. `weir nf show payload-compressor` says which segments it
changes, and what must not lie between the ends.

A payload that begins with the compressor's magic bytes but can't be decoded (it is
damaged or forged, or the ports of both ends differ) is dropped: truncated,
unknown_version, bad_length, bad_data (not LZ4, or not of the declared length),
bad_check (the checksum of the result is wrong), no_room (the result does not fit the
frame). A packet never grows beyond its frame, nor beyond 65,535 bytes, whatever
length it declares.",
        needs: Needs::Transport,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        writes: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        cycles: 250,
        ..Descriptor::new(
            "payload-decompressor",
            "decompresses TCP payloads of `payload-compressor`",
        )
    };

    fn new(settings: Settings, _: &mut SetUp<'_>) -> Result<PayloadDecompressor, SettingsError> {
        Ok(PayloadDecompressor {
            selection: Selection::new(settings.ports, settings.direction)?,
        })
    }

    #[inline]
    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        match Segment::of(packet, &self.selection) {
            None => Verdict::Pass,
            Some(segment) => cx
                .with_work_space(|decoder, cx| decompress(packet, segment, decoder, cx))
                .unwrap_or(Verdict::Drop(Reason::NoRoom.into())),
        }
    }

    fn work_space(&self) -> WorkSpace {
        WorkSpace::new(Decoder::new())
    }
}

fn decompress(
    packet: &mut Packet<'_>,
    segment: Segment,
    decoder: &mut Decoder,
    cx: &mut Context<'_>,
) -> Verdict {
    let coded = segment.payload(packet);
    let length = coded.len();
    let (counter, after) = match decoder.decode(coded) {
        Ok(None) => (Count::NotCoded, length),
        Ok(Some(decoded)) => {
            let replaced = segment.replace(packet, decoded.payload, decoded.marks);
            if replaced.is_none() {
                return Verdict::Drop(Reason::NoRoom.into());
            }
            let counter = if decoded.compressed {
                Count::Decompressed
            } else {
                Count::Unescaped
            };
            (counter, decoded.payload.len())
        }
        Err(fault) => return Verdict::Drop(reason(fault)),
    };
    cx.count(counter, 1);
    cx.count(Count::BytesIn, length as u64);
    cx.count(Count::BytesOut, after as u64);
    Verdict::Pass
}

fn reason(fault: Fault) -> DropReason {
    match fault {
        Fault::Truncated => Reason::Truncated,
        Fault::Version => Reason::UnknownVersion,
        Fault::Length => Reason::BadLength,
        Fault::Data => Reason::BadData,
        Fault::Check => Reason::BadCheck,
    }
    .into()
}
