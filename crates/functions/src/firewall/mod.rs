//! Ordered rules on layers 2 to 4 and on the state of connections.

mod either_end;
mod facts;
mod index;
mod reject;
mod rule;
#[cfg(test)]
mod set_tests;
mod sets;
mod shadow;
mod table;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::{ByteSet, HeaderFlags, tcp};
use weir_nf::prelude::*;
use weir_nf::{NamedSet, tcp_seen};

use facts::{Facts, begins_in_the_middle, packet_facts, state};
use index::Index;
pub use rule::{Action, Rule, Written};
use table::{Compiled, Fetched, sets_of};

/// Settings of [`Firewall`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Action on connections that no rule decides: `accept` (the default), `drop` or `reject`.
    pub default: Action,
    /// Rules in order; the first that matches decides. Each is a text such as
    /// `accept tcp from 10.0.0.0/8 to any port 80,443` or a map.
    pub rules: Vec<Written>,
    /// TCP that starts without SYN: `accept` (the default) treats it as new;
    /// `drop` drops it unless a rule with `state: invalid` decides otherwise.
    pub midstream: Midstream,
    /// TCP resets outside of the window of a connection that is accepted: `drop`
    /// (the default; their receiver would ignore them) or `accept`, unless a
    /// rule with `state: invalid` decides otherwise.
    pub resets: Resets,
    /// Action on packets that are not IP if no rule decides: `accept` (the default) or `drop`.
    pub non_ip: NonIp,
    /// Record an event for every connection that the default drops.
    pub log_default: bool,
    /// Connections that are open and that changed rules (`weir reload`) or changed sets (`weir set`)
    /// refuse: `keep` (the default) lets them go on, `drop` drops their packets, `reject` answers
    /// these as well.
    pub on_reload: OnReload,
}

/// Treatment of open connections that changed rules refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnReload {
    /// They go on.
    #[default]
    Keep,
    /// Their packets are dropped.
    Drop,
    /// The same, and their senders are told.
    Reject,
}

/// Action on TCP that starts without SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Midstream {
    /// It is a new connection.
    #[default]
    Accept,
    /// It is dropped unless a rule says otherwise.
    Drop,
}

/// Action on TCP resets outside of their connection's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Resets {
    /// They are dropped unless a rule says otherwise.
    #[default]
    Drop,
    /// They pass.
    Accept,
}

/// Action on packets that are not IP if no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NonIp {
    /// They pass.
    #[default]
    Accept,
    /// They are dropped.
    Drop,
}

const ACCEPT: u8 = 0;
const DROP: u8 = 1;
const REJECT: u8 = 2;
/// Dropped because it started without SYN: a SYN asks again.
const INVALID: u8 = 3;
/// A TCP connection whose first packet here came from its server, in the middle
/// ([`Firewall::joined`]). It is accepted once its client has said something.
const JOINED: u8 = 4;

/// Rule number of the default.
const DEFAULT_RULE: u16 = u16::MAX;

/// The verdict on a flow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Remembered {
    /// Generation of the rules that gave the verdict.
    generation: u32,
    /// Rule that decided; all ones for the default.
    rule: u16,
    verdict: u8,
    /// [`TURNED`], [`PASSED`].
    flags: u8,
}

/// The verdict is on the connection as its server opened it.
const TURNED: u8 = 1;
/// Packets have passed under older rules.
const PASSED: u8 = 2;

impl Remembered {
    /// True if a packet comes from the end that the verdict takes for the client.
    fn is_clients(&self, flow: &FlowInfo<'_>) -> bool {
        flow.to_server() != (self.flags & TURNED != 0)
    }
}

/// Generation of a verdict on an ICMP error about a connection that was not seen:
/// it is on that packet alone, and the connection's own first packet decides.
const UNDECIDED: u32 = 0;

impl State for Remembered {}

