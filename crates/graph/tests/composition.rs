//! Compositions that are right, and what is said of those that are not.

use weir_graph::{Composition, Diagnostic, is_composition, load_composition, render};

const WHOLE: &str = "\
composition: edge
chain: webedge.yaml
hosts:
  - {name: alpha, runtimes: 1}
  - {name: beta, runtimes: 2}
switch: alpha
ports:
  in: [gen:packets=10, lan=x.pcap]
  out: null
replication: each-burst
heartbeat: 250ms
set: [firewall.default=drop]
";

fn read(text: &str) -> Result<Composition, Vec<Diagnostic>> {
    load_composition("cluster.yaml", text)
}

#[test]
fn a_composition_is_read_as_it_is_meant() {
    let read = read(WHOLE).unwrap_or_else(|errors| panic!("{}", render(&errors)));
    assert_eq!(
        (
            read.name.as_str(),
            read.chain.value.as_str(),
            read.switch.as_str()
        ),
        ("edge", "webedge.yaml", "alpha")
    );
    let hosts = read
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.runtimes));
    assert_eq!(hosts.collect::<Vec<_>>(), [("alpha", 1), ("beta", 2)]);
    assert_eq!(read.runtimes(), 3);
    let ports = |ports: &[weir_graph::Placed<String>]| -> Vec<String> {
        ports.iter().map(|port| port.value.clone()).collect()
    };
    assert_eq!(ports(&read.inputs), ["gen:packets=10", "lan=x.pcap"]);
    assert_eq!(ports(&read.outputs), ["null"]);
    assert_eq!(read.replication.as_ref().unwrap().value, "each-burst");
    assert_eq!((read.heartbeat_ms, read.dispatch), (Some(250), None));
    assert_eq!(read.set[0].path, "firewall.default");
    // What a driver finds wrong is told at the value.
    let fault = read.fault(&read.inputs[1], "no such port", Some("write another"));
    assert_eq!((fault.line, fault.column, fault.length), (8, 24, 10));
    assert!(
        fault
            .to_string()
            .starts_with("cluster.yaml:8:24: error: no such port")
    );
}

