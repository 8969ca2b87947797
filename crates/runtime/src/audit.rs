//! Does a function do what its descriptor says, and no more? With
//! [`crate::RuntimeConfig::audit`] each is called packet by packet and what it
//! has done is compared with what it declared: the graph compiler relies on it.

use weir_nf::host::{MAX_LABELS, Outcome};
use weir_nf::{Descriptor, Parts};
use weir_packet::{Frame, FramePool, Headers, LinkType, PacketMemory, ParseOptions, parse};

use crate::lies::Lie;
use crate::runtime::Runtime;

/// Counts of the requests of functions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    emits: u64,
    aliases: u64,
    events: u64,
    leases: u64,
    tally: u64,
}

impl Runtime {
    /// Violations of descriptors by functions; empty without
    /// [`crate::RuntimeConfig::audit`].
    pub fn lies(&self) -> &[Lie] {
        self.observers.audit().map_or(&[], |audit| &audit.lies)
    }

    fn asked(&self, number: usize) -> Asked {
        let world = &self.world;
        let leases = &world.leases;
        Asked {
            emits: world.emits.frames.len() as u64 + world.emits.lost,
            aliases: world.aliases.asked.len() as u64 + world.aliases.refused,
            events: world.events.recorded() + world.events.lost(),
            leases: leases.leased().wrapping_add(leases.failures() << 32),
            tally: {
                let tally = &self.functions.nodes()[number].tally;
                tally.sorted().iter().map(|(_, n)| n).sum::<u64>() + tally.other()
            },
        }
    }

    /// Calls function `number` with one packet of `mask` after the other.
    #[cold]
    pub(crate) fn call_audited(
        &mut self,
        pool: &mut FramePool,
        memory: &PacketMemory,
        frames: &mut [Frame],
        number: usize,
        mut mask: u64,
    ) {
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            let bit = mask & mask.wrapping_neg();
            mask &= mask - 1;
            let asked = self.asked(number);
            let (meta, bytes) = memory.read(&frames[i]);
            let (bytes, link, sequence) = (bytes.to_vec(), meta.link, meta.sequence);
            self.call(pool, memory, frames, number, bit);
            let (meta, now) = memory.read(&frames[i]);
            let audit = self.observers.audit_mut();
            let Some(audit) = self.counts.internal.expect(audit, "somebody audits") else {
                return;
            };
            let node = &self.functions.nodes()[number];
            let kind = node.processor.descriptor();
            let changed = changed(&bytes, link, now, meta.link, &audit.options);
            let mut found = wrongly_written(kind.writes, changed);
            let drops = node.processor.drops();
            found.extend(wrong_verdict(kind, drops, &self.scratch.outcome, i));
            for what in found {
                audit.tell(&node.name, kind.name, what, sequence);
            }
            self.check_asked(number, &asked, sequence);
        }
    }

    /// Checks the requests of function `number` since `before`.
    fn check_asked(&mut self, number: usize, before: &Asked, packet: u64) {
        let now = self.asked(number);
        let node = &self.functions.nodes()[number];
        let audit = self.observers.audit_mut();
        let Some(audit) = self.counts.internal.expect(audit, "somebody audits") else {
            return;
        };
        let kind = node.processor.descriptor();
        for (asked, declared, what) in [
            (now.emits != before.emits, kind.emits, "makes packets"),
            (
                now.aliases != before.aliases,
                kind.aliases,
                "asks for aliases",
            ),
            (now.events != before.events, kind.events, "writes events"),
            (now.leases != before.leases, kind.shares, "leases ports"),
            (now.tally != before.tally, kind.tally > 0, "keeps a tally"),
        ] {
            if asked && !declared {
                audit.tell(&node.name, kind.name, what.to_owned(), packet);
            }
        }
    }

    /// Notes the requests before function `number` ends a state.
    #[cold]
    pub(crate) fn before_end(&self, number: usize) -> impl FnOnce(&mut Runtime) + use<> {
        let before = self.asked(number);
        move |runtime| runtime.check_asked(number, &before, 0)
    }
}

/// The verdict on packet `i`, if it is none that the function may give.
fn wrong_verdict(kind: &Descriptor, drops: bool, outcome: &Outcome, i: usize) -> Option<String> {
    let bit = 1u64 << i;
    if outcome.dropped & bit != 0 {
        if !drops && !kind.drops.is_empty() {
            return Some("drops, which it never does under its settings".to_owned());
        }
        let reason = outcome.reasons.get(i).copied().unwrap_or(0);
        let known = kind.drops.len();
        return (usize::from(reason) >= known)
            .then(|| format!("drops for a reason of number {reason}, of {known}"));
    }
    if outcome.turned & bit != 0 {
        return (!kind.turns).then(|| "turns packets".to_owned());
    }
    let label = (0..MAX_LABELS).find(|&label| outcome.labels[label] & bit != 0);
    match label {
        None => Some("gives no verdict".to_owned()),
        Some(label) if label > kind.labels.len() => {
            Some(format!("gives label {label}, of {}", kind.labels.len()))
        }
        Some(_) => None,
    }
}

/// The parts that were changed and may not be.
fn wrongly_written(writes: Parts, changed: Changed) -> Vec<String> {
    let mut found = Vec::new();
    for (is, part, name) in [
        (changed.parts[0], Parts::LINK, "writes the link header"),
        (
            changed.parts[1],
            Parts::NETWORK,
            "writes the network header",
        ),
        (
            changed.parts[2],
            Parts::TRANSPORT,
            "writes the transport header",
        ),
        (changed.parts[3], Parts::PAYLOAD, "writes the payload"),
        (
            changed.trailer,
            Parts::LINK.and(Parts::PAYLOAD),
            "writes behind the packet",
        ),
        (
            changed.unread,
            Parts::ALL,
            "writes a packet that can't be read",
        ),
    ] {
        if is && !part.meets(writes) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The differences of a packet from before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changed {
    /// Link, network, transport, payload.
    parts: [bool; 4],
    /// Bytes behind what the network header counts.
    trailer: bool,
    /// It had no parts that could be read.
    unread: bool,
}

fn changed(
    before: &[u8],
    link: LinkType,
    now: &[u8],
    link_now: LinkType,
    options: &ParseOptions,
) -> Changed {
    let mut changed = Changed::default();
    if before == now && link == link_now {
        return changed;
    }
    let Ok(headers) = parse(before, link, options) else {
        changed.unread = true;
        return changed;
    };
    // A packet that can't be parsed any more is compared place by place.
    let headers_now = parse(now, link_now, options).unwrap_or(headers);
    let (old, new) = (parts(before, &headers), parts(now, &headers_now));
    for (is, (old, new)) in changed.parts.iter_mut().zip(old.iter().zip(&new)) {
        *is = old != new;
    }
    changed.parts[0] |= link != link_now;
    changed.trailer = old[4] != new[4];
    changed
}

/// Link header, network header, transport header, payload, and what follows.
/// In an opened tunnel all that is around the inner packet counts as link.
fn parts<'a>(bytes: &'a [u8], headers: &Headers) -> [&'a [u8]; 5] {
    let end = (headers.end as usize).min(bytes.len());
    let l3 = usize::from(headers.l3).min(end);
    let after = |place: u16, least: usize| match usize::from(place) {
        0 => end,
        place => place.clamp(least, end),
    };
    let l4 = after(headers.l4, l3);
    let payload = after(headers.payload, l4);
    [
        &bytes[..l3],
        &bytes[l3..l4],
        &bytes[l4..payload],
        &bytes[payload..end],
        &bytes[end..],
    ]
}
