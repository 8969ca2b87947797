//! Matches packets against a watch's filter.

use weir_packet::filter::{Ends, Facts, Filter};
use weir_runtime::watch::Seen;

/// True if the filter matches the packet's own addresses, those of a packet that
/// it quotes, or those of its flow.
pub(super) fn matches(filter: &Filter, seen: &Seen<'_>) -> bool {
    if filter.takes_all() {
        return true;
    }
    let Some(headers) = seen.headers else {
        return false;
    };
    let own = Facts::of_packet(seen.bytes, headers);
    let mut facts = own.facts();
    facts.chain = Some(seen.chain);
    let mut names = [Ends {
        source: ([0, 0, 0, 0].into(), 0),
        destination: ([0, 0, 0, 0].into(), 0),
        protocol: 0,
    }; 3];
    let mut known = 0;
    for (place, name) in names.iter_mut().zip(facts.names) {
        *place = *name;
        known += 1;
    }
    if let Some(flow) = &seen.flow {
        if let Some(place) = names.get_mut(known) {
            *place = Ends::of(&flow.key, flow.direction);
            known += 1;
        }
        facts.phase = Some(flow.phase);
        facts.id = Some(flow.id);
        facts.to_server = Some(flow.to_server);
    }
    facts.names = names.get(..known).unwrap_or(&[]);
    filter.matches(&facts)
}