/// The function.
#[derive(Debug)]
pub struct Firewall {
    rules: Vec<Compiled>,
    index: Index,
    /// Rules that ask for what differs from packet to packet: indexes.
    per_packet: Vec<u16>,
    /// Values of TCP's flags that some rule of `per_packet` may want.
    wanted_flags: ByteSet,
    /// Headers of packets that must be looked at beyond their flow's verdict.
    special: HeaderFlags,
    generation: u32,
    /// The sets that rules name, each once.
    sets: Vec<NamedSet>,
    /// The same, each with whether it is looked into for a source, and for a destination.
    fetched: Vec<Fetched>,
    /// Open connections that are accepted are looked up again when these have changed.
    cuts_by_sets: bool,
    settings: Settings,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// A `drop` rule matches it, or none does and that is the default.
        Denied = "denied",
        /// A `reject` rule matches it: its sender was told.
        Rejected = "rejected",
        /// It is of no connection that the firewall has seen begin.
        Invalid = "invalid",
        /// It is neither IPv4 nor IPv6, and `non-ip` says to drop it.
        NonIp = "non_ip",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Times that the rules were searched.
        Lookups = "lookups": Counter<Times>,
        /// Flows whose verdict was looked up again after the rules or their sets changed.
        Renewed = "renewed": Counter<Flows>,
        /// Open flows that changed rules refuse, and that go on (`on-reload: keep`).
        Kept = "kept": Counter<Flows>,
        /// Open flows that changed rules have ended (`on-reload: drop` or `reject`).
        Cut = "cut": Counter<Flows>,
        /// Refusals that were sent to senders.
        Answers = "answers",
    }
}

/// A number that differs between rule sets, the same wherever the rules are:
/// FNV-1a over their compiled form. Never 0.
fn generation_of(rules: &[Compiled], settings: &Settings) -> u32 {
    let Settings {
        default,
        midstream,
        on_reload,
        ..
    } = settings;
    let text = format!("{rules:?}{default:?}{midstream:?}{on_reload:?}");
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}

impl Firewall {
    /// Facts about the flow as its client sees it, from its first packet or (when it is looked up
    /// again) any other.
    fn facts(&self, packet: &Packet<'_>, flow: &FlowInfo<'_>, known: Option<&Remembered>) -> Facts {
        let headers = packet.headers();
        let to_server = known.map_or(flow.to_server(), |known| known.is_clients(flow));
        let turned = known.is_some_and(|known| known.flags & TURNED != 0);
        // One that was refused has not been opened, however often it is looked up.
        let passed = |known: &Remembered| {
            matches!(known.verdict, ACCEPT | JOINED) || known.flags & PASSED != 0
        };
        let is_open = known.is_some_and(passed);
        let was_invalid = known.is_some_and(|known| known.verdict == INVALID);
        let known = known.is_some();
        let mut facts = packet_facts(packet);
        facts.state = if is_open {
            state::OPEN
        } else if was_invalid && self.settings.midstream == Midstream::Drop {
            state::INVALID
        } else if known {
            state::NEW
        } else if headers.flags.contains(HeaderFlags::ICMP_ERROR) {
            state::RELATED
        } else if self.settings.midstream == Midstream::Drop && begins_in_the_middle(packet, flow) {
            state::INVALID
        } else {
            state::NEW
        };
        let error = headers.flags.contains(HeaderFlags::ICMP_ERROR);
        // An error about a connection that nobody has seen is judged as it came.
        if !to_server && (known || !error) {
            facts.side = facts.side.opposite();
            facts.ip = facts.ip.map(|(a, b)| (b, a));
            facts.ports = facts.ports.map(|(a, b)| (b, a));
            facts.macs = facts.macs.map(|(a, b)| (b, a));
        }
        if known && error || headers.is_later_fragment() {
            // The packet at hand does not show the connection; its key does.
            let key = flow.key();
            let direction = match turned {
                true => flow.client_direction().opposite(),
                false => flow.client_direction(),
            };
            let (source, source_port) = key.source(direction);
            let (destination, destination_port) = key.destination(direction);
            facts.ip = Some((source, destination));
            facts.proto = key.proto();
            facts.ports =
                matches!(key.proto(), 6 | 17 | 132).then_some((source_port, destination_port));
        }
        facts
    }

    fn find(&self, facts: &Facts) -> Option<(u16, &Compiled)> {
        self.index.find(&self.rules, facts)
    }

