//! Description of a network function: what it needs, reads, writes and does.

use weir_telemetry::Entry;

/// Everything weir must know of a network function before it sees a packet.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Name in chain files: lower case, words joined by `-`.
    pub name: &'static str,
    /// One line for `weir nf list`.
    pub summary: &'static str,
    /// The manual page: what it does, its limits, the sources it follows.
    /// `weir nf show` prints it before the settings.
    pub manual: &'static str,
    /// How much of a packet must be parsed, and whether flows are needed.
    pub needs: Needs,
    /// Packets that share one state.
    pub scope: Scope,
    /// Parts of a packet that it reads.
    pub reads: Parts,
    /// Parts of a packet that it may change.
    pub writes: Parts,
    /// Reasons for which it drops: the table of an enum made by
    /// [`labels!`](crate::labels).
    pub drops: &'static [Entry],
    /// Labels on its outgoing links after the first (`pass`), in the order of
    /// [`crate::Verdict::Label`], from 1.
    pub labels: &'static [&'static str],
    /// Its own counters ([`crate::Context::count`]): the table of an enum made by
    /// [`labels!`](crate::labels).
    pub counters: &'static [Entry],
    /// Makes packets of its own.
    pub emits: bool,
    /// Writes events ([`crate::Context::event`]).
    pub events: bool,
    /// May send a packet back through the chain ([`crate::Verdict::Turn`]).
    pub turns: bool,
    /// Cycles that a typical packet costs here, the graph compiler's guess
    /// where nothing was measured; 0 where it is not known.
    pub cycles: u32,
    /// Its state depends on something that flows share (leased ports): a
    /// packet must not be applied to it twice.
    pub shares: bool,
    /// Asks for aliases of its flows ([`crate::Context::alias`]).
    pub aliases: bool,
    /// Names that its tally ([`crate::Context::tally`]) has room for; 0 for
    /// no tally.
    pub tally: u32,
    /// Side buffers per state, at most [`Descriptor::MAX_BUFFERS`].
    pub buffers: u8,
    /// Most bytes in one side buffer.
    pub buffer_bytes: u32,
}

impl Descriptor {
    /// Most side buffers of one state.
    pub const MAX_BUFFERS: u8 = 8;

    /// A function that keeps no state, reads the link header and never drops:
    /// the values to start from.
    pub const fn new(name: &'static str, summary: &'static str) -> Descriptor {
        Descriptor {
            name,
            summary,
            manual: "",
            needs: Needs::Link,
            scope: Scope::Flow,
            reads: Parts::NONE,
            writes: Parts::NONE,
            drops: &[],
            labels: &[],
            counters: &[],
            emits: false,
            events: false,
            turns: false,
            cycles: 0,
            shares: false,
            aliases: false,
            tally: 0,
            buffers: 0,
            buffer_bytes: 0,
        }
    }
}

/// How much must be known of a packet before a network function sees it; a
/// chain pays for the most that one of its functions needs, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// The bytes only.
    Link,
    /// The network header's place.
    Network,
    /// All headers.
    Transport,
    /// The flow and its state.
    Flow,
}

/// Parts of a packet, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(u8);

impl Parts {
    /// Nothing.
    pub const NONE: Parts = Parts(0);
    /// Link header and tags.
    pub const LINK: Parts = Parts(1);
    /// Network header.
    pub const NETWORK: Parts = Parts(2);
    /// Transport header.
    pub const TRANSPORT: Parts = Parts(4);
    /// Payload of the transport header.
    pub const PAYLOAD: Parts = Parts(8);
    /// All of it.
    pub const ALL: Parts = Parts(15);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }

    /// True where the sets share a part.
    pub const fn meets(self, other: Parts) -> bool {
        self.0 & other.0 != 0
    }

    /// Names, for people.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (1, "link"),
            (2, "network"),
            (4, "transport"),
            (8, "payload"),
        ]
        .into_iter()
        .filter(move |(bit, _)| self.0 & bit != 0)
        .map(|(_, name)| name)
    }
}

/// Packets that share one state.
///
/// Flows that share a scope key share one state and always have one owner.
/// *Client* is the sender of a flow's first packet, *server* its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A state per flow.
    Flow,
    /// A state per value of these fields of the flow's key.
    Fields(Fields),
    /// A state per key that [`crate::NetworkFunction::scope_key`] computes
    /// from the first packet of a flow; the name says what it is. Two
    /// functions with the same name agree on the key.
    Own(&'static str),
}

impl Scope {
    /// True where every flow that shares a key of `self` shares one of
    /// `other`, that is, where `other` is at least as coarse.
    pub fn within(self, other: Scope) -> bool {
        match (self, other) {
            (Scope::Flow, _) => true,
            (Scope::Fields(fine), Scope::Fields(coarse)) => fine.contains(coarse),
            (Scope::Own(a), Scope::Own(b)) => a == b,
            _ => false,
        }
    }

    /// True where one of the two contains the other, so that both can live in
    /// one stage.
    pub fn nests(self, other: Scope) -> bool {
        self.within(other) || other.within(self)
    }

    /// The scope in words.
    pub fn describe(self) -> String {
        match self {
            Scope::Flow => "flow".to_owned(),
            Scope::Own(name) => name.to_owned(),
            Scope::Fields(fields) => fields.names().collect::<Vec<_>>().join("+"),
        }
    }
}

/// Fields of a flow's key, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(u8);

impl Fields {
    /// Address of the client.
    pub const CLIENT_ADDRESS: Fields = Fields(1);
    /// Port of the client.
    pub const CLIENT_PORT: Fields = Fields(2);
    /// Address of the server.
    pub const SERVER_ADDRESS: Fields = Fields(4);
    /// Port of the server.
    pub const SERVER_PORT: Fields = Fields(8);
    /// Transport protocol.
    pub const PROTOCOL: Fields = Fields(16);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Fields) -> Fields {
        Fields(self.0 | other.0)
    }

    /// The set as a number: a bit per field, five in all.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True where `other` is a part of this set.
    pub const fn contains(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Names, for people.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (1, "client-address"),
            (2, "client-port"),
            (4, "server-address"),
            (8, "server-port"),
            (16, "protocol"),
        ]
        .into_iter()
        .filter(move |(bit, _)| self.0 & bit != 0)
        .map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_nest_where_one_key_gives_the_other() {
        let client = Scope::Fields(Fields::CLIENT_ADDRESS);
        let mapping = Scope::Fields(
            Fields::CLIENT_ADDRESS
                .and(Fields::CLIENT_PORT)
                .and(Fields::PROTOCOL),
        );
        let server = Scope::Fields(Fields::SERVER_ADDRESS);
        assert!(Scope::Flow.within(client) && mapping.within(client));
        assert!(!client.within(mapping) && client.nests(mapping));
        assert!(!client.nests(server));
        assert!(Scope::Own("token").nests(Scope::Flow));
        assert!(!Scope::Own("token").nests(client));
        assert_eq!(mapping.describe(), "client-address+client-port+protocol");
    }
}
