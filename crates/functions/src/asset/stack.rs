//! Fingerprint of a TCP/IP stack, read from a host's first TCP segment.

use core::fmt;

use weir_nf::packet::{Headers, Packet, tcp};

/// One option of a TCP header in the order of the header: which options a stack sends, and how it
/// pads them, hardly ever changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// End of options; what follows is padding.
    End,
    /// One octet of padding.
    Nop,
    /// Maximum segment size.
    Mss,
    /// Window scale.
    Scale,
    /// Selective acknowledgements permitted.
    Sack,
    /// Timestamps.
    Time,
    /// Any other, by number.
    Other(u8),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::End => f.write_str("eol"),
            Kind::Nop => f.write_str("nop"),
            Kind::Mss => f.write_str("mss"),
            Kind::Scale => f.write_str("ws"),
            Kind::Sack => f.write_str("sok"),
            Kind::Time => f.write_str("ts"),
            Kind::Other(number) => write!(f, "?{number}"),
        }
    }
}

/// Most options that are looked at: more fit no signature.
const MOST: usize = 16;

/// Fingerprint of the stack that sent a SYN or SYN+ACK.
///
/// `Display` writes it in the form of p0f's raw signatures, version 3:
/// `ver:ttl+distance:optlen:mss:window,scale:options:quirks`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub(super) answer: bool,
    ipv6: bool,
    ttl: u8,
    ip_options: u8,
    dont_fragment: bool,
    id: Option<u16>,
    ecn: bool,
    pub(super) window: u16,
    pub(super) mss: Option<u16>,
    pub(super) scale: Option<u8>,
    kinds: [Kind; MOST],
    count: u8,
}

impl Stack {
    /// Of a packet whose TCP header has SYN set.
    pub(super) fn of(packet: &Packet<'_>) -> Option<Stack> {
        let headers: &Headers = packet.headers();
        let ip = packet.network();
        let segment = packet.transport();
        let head = segment.first_chunk::<20>()?;
        let length = usize::from(head[12] >> 4) * 4;
        let (ttl, ip_options, dont_fragment, id) = if headers.is_ipv4() {
            let fixed = ip.first_chunk::<20>()?;
            (
                fixed[8],
                ((fixed[0] & 15) * 4).saturating_sub(20),
                fixed[6] & 0x40 != 0,
                Some(u16::from_be_bytes([fixed[4], fixed[5]])),
            )
        } else {
            let extensions = usize::from(headers.l4.saturating_sub(headers.l3)).saturating_sub(40);
            (*ip.get(7)?, extensions.min(255) as u8, true, None)
        };
        let mut stack = Stack {
            answer: head[13] & tcp::flag::ACK != 0,
            ipv6: headers.is_ipv6(),
            ttl,
            ip_options,
            dont_fragment,
            id,
            ecn: head[13] & (tcp::flag::ECE | tcp::flag::CWR) != 0,
            window: u16::from_be_bytes([head[14], head[15]]),
            mss: None,
            scale: None,
            kinds: [Kind::End; MOST],
            count: 0,
        };
        stack.read(segment.get(20..length)?);
        Some(stack)
    }

    fn read(&mut self, mut options: &[u8]) {
        while let Some((&number, rest)) = options.split_first() {
            let kind = match number {
                0 => Kind::End,
                1 => Kind::Nop,
                2 => Kind::Mss,
                3 => Kind::Scale,
                4 => Kind::Sack,
                8 => Kind::Time,
                other => Kind::Other(other),
            };
            let Some(place) = self.kinds.get_mut(usize::from(self.count)) else {
                return;
            };
            *place = kind;
            self.count += 1;
            options = match kind {
                Kind::End => return,
                Kind::Nop => rest,
                _ => {
                    let length = rest.first().map_or(0, |&length| usize::from(length));
                    let (Some(data), Some(after)) = (options.get(2..length), options.get(length..))
                    else {
                        return;
                    };
                    match (kind, data) {
                        (Kind::Mss, &[a, b]) => self.mss = Some(u16::from_be_bytes([a, b])),
                        (Kind::Scale, &[scale]) => self.scale = Some(scale),
                        _ => {}
                    }
                    after
                }
            };
        }
    }

    /// The options in their order.
    pub(super) fn kinds(&self) -> &[Kind] {
        self.kinds.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// The time to live that the sender most likely began with.
    pub(super) fn first_ttl(&self) -> u8 {
        match self.ttl {
            0..=32 => 32,
            33..=64 => 64,
            65..=128 => 128,
            _ => 255,
        }
    }

    /// Routers between the sender and here, by the same guess.
    pub(super) fn distance(&self) -> u8 {
        self.first_ttl() - self.ttl
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.ipv6 { 6 } else { 4 };
        write!(
            f,
            "{version}:{}+{}:{}:",
            self.ttl,
            self.distance(),
            self.ip_options
        )?;
        match self.mss {
            Some(mss) => write!(f, "{mss}")?,
            None => f.write_str("*")?,
        }
        write!(f, ":{},{}:", self.window, self.scale.unwrap_or(0))?;
        for (number, kind) in self.kinds().iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{kind}")?;
        }
        f.write_str(":")?;
        let quirks = [
            (self.dont_fragment && !self.ipv6, "df"),
            (
                self.dont_fragment && self.id.is_some_and(|id| id != 0),
                "id+",
            ),
            (!self.dont_fragment && self.id == Some(0), "id-"),
            (self.ecn, "ecn"),
        ];
        let mut comma = "";
        for (set, name) in quirks {
            if set {
                write!(f, "{comma}{name}")?;
                comma = ",";
            }
        }
        Ok(())
    }
}