    /// Looks the flow up in the rules.
    fn decide(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        known: Option<&Remembered>,
        cx: &mut Context<'_>,
    ) -> Remembered {
        let current = self.current();
        let found = self.judge(packet, flow, known, cx);
        Remembered {
            generation: self.stamp(found.verdict, current),
            ..found
        }
    }

    /// The verdict on a flow, without its generation.
    fn judge(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        known: Option<&Remembered>,
        cx: &mut Context<'_>,
    ) -> Remembered {
        cx.count(Count::Lookups, 1);
        let facts = self.facts(packet, flow, known);
        let mut remembered = Remembered {
            generation: self.generation,
            rule: DEFAULT_RULE,
            verdict: verdict_of(self.settings.default),
            flags: known.map_or(0, |known| {
                known.flags | if known.verdict == ACCEPT { PASSED } else { 0 }
            }),
        };
        let (name, log) = match self.find(&facts) {
            Some((index, rule)) => {
                remembered.rule = index;
                remembered.verdict = verdict_of(rule.action);
                (rule.name.as_str(), rule.log)
            }
            None if facts.state == state::INVALID => {
                remembered.verdict = INVALID;
                ("invalid", self.settings.log_default)
            }
            None => (
                "default",
                self.settings.log_default && remembered.verdict != ACCEPT,
            ),
        };
        if let Some(known) = known.filter(|known| matches!(known.verdict, ACCEPT | JOINED)) {
            match (remembered.verdict, self.settings.on_reload) {
                (ACCEPT, _) => remembered.verdict = known.verdict,
                (_, OnReload::Keep) => {
                    cx.count(Count::Kept, 1);
                    remembered.verdict = known.verdict;
                    return remembered;
                }
                (_, OnReload::Drop) => {
                    cx.count(Count::Cut, 1);
                    remembered.verdict = DROP;
                }
                (_, OnReload::Reject) => {
                    cx.count(Count::Cut, 1);
                    remembered.verdict = REJECT;
                }
            }
        } else if known.is_none()
            && let Some((joined, name, log)) = self.joined(packet, flow, &facts, remembered)
        {
            cx.tally(name.as_bytes(), 1);
            if log {
                report(flow, cx, joined.verdict, name);
            }
            return joined;
        }
        cx.tally(name.as_bytes(), 1);
        if log {
            report(flow, cx, remembered.verdict, name);
        }
        remembered
    }

    /// A rule before the flow's own that asks for what this packet is.
    #[cold]
    fn exception(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        decided: &Remembered,
        cx: &mut Context<'_>,
    ) -> Option<Action> {
        let headers = packet.headers();
        let mut facts = packet_facts(packet);
        facts.state = if headers.flags.contains(HeaderFlags::ICMP_ERROR) {
            state::RELATED
        } else if flow.is_first() {
            state::NEW
        } else {
            state::ESTABLISHED
        };
        if !decided.is_clients(flow) {
            // Rules name the side from which the connection was opened.
            facts.side = facts.side.opposite();
        }
        let rule = self
            .per_packet
            .iter()
            .take_while(|&&index| index < decided.rule)
            .filter_map(|&index| self.rules.get(usize::from(index)))
            .find(|rule| rule.matches(&facts))?;
        cx.tally(rule.name.as_bytes(), 1);
        if rule.log {
            report(flow, cx, verdict_of(rule.action), &rule.name);
        }
        Some(rule.action)
    }

    #[inline(always)]
    fn wants(&self, packet: &Packet<'_>) -> bool {
        let headers = packet.headers();
        headers.flags.intersects(self.special)
            || headers.is_tcp() && self.wanted_flags.contains(headers.tcp_flags)
    }

