//! What the tests share. Not every test uses all of it.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod capture;
pub mod dissected;
pub mod session;
pub mod traces;

use weir_signatures::*;

/// A compiled set of rules that must be right.
pub fn rule_set(text: &str) -> RuleSet {
    let rules = match parse_rules(text, &Variables::stock()) {
        Ok(rules) => rules,
        Err(errors) => panic!("{text}: {errors:?}"),
    };
    RuleSet::compile(rules, CompileOptions::default()).unwrap()
}

pub fn flow(protocol: u8) -> FlowContext {
    FlowContext {
        source: "10.0.0.1".parse().unwrap(),
        destination: "192.0.2.1".parse().unwrap(),
        source_port: 50_000,
        destination_port: 80,
        protocol,
        to_server: true,
        established: true,
        application: Application::Undecided,
    }
}

pub fn packet(protocol: u8, payload: &[u8]) -> PacketView<'_> {
    let tcp = (protocol == view::TCP).then_some(TcpFields {
        flags: 0x18,
        sequence: 1000,
        acknowledgement: 2000,
        window: 512,
    });
    PacketView {
        flow: flow(protocol),
        payload,
        in_stream: false,
        stream_bytes: None,
        stream_events: StreamEvents::NONE,
        first_in_direction: true,
        first_decided: false,
        events: DecodeEvents::NONE,
        reassembled: false,
        ttl: 64,
        ip_id: Some(77),
        ip_options: &[],
        network_header: &[],
        transport_header: &[],
        tcp,
        icmp: None,
    }
}

/// The rules that match a packet of a flow of its own, in the order of the alerts.
pub fn sids(set: &RuleSet, packet: &PacketView<'_>) -> Vec<u32> {
    let mut sids = Vec::new();
    set.inspect_packet(
        packet,
        &mut FlowVars::default(),
        &mut Scratch::new(set.len()),
        &mut |alert| sids.push(alert.rule.sid),
    );
    sids
}

/// The state of a flow's direction from zero, and the bytes that were given.
pub struct Stream<'a> {
    pub set: &'a RuleSet,
    pub flow: FlowContext,
    pub state: StreamState,
    pub bits: FlowVars,
    pub scratch: Scratch,
    pub bytes: Vec<u8>,
    /// Old bytes given with new ones, at most.
    pub window: usize,
    /// (sid, offset where the match ends)
    pub alerts: Vec<(u32, u64)>,
}

impl<'a> Stream<'a> {
    pub fn new(set: &'a RuleSet) -> Self {
        Stream {
            set,
            flow: flow(view::TCP),
            state: StreamState::default(),
            bits: FlowVars::default(),
            scratch: Scratch::new(set.len()),
            bytes: Vec::new(),
            window: usize::MAX,
            alerts: Vec::new(),
        }
    }

    pub fn give(&mut self, bytes: &[u8], last: bool) -> &mut Self {
        let new_from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        let start = new_from.saturating_sub(self.window);
        let bytes = StreamBytes {
            window: &self.bytes[start..],
            new_from: new_from - start,
            offset: start as u64,
            last,
        };
        let alerts = &mut self.alerts;
        self.set.inspect_stream(
            &self.flow,
            &mut self.state,
            &bytes,
            &mut self.bits,
            &mut self.scratch,
            &mut |alert| match alert.matched_in {
                MatchedIn::Stream(end) => alerts.push((alert.rule.sid, end)),
                MatchedIn::Packet | MatchedIn::Message => {
                    panic!("an alert in a packet that was not given")
                }
            },
        );
        self
    }
}
