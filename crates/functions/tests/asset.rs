//! The asset monitor, run by the engine over packets as real hosts send them.

use serde_json::Value;
use weir_functions::asset::{AssetMonitor, Settings};
use weir_packet::Side;
use weir_runtime::harness::{Craft, Harness};

fn assets(harness: &mut Harness) -> Vec<Value> {
    let lines = harness.events();
    let events = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    events
        .map(|event| {
            assert_eq!(event["event_type"], "asset");
            event["asset"].clone()
        })
        .collect()
}

const LINUX: [u8; 20] = [
    2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
];
const WINDOWS: [u8; 12] = [2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2];
const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "192.0.2.1:80";

#[test]
fn systems_are_told_by_their_first_segments() {
    let mut harness = Harness::of::<AssetMonitor>(Settings::default());
    let syn = Craft::tcp(CLIENT, SERVER)
        .flags("S")
        .window(64_240)
        .options(&LINUX)
        .ttl(61);
    harness.send(&syn.build());
    let answer = Craft::tcp(SERVER, CLIENT)
        .flags("SA")
        .window(8_192)
        .options(&WINDOWS)
        .ttl(119);
    harness.send_from(Side::Outside, &answer.build());
    let strange = Craft::tcp("10.0.0.3:1", SERVER)
        .flags("S")
        .window(1)
        .options(&[3, 3, 9])
        .ttl(50);
    harness.send(&strange.build());
    let found = assets(&mut harness);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0]["kind"], "os");
    assert_eq!(found[0]["ip"], "10.0.0.1");
    assert_eq!(found[0]["detail"], "Linux 4.20 or newer");
    assert_eq!(found[0]["distance"], 3);
    assert_eq!(
        found[0]["fingerprint"],
        "4:61+3:0:1460:64240,7:mss,sok,ts,nop,ws:"
    );
    assert_eq!(found[1]["ip"], "192.0.2.1");
    assert_eq!(found[1]["port"], 80);
    assert_eq!(found[1]["detail"], "Windows Vista to 8");
    assert_eq!(found[1]["distance"], 9);
    assert_eq!(found[2]["detail"], "unknown");
    assert_eq!(found[2]["fingerprint"], "4:50+14:0:*:1,9:ws,eol:");
    assert_eq!(harness.counter("asset-monitor", "unknown_systems"), 1);
    harness.finish();
}

#[test]
fn an_asset_is_reported_once() {
    let mut harness = Harness::of::<AssetMonitor>(Settings::default());
    for port in 1..=50 {
        let syn = Craft::tcp(&format!("10.0.0.1:{port}"), SERVER)
            .flags("S")
            .options(&LINUX);
        harness.send(&syn.build());
        harness.send(&syn.build());
    }
    assert_eq!(assets(&mut harness).len(), 1);
    let report = harness.finish();
    let name = "os 10.0.0.1 Linux 4.20 or newer".to_owned();
    assert_eq!(report.functions[0].tally, [(name, 50)]);
}

#[test]
fn services_and_clients_name_themselves() {
    for (client, server) in [
        (CLIENT, SERVER),
        ("[2001:db8::1]:40000", "[2001:db8::2]:80"),
    ] {
        let mut harness = Harness::of::<AssetMonitor>(Settings::default());
        let open = [
            (
                Side::Inside,
                Craft::tcp(client, server).flags("S").seq(9).ack(0),
            ),
            (
                Side::Outside,
                Craft::tcp(server, client).flags("SA").seq(99).ack(10),
            ),
            (Side::Inside, Craft::tcp(client, server).seq(10).ack(100)),
            (
                Side::Inside,
                Craft::tcp(client, server)
                    .seq(10)
                    .ack(100)
                    .payload(b"GET / HTTP/1.1\r\nUser-Agent: curl/8.0\r\n\r\n"),
            ),
            (
                Side::Outside,
                Craft::tcp(server, client)
                    .seq(100)
                    .ack(50)
                    .payload(b"HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n"),
            ),
        ];
        for (side, packet) in open {
            harness.send_from(side, &packet.build());
        }
        let found = assets(&mut harness);
        let of = |kind: &str| found.iter().find(|asset| asset["kind"] == kind).unwrap();
        assert_eq!(of("client")["detail"], "curl/8.0");
        assert_eq!(of("client").get("port"), None);
        assert_eq!(of("service")["detail"], "nginx");
        assert_eq!(of("service")["port"], 80);
        assert_eq!(of("service")["service"], "http");
        harness.finish();
    }
}