    /// Any packet: of a flow that is refused or was decided by older rules, or one that rules may
    /// ask for beyond its flow's verdict.
    #[inline(never)]
    fn look_closer(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if !self.is_current(&flow.state) {
            let old = *flow.state;
            let known = old.generation != UNDECIDED;
            let mut new = self.decide(packet, &flow.info, known.then_some(&old), cx);
            if !known && packet.headers().flags.contains(HeaderFlags::ICMP_ERROR) {
                new.generation = UNDECIDED;
            }
            cx.count(Count::Renewed, u64::from(known));
            *flow.state = new;
        }
        let decided = *flow.state;
        let verdict = decided.verdict;
        if self.wants(packet)
            && let Some(action) = self.exception(packet, &flow.info, &decided, cx)
        {
            return match verdict_of(action) {
                ACCEPT => Verdict::Pass,
                other => self.refuse(packet, other, cx),
            };
        }
        if matches!(verdict, ACCEPT | JOINED) && flow.info.tcp_seen() & tcp_seen::RESET_OUTSIDE != 0
        {
            return self.invalid_reset(packet, &flow.info, &decided, cx);
        }
        if verdict == ACCEPT {
            return Verdict::Pass;
        }
        // A connection that was joined in the middle and dropped for it may
        // begin anew with a SYN.
        if verdict == INVALID && packet.headers().tcp_flags & 0x17 == 2 && flow.info.to_server() {
            let mut facts = self.facts(packet, &flow.info, None);
            facts.state = state::NEW;
            let current = self.current();
            let found = self.find(&facts);
            let action = found.map_or(self.settings.default, |(_, rule)| rule.action);
            flow.state.rule = found.map_or(DEFAULT_RULE, |(index, _)| index);
            flow.state.verdict = verdict_of(action);
            flow.state.generation = self.stamp(flow.state.verdict, current);
            if flow.state.verdict == ACCEPT {
                return Verdict::Pass;
            }
        }
        if verdict == JOINED {
            return self.pass_joined(packet, flow, cx);
        }
        if self.opens(packet, flow, cx) {
            return Verdict::Pass;
        }
        let verdict = flow.state.verdict;
        self.refuse(packet, verdict, cx)
    }

    /// A reset of a connection that is accepted, outside of its window.
    #[cold]
    fn invalid_reset(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        decided: &Remembered,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let mut facts = self.facts(packet, flow, Some(decided));
        facts.state = state::INVALID;
        let verdict = match self.find(&facts) {
            Some((_, rule)) => {
                cx.tally(rule.name.as_bytes(), 1);
                if rule.log {
                    report(flow, cx, verdict_of(rule.action), &rule.name);
                }
                verdict_of(rule.action)
            }
            None if self.settings.resets == Resets::Accept => ACCEPT,
            None => INVALID,
        };
        match verdict {
            ACCEPT => Verdict::Pass,
            other => self.refuse(packet, other, cx),
        }
    }

    #[cold]
    fn refuse(&self, packet: &Packet<'_>, verdict: u8, cx: &mut Context<'_>) -> Verdict {
        let reason = match verdict {
            REJECT => {
                if reject::answer(packet, cx) {
                    cx.count(Count::Answers, 1);
                }
                Reason::Rejected
            }
            INVALID => Reason::Invalid,
            _ => Reason::Denied,
        };
        Verdict::Drop(reason.into())
    }
}

fn verdict_of(action: Action) -> u8 {
    match action {
        Action::Accept => ACCEPT,
        Action::Drop => DROP,
        Action::Reject => REJECT,
    }
}

fn report(flow: &FlowInfo<'_>, cx: &mut Context<'_>, verdict: u8, rule: &str) {
    if !cx.wants_events() {
        return;
    }
    let kind = if verdict == ACCEPT { "accept" } else { "drop" };
    let reason = match verdict {
        ACCEPT => "accepted",
        REJECT => "rejected",
        INVALID => "invalid",
        _ => "denied",
    };
    cx.event(kind, flow)
        .object(kind)
        .text("reason", reason)
        .text("rule", rule)
        .end();
}

fn compile(index: usize, written: &Written, set_up: &SetUp<'_>) -> Result<Compiled, SettingsError> {
    let path = format!("rules[{index}]");
    match written {
        Written::Map(rule) => Compiled::with_sets(index, rule, &|name| set_up.set("", name)),
        Written::Text(text) => {
            let rule = Rule::parse(text).map_err(|fault| {
                SettingsError::new(
                    path.clone(),
                    format!("character {}: {}", fault.column, fault.message),
                )
                .help("a rule reads like `accept tcp from 10.0.0.0/8 to any port 80,443`")
            })?;
            let find = |name: &str| {
                set_up.set(&path, name).map_err(|mut error| {
                    let before = text.find(&format!("@{name}")).and_then(|at| text.get(..at));
                    let column = before.map_or(0, |before| before.chars().count()) + 1;
                    error.message = format!("character {column}: {}", error.message);
                    error
                })
            };
            Compiled::with_sets(index, &rule, &find)
        }
    }
}

