//! Parts of a packet's bytes, and taking them over from a copy.

use weir_packet::{LinkType, PacketMemory, ParseOptions, parse};

use weir_packet::Frame;

/// Parts of a packet that a stage may write: those of its processors'
/// descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// Link header and tags, and what lies behind the datagram (padding).
    pub link: bool,
    /// Network header, up to the transport header; with a tunnel, from the
    /// outermost network header to the innermost transport header. All of a
    /// datagram that is not IP.
    pub network: bool,
    /// Transport header.
    pub transport: bool,
    /// Transport payload; all of a packet that can't be read.
    pub payload: bool,
}

impl Regions {
    /// Nothing: a stage that only reads.
    pub const NONE: Regions = Regions {
        link: false,
        network: false,
        transport: false,
        payload: false,
    };
    /// All of it.
    pub const ALL: Regions = Regions {
        link: true,
        network: true,
        transport: true,
        payload: true,
    };

    /// True where nothing is written.
    pub fn is_none(self) -> bool {
        self == Regions::NONE
    }
}

/// Beginnings of the parts of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    network: usize,
    transport: usize,
    payload: usize,
    end: usize,
}

impl Bounds {
    fn of(bytes: &[u8], link: LinkType, options: &ParseOptions) -> Bounds {
        let Ok(headers) = parse(bytes, link, options) else {
            return Bounds {
                network: 0,
                transport: 0,
                payload: 0,
                end: bytes.len(),
            };
        };
        let end = (headers.end as usize).min(bytes.len());
        let network = usize::from(headers.outer_l3).min(end);
        let (transport, payload) = if !headers.is_ip() {
            (end, end)
        } else if headers.is_later_fragment() {
            (headers.payload.into(), headers.payload.into())
        } else {
            (usize::from(headers.l4), usize::from(headers.payload))
        };
        let transport = transport.clamp(network, end);
        Bounds {
            network,
            transport,
            payload: payload.clamp(transport, end),
            end,
        }
    }
}

/// Copies the parts `written` from the packet in `copy` over those of the
/// packet in `original`. False, and nothing is changed, where the two have not
/// the same length and the same headers in the same places.
pub(super) fn take_over(
    memory: &PacketMemory,
    original: &mut Frame,
    copy: &Frame,
    written: Regions,
    options: &ParseOptions,
) -> bool {
    let (copied, from) = memory.read(copy);
    let (meta, room) = memory.split_mut(original);
    let start = usize::from(meta.start);
    let Some(into) = room.get_mut(start..start + meta.len as usize) else {
        return false;
    };
    if into.len() != from.len() {
        return false;
    }
    let bounds = Bounds::of(into, meta.link, options);
    if bounds != Bounds::of(from, copied.link, options) {
        return false;
    }
    let parts = [
        (written.link, 0..bounds.network),
        (written.network, bounds.network..bounds.transport),
        (written.transport, bounds.transport..bounds.payload),
        (written.payload, bounds.payload..bounds.end),
        (written.link, bounds.end..into.len()),
    ];
    for (_, range) in parts.into_iter().filter(|(written, _)| *written) {
        if let (Some(into), Some(from)) = (into.get_mut(range.clone()), from.get(range)) {
            into.copy_from_slice(from);
        }
    }
    true
}
