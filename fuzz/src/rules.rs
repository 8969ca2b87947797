//! Any text as rules: errors have places that exist, what parses compiles, and
//! what a stream alerts does not depend on how it was cut.

use std::net::{IpAddr, Ipv4Addr};

use weir_signatures::{
    AppProtocol, Application, CompileOptions, DecodeEvents, FlowContext, FlowVars, PacketView,
    ParseOptions, RuleSet, Scratch, StreamBytes, StreamEvents, StreamState, TcpFields, Unsupported,
    Variables, parse_rules_lossy, view,
};

use crate::input::Input;

/// Rules; behind a NUL a byte that says how to cut, and a stream.
pub fn run(data: &[u8]) {
    let split = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    let (rules, rest) = data.split_at(split);
    let rules = String::from_utf8_lossy(rules);
    let mut rest = Input(rest.get(1..).unwrap_or(&[]));
    let seed = rest.u8();
    let stream = rest.bytes(2_000);
    for unsupported in [Unsupported::Refuse, Unsupported::Skip] {
        let (parsed, errors) = parse_rules_lossy(
            &rules,
            &Variables::stock(),
            ParseOptions {
                unsupported,
                ..ParseOptions::default()
            },
        );
        let lines: Vec<&str> = rules.split('\n').collect();
        for error in errors {
            let line = lines
                .get(error.line.wrapping_sub(1))
                .expect("the line exists");
            assert!(
                error.column >= 1 && error.column <= line.chars().count() + 1,
                "{error}"
            );
            assert!(error.length >= 1 && !error.message.is_empty());
        }
        if unsupported == Unsupported::Refuse {
            continue;
        }
        if let Ok(set) = RuleSet::compile(parsed.rules, CompileOptions::default()) {
            packets(&set, stream);
            let whole = alerts(&set, stream, &[stream.len()]);
            let cut = alerts(&set, stream, &cuts(stream.len(), seed));
            assert_eq!(whole, cut, "alerts depend on the cut");
        }
    }
}

fn flow(protocol: u8) -> FlowContext {
    FlowContext {
        source: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
        destination: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
        source_port: 50_000,
        destination_port: 80,
        protocol,
        to_server: true,
        established: true,
        application: Application::Known(AppProtocol::Http),
    }
}

fn packets(set: &RuleSet, payload: &[u8]) {
    let mut scratch = Scratch::new(set.len());
    for protocol in [view::TCP, view::UDP, view::ICMP] {
        let packet = PacketView {
            flow: flow(protocol),
            payload,
            in_stream: false,
            stream_bytes: None,
            stream_events: StreamEvents::NONE,
            first_in_direction: true,
            first_decided: true,
            events: DecodeEvents::NONE,
            reassembled: false,
            ttl: 64,
            ip_id: Some(1),
            ip_options: &[],
            network_header: &[],
            transport_header: &[],
            tcp: (protocol == view::TCP).then(TcpFields::default),
            icmp: None,
        };
        set.inspect_packet(&packet, &mut FlowVars::default(), &mut scratch, &mut |_| {});
    }
}

/// Where to cut a stream of this length: 1 to 7 bytes a piece.
fn cuts(length: usize, seed: u8) -> Vec<usize> {
    let (mut at, mut state, mut cuts) = (0, u32::from(seed) | 1, Vec::new());
    while at < length {
        state = state.wrapping_mul(0x9E37_79B1).rotate_left(7);
        at = length.min(at + 1 + (state % 7) as usize);
        cuts.push(at);
    }
    cuts
}

/// Numbers of the rules that alert, in order.
fn alerts(set: &RuleSet, stream: &[u8], cuts: &[usize]) -> Vec<u32> {
    let (mut state, mut bits) = (StreamState::default(), FlowVars::default());
    let mut scratch = Scratch::new(set.len());
    let mut sids = Vec::new();
    let mut from = 0;
    for &to in cuts {
        let bytes = StreamBytes {
            window: stream.get(..to).unwrap_or(stream),
            new_from: from,
            offset: 0,
            last: to == stream.len(),
        };
        let flow = flow(view::TCP);
        set.inspect_stream(
            &flow,
            &mut state,
            &bytes,
            &mut bits,
            &mut scratch,
            &mut |alert| {
                sids.push(alert.rule.sid);
            },
        );
        from = to;
    }
    sids.sort_unstable();
    sids
}