impl NetworkFunction for Firewall {
    type Settings = Settings;
    type State = Remembered;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: MANUAL,
        needs: Needs::Flow,
        // An answer to what was refused quotes its payload.
        reads: Parts::ALL,
        drops: Reason::TABLE,
        counters: Count::TABLE,
        emits: true,
        tally: 1_024,
        events: true,
        cycles: 10,
        ..Descriptor::new(
            "firewall",
            "Ordered rules on layers 2 to 4 and on the state of connections",
        )
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<Firewall, SettingsError> {
        if settings.rules.len() >= usize::from(DEFAULT_RULE) {
            return Err(SettingsError::new(
                "rules",
                "a firewall has at most 65,534 rules",
            ));
        }
        let mut rules = Vec::with_capacity(settings.rules.len());
        let mut wrong = Vec::new();
        for (index, written) in settings.rules.iter().enumerate() {
            match compile(index, written, set_up) {
                Ok(rule) => rules.push(rule),
                Err(error) => wrong.push(error),
            }
        }
        SettingsError::all(wrong)?;
        for warning in shadow::warnings(&rules) {
            set_up.warn_at(warning);
        }
        if rules.is_empty() && settings.default == Action::Accept {
            set_up.warn("no rules, and everything is accepted by default");
        }
        let related = rules.iter().any(Compiled::asks_related);
        let mut special = HeaderFlags::EMPTY;
        if related {
            special |= HeaderFlags::ICMP_ERROR;
        }
        if rules.iter().any(Compiled::asks_icmp) {
            special |= HeaderFlags::ICMP | HeaderFlags::ICMPV6;
        }
        let resets = settings.resets == Resets::Drop || rules.iter().any(Compiled::asks_invalid);
        let wanted_flags = (0..=255)
            .filter(|&flags| {
                resets && flags & tcp::flag::RST != 0
                    || rules.iter().any(|rule| rule.may_meet_flags(flags))
            })
            .collect();
        let per_packet = rules
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.is_per_packet() || rule.asks_related())
            .map(|(index, _)| index as u16)
            .collect();
        let (sets, fetched) = sets_of(&rules);
        Ok(Firewall {
            fetched,
            generation: generation_of(&rules, &settings),
            cuts_by_sets: settings.on_reload != OnReload::Keep && !sets.is_empty(),
            sets,
            index: Index::new(&rules),
            rules,
            per_packet,
            wanted_flags,
            special,
            settings,
        })
    }

    fn sets(&self) -> Vec<NamedSet> {
        self.sets.clone()
    }

    fn open(
        &self,
        packet: &Packet<'_>,
        flow: &FlowInfo<'_>,
        cx: &mut Context<'_>,
    ) -> Result<Remembered, DropReason> {
        if packet.headers().flags.contains(HeaderFlags::ICMP_ERROR) {
            return Ok(Remembered {
                generation: UNDECIDED,
                rule: DEFAULT_RULE,
                verdict: DROP,
                flags: 0,
            });
        }
        Ok(self.decide(packet, flow, None, cx))
    }

    #[inline(always)]
    fn show(&self, state: &Remembered, (): &(), shown: &mut Shown) {
        if state.generation == UNDECIDED {
            shown.text("verdict", "undecided");
            return;
        }
        let verdict = match state.verdict {
            ACCEPT => "accept",
            DROP => "drop",
            REJECT => "reject",
            JOINED => "accept (joined in the middle, by its server)",
            _ => "invalid",
        };
        shown.text("verdict", verdict);
        // A number is of the rules that gave the verdict.
        match self.rules.get(usize::from(state.rule)) {
            _ if state.rule == DEFAULT_RULE => shown.text("rule", "default"),
            Some(rule) if self.is_current(state) => shown.text("rule", &rule.name),
            _ => shown.number("rule", state.rule),
        };
        shown.flag("current_rules", self.is_current(state));
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let Remembered {
            generation,
            verdict,
            ..
        } = *flow.state;
        let accepted = match self.cuts_by_sets {
            true => self.current(),
            false => self.generation,
        };
        if generation == accepted && verdict == ACCEPT && !self.wants(packet) {
            return Verdict::Pass;
        }
        self.look_closer(&mut packet.reborrow(), &mut flow.reborrow(), cx)
    }

    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        if !self.sets.is_empty() {
            self.fetch_sets(burst);
        }
        burst.for_each(self, cx);
    }

    fn without_flow(&self, packet: &mut Packet<'_>, cx: &mut Context<'_>) -> Verdict {
        let facts = packet_facts(packet);
        let (action, name) = match self.find(&facts) {
            Some((_, rule)) => (rule.action, rule.name.as_str()),
            None if facts.ip.is_some() => (self.settings.default, "default"),
            None if self.settings.non_ip == NonIp::Accept => return Verdict::Pass,
            None => return Verdict::Drop(Reason::NonIp.into()),
        };
        cx.tally(name.as_bytes(), 1);
        match verdict_of(action) {
            ACCEPT => Verdict::Pass,
            other => self.refuse(packet, other, cx),
        }
    }
}

