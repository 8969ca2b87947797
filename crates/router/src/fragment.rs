//! IPv4 fragmentation (RFC 791 section 3.2), for datagrams whose senders allow
//! it.

use std::net::IpAddr;

use weir_packet::ipv4::{Ipv4View, Ipv4ViewMut};
use weir_packet::{Frame, FrameMeta, FramePool, Time};

use crate::icmp::LINK;
use crate::{Reason, Router};

/// "More fragments".
const MORE: u16 = 0x2000;
/// Largest IPv4 header.
const MOST_HEADER: usize = 60;

/// The header of later fragments: without the options that are for the first
/// only, whose copied flag is clear.
fn later(header: &[u8]) -> Option<([u8; MOST_HEADER], usize)> {
    let mut out = [0; MOST_HEADER];
    out.get_mut(..20)?.copy_from_slice(header.get(..20)?);
    let mut length = 20;
    let mut options = header.get(20..)?;
    while let [kind, ref behind @ ..] = *options {
        let size = match (kind, behind) {
            (0, _) => break,
            (1, _) => 1,
            (_, [size, ..]) if *size >= 2 => usize::from(*size),
            _ => return None,
        };
        let (option, rest) = options.split_at_checked(size)?;
        if kind & 0x80 != 0 {
            out.get_mut(length..length + size)?.copy_from_slice(option);
            length += size;
        }
        options = rest;
    }
    // Zeros, which end the list, fill the last word.
    length = length.next_multiple_of(4);
    *out.first_mut()? = 0x40 | (length / 4) as u8;
    Some((out, length))
}

impl Router {
    /// Sends a datagram in pieces.
    pub(crate) fn cut(
        &mut self,
        now: Time,
        pool: &mut FramePool,
        frame: Frame,
        at: usize,
        slot: Option<u32>,
        host: IpAddr,
    ) {
        self.counts.fragmented += 1;
        let memory = pool.memory().clone();
        let (meta, bytes) = memory.read(&frame);
        let meta = *meta;
        let mtu = self.ports.get(at).map_or(0, |port| port.mtu);
        let mut from = 0;
        loop {
            let piece = match piece(pool, &meta, bytes, mtu, from) {
                Some(Ok(piece)) => piece,
                Some(Err(())) => {
                    // The rest can't be sent; the receiver can do nothing with
                    // the pieces before.
                    self.counts.fragments += 1;
                    self.counts.drop_behind(Reason::NoFrame);
                    break;
                }
                None => break,
            };
            let (piece, next) = piece;
            self.counts.fragments += 1;
            match slot {
                Some(slot) => self.towards(now, pool, piece, at, slot),
                None => self.reach(now, pool, piece, at, host),
            }
            from = next;
        }
        pool.give(frame);
    }
}

/// The piece whose data begin at octet `from` of the datagram's, and where the
/// next one begins; none behind the end, an error where no frame is free.
fn piece(
    pool: &mut FramePool,
    meta: &FrameMeta,
    bytes: &[u8],
    mtu: usize,
    from: usize,
) -> Option<Result<(Frame, usize), ()>> {
    let (link, packet) = bytes.split_at_checked(LINK)?;
    let view = Ipv4View::new(packet).ok()?;
    let data = view.payload();
    let left = data.len().checked_sub(from).filter(|left| *left > 0)?;
    let whole = packet.get(..view.header_len())?;
    let (short, short_len) = later(whole)?;
    let header = match from {
        0 => whole,
        _ => short.get(..short_len)?,
    };
    let most = mtu.checked_sub(header.len())? & !7;
    if most == 0 {
        return None;
    }
    let size = left.min(most);
    let length = header.len() + size;
    let mut new = *meta;
    new.len = (LINK + length) as u32;
    new.wire_len = new.len;
    new.start = weir_packet::HEADROOM as u16;
    let Ok(mut frame) = pool.take(LINK + length) else {
        return Some(Err(()));
    };
    let memory = pool.memory().clone();
    let (place, room) = memory.split_mut(&mut frame);
    *place = new;
    let start = usize::from(new.start);
    let written = room.get_mut(start..start + LINK + length).and_then(|out| {
        let (to, out) = out.split_at_mut_checked(LINK)?;
        to.copy_from_slice(link);
        let (head, body) = out.split_at_mut_checked(header.len())?;
        head.copy_from_slice(header);
        body.copy_from_slice(data.get(from..from + size)?);
        let mut head = Ipv4ViewMut::new(out).ok()?;
        let more = from + size < data.len() || view.more_fragments();
        let offset = (view.fragment_offset() as usize + from) / 8;
        head.set_fragment(offset as u16 & 0x1fff | if more { MORE } else { 0 });
        head.set_total_length(length as u16);
        head.fill_checksum();
        Some(())
    });
    match written {
        Some(()) => Some(Ok((frame, from + size))),
        None => {
            pool.give(frame);
            None
        }
    }
}
