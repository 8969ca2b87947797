//! The function `payload-decompressor`.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::WorkSpace;
use weir_nf::prelude::*;

use super::format::{Decoder, Fault};
use super::segment::Segment;
use super::{Selection, Towards, http_ports};

/// Settings of [`PayloadDecompressor`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// TCP ports of servers; the same as at the compressor.
    pub ports: Vec<u16>,
    /// Segments to these ports (`to-server`), from them (`to-client`), or `both`; the same as at
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

/// Gives payloads back as they were before `payload-compressor`.
#[derive(Debug)]
pub struct PayloadDecompressor {
    selection: Selection,
}

weir_nf::labels! {
    /// Why it drops.
    enum Reason: Counter<Packets> {
        /// Its payload ends inside the coding's header.
        Truncated = "truncated",
        /// Its payload is coded in a version that is not known.
        UnknownVersion = "unknown_version",
        /// The length that its payload's coding declares can't be right.
        BadLength = "bad_length",
        /// Its payload can't be decoded.
        BadData = "bad_data",
        /// Its payload's check value is not that of what was decoded.
        BadCheck = "bad_check",
        /// The frame has no room for the decoded payload.
        NoRoom = "no_room",
    }
}

weir_nf::labels! {
    /// What it counts.
    enum Count: Counter<Packets> {
        /// Payloads that were decompressed.
        Decompressed = "decompressed",
        /// Payloads that were coded without being compressed.
        Unescaped = "unescaped",
        /// Payloads that were not coded.
        NotCoded = "not_coded",
        /// Bytes of payloads as they came.
        BytesIn = "bytes_in": Counter<Bytes>,
        /// Bytes of payloads as they went.
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
Gives the payloads of TCP segments back as they were before `payload-compressor`, at
the other end of a link; what was sent as it was passes untouched. Both ends must be
told the same ports and direction; `weir nf show payload-compressor` says which
segments are looked at and what must not lie between the ends.

A payload that begins as a coded one and is none (damaged, forged, or meant for other
ports than the compressor's) is dropped: truncated, unknown_version, bad_length,
bad_data (no LZ4, or not of the length declared), bad_check (other bytes came out than
went in), no_room (the packet does not fit its frame). A packet never grows beyond its
frame, nor beyond 65,535 bytes, whatever it declares.",
        needs: Needs::Transport,
        reads: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        writes: Parts::NETWORK.and(Parts::TRANSPORT).and(Parts::PAYLOAD),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        cycles: 250,
        ..Descriptor::new(
            "payload-decompressor",
            "gives compressed TCP payloads back as they were",
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
