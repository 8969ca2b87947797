//! The flow monitor, run by the engine.

use serde_json::Value;
use weir_functions::monitor::{Monitor, Settings};
use weir_packet::Side;
use weir_runtime::harness::{Craft, Harness};

fn events(harness: &mut Harness) -> Vec<Value> {
    let lines = harness.events();
    lines
        .iter()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect()
}

/// Opens, uses and closes a connection; gives the bytes each way.
fn connection(harness: &mut Harness, client: &str, server: &str) -> [usize; 2] {
    let mut bytes = [0; 2];
    let mut send = |way: usize, flags: &str, seq: u32, ack: u32, payload: &[u8]| {
        let (source, destination) = if way == 0 {
            (client, server)
        } else {
            (server, client)
        };
        let frame = Craft::tcp(source, destination)
            .flags(flags)
            .seq(seq)
            .ack(ack)
            .payload(payload)
            .build();
        bytes[way] += frame.len();
        let side = if way == 0 {
            Side::Inside
        } else {
            Side::Outside
        };
        assert_eq!(harness.send_from(side, &frame).len(), 1);
        harness.advance_ms(500);
    };
    send(0, "S", 100, 0, b"");
    send(1, "SA", 700, 101, b"");
    send(0, "A", 101, 701, b"");
    send(0, "PA", 101, 701, b"question");
    send(1, "PA", 701, 109, b"a longer answer");
    send(0, "FA", 109, 716, b"");
    send(1, "FA", 716, 110, b"");
    send(0, "A", 110, 717, b"");
    bytes
}

#[test]
fn a_connection_leaves_one_record() {
    for (client, server) in [
        ("10.0.0.9:40000", "192.0.2.1:80"),
        ("192.0.2.200:40000", "10.0.0.1:80"),
        ("[2001:db8::1]:40000", "[2001:db8::2]:80"),
    ] {
        let mut harness = Harness::of::<Monitor>(Settings::default());
        let start = harness.now();
        let bytes = connection(&mut harness, client, server);
        harness.advance_ms(300_000);
        harness.send(&Craft::udp("10.9.9.9:1", "10.9.9.8:2").build());
        harness.finish();
        let events = events(&mut harness);
        assert_eq!(events.len(), 2, "{events:?}");
        let event = events.iter().find(|event| event["proto"] == "TCP").unwrap();
        assert_eq!(event["event_type"], "flow");
        assert_eq!(event["src_port"], 40_000);
        assert_eq!(event["dest_port"], 80);
        let flow = &event["flow"];
        assert_eq!(flow["pkts_toserver"], 5);
        assert_eq!(flow["pkts_toclient"], 3);
        assert_eq!(flow["bytes_toserver"], bytes[0]);
        assert_eq!(flow["bytes_toclient"], bytes[1]);
        assert_eq!(flow["start"], start.to_string());
        assert_eq!(flow["end"], start.plus(3_500_000_000).to_string());
        assert_eq!(flow["age"], 3);
        assert_eq!(flow["state"], "closed");
        assert_eq!(flow["reason"], "finished");
        assert_eq!(event["tcp"]["tcp_flags_ts"], "1b");
        assert_eq!(event["tcp"]["tcp_flags_tc"], "1b");
        assert_eq!(event["tcp"]["syn"], true);
        assert_eq!(event["tcp"].get("rst"), None);
    }
}

#[test]
fn long_flows_are_recorded_while_they_last() {
    let settings = Settings {
        active_timeout: 60,
        ..Settings::default()
    };
    let mut harness = Harness::of::<Monitor>(settings);
    let frame = Craft::udp("10.0.0.1:1", "192.0.2.1:2").build();
    for _ in 0..=15 {
        harness.send(&frame);
        harness.advance_ms(10_000);
    }
    let active = events(&mut harness);
    let packets: Vec<_> = active
        .iter()
        .map(|e| e["flow"]["pkts_toserver"].clone())
        .collect();
    assert_eq!(
        packets,
        [7, 13],
        "at 60 and at 120 seconds, counted from the start"
    );
    assert!(active.iter().all(|e| e["flow"]["reason"] == "active"));
    harness.finish();
    let last = events(&mut harness);
    assert_eq!(last.len(), 1);
    assert_eq!(last[0]["flow"]["reason"], "shutdown");
    assert_eq!(last[0]["flow"]["pkts_toserver"], 16);
    assert_eq!(last[0]["flow"]["state"], "new");
}

#[test]
fn all_traffic_is_counted_by_what_it_is() {
    let mut harness = Harness::of::<Monitor>(Settings {
        events: false,
        ..Settings::default()
    });
    let frames = [
        Craft::udp("10.0.0.1:1", "192.0.2.1:2").build(),
        Craft::tcp("[2001:db8::1]:1", "[2001:db8::2]:2").build(),
        Craft::ping("10.0.0.1:1", "192.0.2.1:1").build(),
        Craft::ping("[2001:db8::1]:1", "[2001:db8::2]:1").build(),
        Craft::udp("10.0.0.1:1", "192.0.2.1:2")
            .fragment(0x2000)
            .payload(&[0; 32])
            .build(),
        [
            [0xff; 12].as_slice(),
            &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1],
            &[0; 38],
        ]
        .concat(),
        vec![0x55; 70],
    ];
    for frame in &frames {
        harness.queue(Side::Inside, frame);
    }
    harness.flush();
    let count = |name| harness.counter("monitor", name);
    assert_eq!(count("packets"), 7);
    assert_eq!(
        count("bytes"),
        frames.iter().map(|f| f.len() as u64).sum::<u64>()
    );
    let kinds = ["ipv4", "ipv6", "arp", "other_network"].map(count);
    assert_eq!(kinds, [3, 2, 1, 1]);
    let kinds = ["tcp", "udp", "icmp", "icmpv6", "sctp", "other_transport"].map(count);
    assert_eq!(kinds, [1, 2, 1, 1, 0, 0]);
    assert_eq!(count("fragments"), 1);
    harness.finish();
    assert!(harness.events().is_empty());
}

#[test]
fn each_tag_is_counted_by_its_id() {
    let mut harness = Harness::of::<Monitor>(Settings::default());
    let base = || Craft::udp("10.0.0.1:1", "192.0.2.1:2");
    harness.queue(Side::Inside, &base().build());
    harness.queue(Side::Inside, &base().vlan(7).build());
    harness.queue(Side::Inside, &base().vlan(7).vlan(8).build());
    harness.queue(
        Side::Inside,
        &base().vlan(7).vlan(8).vlan(9).vlan(7).build(),
    );
    harness.flush();
    let report = harness.finish();
    let tally = [("vlan.7", 4), ("vlan.8", 2), ("vlan.9", 1)].map(|(n, c)| (n.to_owned(), c));
    assert_eq!(report.functions[0].tally, tally);
    assert_eq!(harness.counter("monitor", "vlan_tags"), 7);
}

#[test]
fn a_time_out_without_events_is_refused() {
    let settings = Settings {
        events: false,
        active_timeout: 60,
        ..Settings::default()
    };
    let error = Harness::builder().with::<Monitor>(settings).err().unwrap();
    assert_eq!(error.path, "active-timeout");
}