#[test]
fn a_composition_is_told_from_a_chain_file() {
    assert!(is_composition(WHOLE));
    assert!(is_composition("\u{feff}composition: x"));
    for other in [
        "chain: c\nnfs: [monitor]\n",
        "",
        "- composition: x",
        "composition: [",
        "x",
    ] {
        assert!(!is_composition(other), "{other}");
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let text = WHOLE
        .replace("name: beta", "name: alpha")
        .replace("switch: alpha", "switch: gamma")
        .replace("250ms", "never")
        .replace("firewall.default=drop", "firewall");
    let errors = read(&text).unwrap_err();
    let told: Vec<(usize, &str)> = (errors.iter())
        .map(|error| (error.line, error.message.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (5, "there is a host `alpha` above"),
            (6, "there is no host `gamma`"),
            (11, "an interval of heartbeats is from `1ms` to `10s`"),
            (
                12,
                "`firewall` is no setting: write one like `firewall.default=drop`"
            ),
        ]
    );
    assert!(errors.iter().take(2).all(|error| error.help.is_some()));
}

#[test]
fn bounds_are_told() {
    let of = |hosts: String| {
        let text = format!(
            "composition: c\nchain: c.yaml\nhosts: [{hosts}]\nswitch: h0\nports: {{in: gen}}\n"
        );
        read(&text).map_err(|errors| errors.last().unwrap().message.clone())
    };
    let hosts = |count: usize, runtimes: u32| {
        let each = (0..count).map(|n| format!("{{name: h{n}, runtimes: {runtimes}}}"));
        of(each.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(hosts(64, 1).unwrap().runtimes(), 64);
    assert_eq!(
        hosts(65, 0).unwrap_err(),
        "a composition has at most 64 hosts"
    );
    assert_eq!(hosts(1, 0).unwrap_err(), "no host has a runtime");
    let most = "that makes 66 runtimes: a cluster has at most 64";
    assert_eq!(hosts(2, 33).unwrap_err(), most);
    assert_eq!(read("").unwrap_err()[0].message, "the file is empty");
}

/// Cut anywhere, or with another octet anywhere, it is read or refused at a line that it has.
#[test]
fn no_composition_panics() {
    let lines = WHOLE.lines().count() + 1;
    let look = |text: &str| {
        let _ = is_composition(text);
        for error in read(text).err().into_iter().flatten() {
            assert!((1..=lines + 1).contains(&error.line), "{error}");
        }
    };
    for at in 0..WHOLE.len() {
        look(&WHOLE[..at]);
        for other in [
            "{", "}", "[", "]", ":", ",", "-", "\n", "\"", "&a ", "*a", "é", "\0",
        ] {
            look(&format!("{}{other}{}", &WHOLE[..at], &WHOLE[at + 1..]));
        }
    }
}

/// Hosts that may have more runtimes than at the start get them one by one in turn.
#[test]
fn places_are_of_the_start_and_then_of_all_hosts_in_turn() {
    let text = "composition: edge\nchain: c.yaml\nhosts:\n- {name: a}\n- {name: b, runtimes: 1, \
                most_runtimes: 3}\n- {name: c, runtimes: 1}\n- {name: d, most_runtimes: 1}\nswitch: \
                a\nports: {in: gen}\nscaling: {minimum: 1, maximum: 5, interval: 500ms, held_back: \
                5}\n";
    let composition = read(text).unwrap_or_else(|errors| panic!("{}", render(&errors)));
    assert_eq!(composition.places(), [1, 2, 1, 3, 1]);
    assert_eq!(
        (composition.runtimes(), composition.most_runtimes()),
        (2, Some(5))
    );
    let scaling = &composition.scaling.as_ref().unwrap().value;
    assert_eq!((scaling.minimum, scaling.maximum), (1, 5));
    assert_eq!(
        (scaling.interval_ms, scaling.held_back),
        (Some(500), Some(5))
    );
    for (from, to, part) in [
        (
            "maximum: 5",
            "maximum: 6",
            "`maximum` is 6, and there may be 5",
        ),
        (
            "minimum: 1",
            "minimum: 3",
            "the hosts have 2 runtimes at the start",
        ),
        (
            "minimum: 1",
            "minimum: 6",
            "`minimum` 6 is above `maximum` 5",
        ),
        ("minimum: 1, ", "", "how few runtimes"),
        ("500ms", "5ms", "from `20ms` to `60s`"),
        ("held_back: 5", "held_back: 101", "0 to 100"),
        (
            "most_runtimes: 3",
            "most_runtimes: 64",
            "the hosts may have 66 runtimes together",
        ),
        (
            "most_runtimes: 3",
            "most_runtimes: 1",
            "there may be 3 runtimes",
        ),
        (
            "most_runtimes: 3",
            "most_runtimes: 0",
            "say `most_runtimes: 1` or more",
        ),
        (
            "switch",
            "most_runtimes: 7\nswitch",
            "may have 5 runtimes together",
        ),
    ] {
        let wrong = text.replacen(from, to, 1);
        assert_ne!(wrong, text, "{from}");
        let said = render(&read(&wrong).unwrap_err());
        assert!(said.contains(part), "{from}: {said}");
    }
}

#[test]
fn hosts_have_addresses_that_tell_them_apart() {
    let of = |alpha: &str, beta: &str| {
        let text = WHOLE
            .replace("name: alpha,", &format!("name: alpha, {alpha}"))
            .replace("name: beta,", &format!("name: beta, {beta}"));
        read(&text).map_err(|errors| errors[0].message.clone())
    };
    let both = of(
        "address: \"10.0.9.1:4790\",",
        "address: \"[2001:db8::1]:4790\",",
    )
    .unwrap();
    assert!(both.has_addresses());
    assert!(both.to_string().contains("at [2001:db8::1]:4790"), "{both}");
    assert!(!of("", "").unwrap().has_addresses());
    let wrong = |alpha: &str, beta: &str| of(alpha, beta).unwrap_err();
    let same = wrong("address: \"10.0.9.1:1\",", "address: \"10.0.9.1:2\",");
    assert_eq!(
        same,
        "a host above has the address 10.0.9.1: hosts are told apart by it"
    );
    let none = wrong("address: \"10.0.9.1:1\",", "");
    assert_eq!(
        none,
        "the other hosts have no address of this one to reach it at"
    );
    for (address, why) in [
        ("10.0.9.1", "expected an address and a UDP port"),
        ("10.0.9.1:0", "other hosts need its port"),
        ("0.0.0.0:4790", "is no address of a host"),
        ("224.0.0.1:4790", "is no address of a host"),
    ] {
        let said = wrong(&format!("address: \"{address}\","), "");
        assert!(said.contains(why), "{address}: {said}");
    }
}