const MANUAL: &str = "\
Decides by an ordered list of rules which connections pass. The first rule that
matches the first packet of a connection decides on all of it, replies and ICMP
errors about it included; a rule for replies is not needed. The verdict is
remembered with the generation of the rules, so rules are searched once per
connection, and once more after the rules have changed (`weir reload`). A connection
that was open and that the changed rules refuse goes on, unless `on-reload` says
otherwise. Without a matching rule `default` decides. What was refused in one direction may still be opened in the
other: a packet the other way is judged as the first of a connection.

TCP that was open before this firewall was is judged by its first packet here
(`midstream: accept`). Where that is the server's, it passes if rules accept the
connection as its client would have opened it, and no SYN of the server's passes
until the client has said something. So an outsider's segment without SYN may
reach a host inside that may open connections; `midstream: drop` lets none in.

A rule is a map (see the settings) or a text:

  ACTION [in|out] [PROTOCOL[,...]] [from [not] NETWORK[,...]|any [port [not] PORTS]]
         [to [not] NETWORK[,...]|any [port [not] PORTS]] [icmp-type TYPES]
         [flags [!]FLAG[,...]] [state STATES] [vlan IDS] [ethertype TYPES]
         [from-mac MAC[,...]] [to-mac MAC[,...]] [log] [name NAME]

  ACTION is accept, drop or reject; PROTOCOL is tcp, udp, sctp, icmp, icmpv6,
  gre, esp, or `proto NUMBER`; NETWORK is a prefix, or `@NAME` for a set of the
  chain file; PORTS are numbers and ranges: 80,8000-8999.

  accept tcp from 10.0.0.0/8 to any port 80,443
  drop in from not 192.0.2.0/24 to any port 22 log
  reject udp to 2001:db8::/32 port 53
  drop in from @blocked

What is in a set changes while packets flow (`weir set add`): new connections are
judged by what is in it then. Those that are refused are looked up again at their
next packet, those that are accepted only with `on-reload: drop` or `reject`.

A TCP reset ends what is known of a connection only where it has the sequence number
that its receiver expects (RFC 5961). One that is elsewhere in the window passes and
ends nothing yet: the connection is over if it says nothing for `tcp-closing`. One
outside of the window is dropped as `invalid`: a rule with `state invalid` may decide
otherwise, and so may `resets: accept`.

Conditions on TCP flags, ICMP types and `state related` are checked on every
packet, if they stand before the rule that decided on the connection. `in`
means a connection that was opened from outside.

Packets that are not IP are decided by the rules that name an ethertype, a VLAN
or a MAC address, then by `non-ip`. IP packets that belong to no connection
(a fragment whose first part was never seen) are decided by the rules that need
no port, then by `default`.

`reject` answers TCP with a reset (RFC 9293), all else with ICMP 3/13 or ICMPv6
1/1; errors, resets, fragments, groups and packets in tunnels get no answer.

Counts per rule (connections decided, packets for per-packet conditions) are in
the tally under the rule's name.";