/// Of a connection that was under way the side with the lower port is the server.
#[test]
fn banners_are_known_in_the_middle_of_a_connection() {
    let mut harness = Harness::of::<AssetMonitor>(Settings::default());
    let banner =
        Craft::tcp("192.0.2.1:22", "10.0.0.1:40000").payload(b"SSH-2.0-dropbear_2022.83\r\n");
    harness.send_from(Side::Outside, &banner.build());
    let found = assets(&mut harness);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (&found[0]["kind"], &found[0]["port"]),
        (&"service".into(), &22.into())
    );
    assert_eq!(found[0]["detail"], "dropbear_2022.83");
}

fn arp(ip: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9]);
    frame.extend(ip);
    frame.extend([0; 24]);
    frame
}

#[test]
fn neighbours_are_known_by_arp_and_discovery() {
    let mut harness = Harness::of::<AssetMonitor>(Settings::default());
    harness.send(&arp([0, 0, 0, 0]));
    harness.send(&arp([10, 0, 0, 9]));
    harness.send(&arp([10, 0, 0, 9]));
    // An advertisement: flags, target, option 2 (target link-layer address).
    let mut body = "2001:db8::9"
        .parse::<std::net::Ipv6Addr>()
        .unwrap()
        .octets()
        .to_vec();
    body.extend([2, 1, 2, 0, 0, 0, 0, 10]);
    let advertise = |hops| {
        Craft::ping("[2001:db8::9]:8192", "[2001:db8::1]:0")
            .icmp(136, 0)
            .ttl(hops)
            .payload(&body)
            .build()
    };
    harness.send(&advertise(64));
    harness.send(&advertise(255));
    let found = assets(&mut harness);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (&found[0]["ip"], &found[0]["mac"]),
        (&"10.0.0.9".into(), &"02:00:00:00:00:09".into())
    );
    assert_eq!(found[1]["ip"], "2001:db8::9");
    assert_eq!(found[1]["mac"], "02:00:00:00:00:0a");
    harness.finish();
}

#[test]
fn only_the_networks_asked_for_are_reported() {
    let settings = Settings {
        networks: "10.0.0.0/8".into(),
        ..Settings::default()
    };
    let mut harness = Harness::of::<AssetMonitor>(settings);
    let syn = Craft::tcp(CLIENT, SERVER).flags("S").options(&LINUX);
    let answer = Craft::tcp(SERVER, CLIENT).flags("SA").options(&LINUX);
    harness.send(&syn.build());
    harness.send_from(Side::Outside, &answer.build());
    assert_eq!(assets(&mut harness).len(), 1);
    let settings = Settings {
        networks: "10.0.0.0/33".into(),
        ..Settings::default()
    };
    let error = Harness::builder()
        .with::<AssetMonitor>(settings)
        .err()
        .unwrap();
    assert_eq!(error.path, "networks");
}

#[test]
fn datagrams_show_services_and_clients() {
    let mut harness = Harness::of::<AssetMonitor>(Settings::default());
    let question = Craft::udp("10.0.0.1:5000", "192.0.2.53:53")
        .payload(&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    let answer = Craft::udp("192.0.2.53:53", "10.0.0.1:5000")
        .payload(&[0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0, 1]);
    harness.send(&question.build());
    harness.send_from(Side::Outside, &answer.build());
    let mut dhcp = vec![0; 240];
    dhcp[..3].copy_from_slice(&[1, 1, 6]);
    dhcp[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    dhcp.extend([12, 2, b'p', b'c', 55, 3, 1, 3, 6, 255]);
    // Several hosts in the one flow from nobody to all.
    for host in 1..=9 {
        dhcp[33] = host;
        harness.send(
            &Craft::udp("0.0.0.0:68", "255.255.255.255:67")
                .payload(&dhcp)
                .build(),
        );
    }
    let found = assets(&mut harness);
    assert_eq!(found.len(), 10, "{found:?}");
    assert_eq!(
        (&found[0]["service"], &found[0]["ip"]),
        (&"dns".into(), &"192.0.2.53".into())
    );
    assert_eq!(
        (&found[9]["detail"], &found[9]["fingerprint"]),
        (&"pc".into(), &"1,3,6".into())
    );
    assert_eq!(found[9]["mac"], "00:00:00:00:00:09");
}
