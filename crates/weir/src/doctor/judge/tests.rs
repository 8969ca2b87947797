//! Machines that are not here, and what is said of them.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_io::live::LiveSpec;
use weir_io::machine::{
    Capability, Clock, Cores, HugePages, Kernel, Link, Machine, Memory, Offload, Peer, Place,
    Privileges, Probe, Queues, XdpFeatures,
};
use weir_packet::Prefix;

use super::super::finding::{CHECKS, Finding, Status};
use super::super::need::Need;
use super::judge;

fn offload(name: &str, on: bool) -> Offload {
    Offload {
        name: name.to_owned(),
        on,
        changeable: true,
    }
}

/// A card of the better sort.
fn card(name: &str) -> Link {
    Link {
        index: 2,
        name: name.to_owned(),
        driver: Some("ice".to_owned()),
        ethernet: true,
        up: true,
        carrier: true,
        mtu: 1_500,
        mac: Some([2, 0, 0, 0, 0, 1]),
        queues: Queues {
            receive: 8,
            transmit: 8,
            most_receive: 8,
            most_transmit: 8,
            combined: true,
        },
        xdp: Some(XdpFeatures {
            native: true,
            zero_copy: true,
        }),
        offloads: vec![
            offload("tx-checksum-ip-generic", true),
            offload("rx-gro", false),
        ],
        ..Link::default()
    }
}

/// A veth whose other end sends whole checksums.
fn veth(name: &str, peer: &str) -> Link {
    let queues = Queues {
        receive: 1,
        transmit: 1,
        most_receive: 4,
        most_transmit: 4,
        combined: false,
    };
    let end = |name: &str| Link {
        driver: Some("veth".to_owned()),
        kind: Some("veth".to_owned()),
        queues,
        offloads: vec![offload("tx-checksum-ip-generic", false)],
        ..card(name)
    };
    Link {
        peer: Some(Peer::Seen {
            place: Place::Named("lan".to_owned()),
            link: Box::new(end(peer)),
        }),
        ..end(name)
    }
}

fn peer(link: &mut Link) -> &mut Link {
    match &mut link.peer {
        Some(Peer::Seen { link, .. }) => link,
        _ => panic!("it has one"),
    }
}

/// A machine on which all is well.
fn machine(links: Vec<Link>) -> Machine {
    let all = Capability::ALL
        .iter()
        .fold(0, |bits, c| bits | 1 << *c as u8);
    Machine {
        links,
        kernel: Kernel {
            release: "6.12.1".to_owned(),
            packet_socket: Probe::Works,
            xdp_socket: Probe::Works,
            xdp_program: Probe::Works,
            tun: Probe::Works,
            forwards_ipv4: false,
            forwards_ipv6: false,
        },
        privileges: Privileges {
            user: 0,
            effective: all,
            bounding: all,
            program: PathBuf::from("/usr/bin/weir"),
            ..Privileges::default()
        },
        memory: Memory {
            huge: vec![HugePages {
                kib: 2_048,
                total: 1_024,
                free: 1_024,
            }],
            receive_buffer: Some(212_992),
            ..Memory::default()
        },
        cores: Cores {
            online: vec![0, 1, 2, 3],
            allowed: vec![0, 1, 2, 3],
            governors: vec!["performance".to_owned()],
            ..Cores::default()
        },
        clock: Clock {
            source: Some("tsc".to_owned()),
            sources: vec!["tsc".to_owned(), "hpet".to_owned()],
            read_ns: 20,
            synchronised: Some(true),
            seconds: 1_800_000_000,
        },
    }
}

fn need(ports: &[&str]) -> Need {
    let ports = ports
        .iter()
        .map(|text| LiveSpec::parse(text).unwrap().unwrap());
    let ports: Vec<LiveSpec> = ports.collect();
    Need {
        forwards: ports.len() > 1,
        ports: Some(ports),
        pinned: 80 << 20,
        memory: 90 << 20,
        ..Need::default()
    }
}

/// The findings that are not ok.
fn bad(machine: &Machine, need: &Need) -> Vec<Finding> {
    let all = judge(machine, need);
    assert!(all.iter().all(|f| CHECKS.contains(&f.check)), "{all:?}");
    assert!(all.is_sorted_by_key(|f| f.area), "{all:?}");
    all.into_iter().filter(|f| f.status != Status::Ok).collect()
}

/// The one thing that is not ok.
#[track_caller]
fn one(machine: &Machine, need: &Need) -> Finding {
    let mut all = bad(machine, need);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

#[track_caller]
fn is(found: &Finding, check: &str, status: Status, stops: bool, mend: &[&str]) {
    let is = (found.check, found.status, found.stops_run);
    assert_eq!(is, (check, status, stops), "{found:#?}");
    assert_eq!(found.mend, mend, "{found:#?}");
}

use Status::{Problem, Warning};

#[test]
fn a_machine_on_which_all_is_well_is_fine() {
    let ports = [card("eth1"), veth("weir0", "eth0")];
    let machine = machine(ports.to_vec());
    assert_eq!(bad(&machine, &need(&["xdp:eth1", "xdp:weir0:native"])), []);
    assert_eq!(bad(&machine, &need(&["af-packet:eth1", "tap:t0"])), []);
    assert_eq!(bad(&machine, &need(&[])), []);
    assert_eq!(bad(&machine, &Need::default()), []);
}

#[test]
fn interfaces_are_there_and_up() {
    let all = machine(vec![card("eth1")]);
    let found = one(&all, &need(&["xdp:eth9"]));
    is(&found, "interface", Problem, true, &["ip -brief link"]);
    assert!(found.message.contains("there are eth1"), "{found:?}");
    let mut down = card("eth1");
    (down.up, down.carrier) = (false, false);
    let found = one(&machine(vec![down]), &need(&["af-packet:eth1"]));
    is(
        &found,
        "interface-up",
        Problem,
        false,
        &["ip link set eth1 up"],
    );
    let mut quiet = veth("weir0", "eth0");
    quiet.carrier = false;
    let found = one(&machine(vec![quiet]), &need(&["af-packet:weir0"]));
    let mend = ["ip netns exec lan ip link set eth0 up"];
    is(&found, "carrier", Warning, false, &mend);
    let mut tunnel = card("tun0");
    tunnel.ethernet = false;
    let found = one(&machine(vec![tunnel]), &need(&["af-packet:tun0"]));
    is(&found, "interface", Problem, true, &[]);
    let found = one(&all, &need(&["tap:eth1"]));
    is(&found, "interface", Problem, true, &[]);
}

#[test]
fn sizes_fit_each_other_and_frames() {
    let mut jumbo = card("eth1");
    jumbo.mtu = 9_000;
    let both = machine(vec![jumbo, card("eth2")]);
    let found = bad(&both, &need(&["xdp:eth1"]));
    is(
        &found[0],
        "mtu",
        Problem,
        true,
        &["ip link set eth1 mtu 3754"],
    );
    let found = one(&both, &need(&["af-packet:eth1", "af-packet:eth2"]));
    is(
        &found,
        "mtu-pair",
        Warning,
        false,
        &["ip link set eth1 mtu 1500"],
    );
    // A router tells senders.
    let router = Need {
        owned: vec![Prefix::new([192, 0, 2, 1].into(), 32).unwrap()],
        ..need(&["af-packet:eth1", "af-packet:eth2"])
    };
    assert_eq!(bad(&both, &router), []);
}

#[test]
fn the_host_keeps_off() {
    let mut used = card("eth1");
    used.addresses = vec![
        ([192, 0, 2, 1].into(), 24),
        (IpAddr::V6("fe80::1".parse().unwrap()), 64),
    ];
    let mut part = card("eth2");
    part.master = Some("br0".to_owned());
    (part.forwards_ipv4, part.forwards_ipv6) = (true, true);
    let all = machine(vec![used, part]);
    let found = bad(&all, &need(&["xdp:eth1", "af-packet:eth2"]));
    assert_eq!(found.len(), 3, "{found:#?}");
    let mend = ["ip addr del 192.0.2.1/24 dev eth1"];
    is(&found[0], "addresses", Warning, false, &mend);
    is(
        &found[1],
        "master",
        Warning,
        false,
        &["ip link set eth2 nomaster"],
    );
    let off = [
        "sysctl -w net/ipv4/conf/eth2/forwarding=0",
        "sysctl -w net/ipv6/conf/eth2/forwarding=0",
    ];
    is(&found[2], "forwarding", Warning, false, &off);
    // A run that only receives takes nothing from the host.
    assert_eq!(bad(&all, &need(&["af-packet:eth1"])), []);
    // An address has one owner.
    let owner = Need {
        owned: vec![Prefix::new([192, 0, 2, 1].into(), 32).unwrap()],
        ..need(&["af-packet:eth1"])
    };
    is(&one(&all, &owner), "owned-address", Problem, true, &mend);
}

#[test]
fn modes_of_xdp() {
    let mut none = card("eth1");
    none.driver = Some("e1000".to_owned());
    none.xdp = Some(XdpFeatures::default());
    let all = machine(vec![none]);
    is(
        &one(&all, &need(&["xdp:eth1"])),
        "xdp-mode",
        Warning,
        false,
        &[],
    );
    is(
        &one(&all, &need(&["xdp:eth1:native"])),
        "xdp-mode",
        Problem,
        true,
        &[],
    );
    assert_eq!(bad(&all, &need(&["xdp:eth1:generic"])), []);
    // Of the machine as a whole it is no fault.
    assert_eq!(bad(&all, &Need::default()), []);

    let mut few = veth("weir0", "eth0");
    peer(&mut few).queues.transmit = 4;
    let found = one(&machine(vec![few.clone()]), &need(&["xdp:weir0"]));
    is(
        &found,
        "xdp-mode",
        Warning,
        false,
        &["ethtool -L weir0 rx 4"],
    );
    few.queues.most_receive = 1;
    let found = one(&machine(vec![few]), &need(&["xdp:weir0:native"]));
    let mend = ["ip netns exec lan ethtool -L eth0 tx 1"];
    is(&found, "xdp-mode", Problem, true, &mend);

    let mut large = veth("weir0", "eth0");
    peer(&mut large).mtu = 9_000;
    let found = one(&machine(vec![large]), &need(&["xdp:weir0"]));
    let mend = ["ip netns exec lan ip link set eth0 mtu 3506"];
    is(&found, "xdp-mode", Warning, false, &mend);

    let mut virtio = card("eth1");
    virtio.driver = Some("virtio_net".to_owned());
    virtio.offloads.push(offload("rx-gro-hw", true));
    let found = bad(&machine(vec![virtio]), &need(&["xdp:eth1"]));
    is(
        &found[0],
        "xdp-mode",
        Warning,
        false,
        &["ethtool -K eth1 rx-gro-hw off"],
    );

    // A virtual machine's host may not let it be switched.
    let mut fixed = card("eth1");
    fixed.driver = Some("virtio_net".to_owned());
    fixed.offloads = vec![Offload {
        changeable: false,
        ..offload("rx-gro-hw", true)
    }];
    let found = bad(&machine(vec![fixed]), &need(&["xdp:eth1"]));
    is(&found[0], "xdp-mode", Warning, false, &[]);
    is(&found[1], "receive-merging", Warning, false, &[]);

    let mut taken = card("eth1");
    taken.xdp_attached = true;
    let found = one(&machine(vec![taken]), &need(&["xdp:eth1"]));
    is(
        &found,
        "xdp-attached",
        Problem,
        true,
        &["ip link set eth1 xdp off"],
    );
}

#[test]
fn queues_that_are_asked_for_are_there() {
    let all = machine(vec![card("eth1"), veth("weir0", "eth0")]);
    let found = one(&all, &need(&["xdp:eth1:9"]));
    is(&found, "xdp-queues", Problem, true, &[]);
    let found = one(&all, &need(&["xdp:eth1:2"]));
    is(
        &found,
        "xdp-queues",
        Warning,
        false,
        &["ethtool -L eth1 combined 2"],
    );
    let found = one(&all, &need(&["xdp:weir0:4"]));
    is(
        &found,
        "xdp-queues",
        Problem,
        true,
        &["ethtool -L weir0 rx 4"],
    );
}

#[test]
fn offloads_of_the_other_end() {
    for (place, command) in [
        (Place::Here, "ethtool -K eth0 tx off"),
        (
            Place::Named("lan".to_owned()),
            "ip netns exec lan ethtool -K eth0 tx off",
        ),
        (
            Place::OfProcess(42),
            "nsenter -t 42 -n ethtool -K eth0 tx off",
        ),
    ] {
        let mut link = veth("weir0", "eth0");
        peer(&mut link).offloads = vec![offload("tx-checksum-ip-generic", true)];
        if let Some(Peer::Seen { place: at, .. }) = &mut link.peer {
            *at = place;
        }
        let all = machine(vec![link]);
        let found = one(&all, &need(&["xdp:weir0"]));
        is(&found, "peer-offloads", Problem, false, &[command]);
        // A packet port does what is left to a card.
        assert_eq!(bad(&all, &need(&["af-packet:weir0"])), []);
        is(
            &one(&all, &Need::default()),
            "peer-offloads",
            Warning,
            false,
            &[command],
        );
    }
    let mut link = veth("weir0", "eth0");
    link.peer = Some(Peer::Unseen);
    let found = one(&machine(vec![link]), &need(&["xdp:weir0"]));
    is(&found, "peer-offloads", Warning, false, &[]);
}

#[test]
fn packets_stay_as_long_as_they_came() {
    let mut merges = card("eth1");
    merges.offloads = ["rx-gro", "rx-lro", "rx-gro-hw"]
        .map(|n| offload(n, true))
        .to_vec();
    let all = machine(vec![merges]);
    let found = one(&all, &need(&["xdp:eth1:generic"]));
    let mend = ["ethtool -K eth1 gro off lro off rx-gro-hw off"];
    is(&found, "receive-merging", Warning, false, &mend);
    // A packet port cuts what says how it was merged.
    let found = one(&all, &need(&["af-packet:eth1"]));
    let mend = ["ethtool -K eth1 lro off"];
    is(&found, "receive-merging", Warning, false, &mend);
    // A program in the driver comes before the kernel's part.
    let found = one(&all, &need(&["xdp:eth1"]));
    let mend = ["ethtool -K eth1 lro off rx-gro-hw off"];
    is(&found, "receive-merging", Warning, false, &mend);
}

#[test]
fn tags_matter_where_there_are_vlans() {
    let mut link = veth("weir0", "eth0");
    peer(&mut link)
        .offloads
        .push(offload("tx-vlan-hw-insert", true));
    assert_eq!(bad(&machine(vec![link.clone()]), &need(&["xdp:weir0"])), []);
    peer(&mut link).vlans = vec!["eth0.7".to_owned()];
    let all = machine(vec![link]);
    let found = one(&all, &need(&["xdp:weir0"]));
    let mend = ["ip netns exec lan ethtool -K eth0 txvlan off"];
    is(&found, "vlan-offload", Warning, false, &mend);
    // A packet socket is told of tags.
    assert_eq!(bad(&all, &need(&["af-packet:weir0"])), []);
}

/// A user without capabilities, and what the kernel says to them.
fn stripped() -> Machine {
    let mut all = machine(vec![card("eth1")]);
    all.privileges.user = 1_000;
    all.privileges.effective = 0;
    all.privileges.locked_memory = Some(8 << 20);
    all.kernel.packet_socket = Probe::NotAllowed;
    all.kernel.xdp_socket = Probe::NotAllowed;
    all.kernel.xdp_program = Probe::NotAllowed;
    all
}

#[test]
fn privileges_that_are_missing_are_named_with_the_way_to_get_them() {
    let all = stripped();
    // Captures need none.
    assert_eq!(bad(&all, &need(&[])), []);
    let found = bad(&all, &need(&["af-packet:eth1"]));
    let mend = ["sudo setcap cap_net_raw+ep /usr/bin/weir"];
    is(&found[0], "privileges", Problem, true, &mend);
    assert!(
        found[0].message.contains("CAP_NET_RAW (packet"),
        "{found:?}"
    );
    let mend = ["sudo sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608"];
    is(&found[1], "socket-buffers", Warning, false, &mend);
    let found = bad(&all, &need(&["xdp:eth1"]));
    let mend = ["sudo setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf+ep /usr/bin/weir"];
    is(&found[0], "privileges", Problem, true, &mend);
    is(
        &found[1],
        "locked-memory",
        Problem,
        true,
        &["sudo prlimit --pid $$ --memlock=unlimited"],
    );
    let found = bad(&all, &need(&["tap:t0"]));
    let mend = ["sudo setcap cap_net_admin+ep /usr/bin/weir"];
    is(&found[0], "privileges", Problem, true, &mend);

    let mut odd = all.clone();
    odd.privileges.program = PathBuf::from("/home/a b/weir");
    let found = bad(&odd, &need(&["tap:t0"]));
    assert_eq!(
        found[0].mend,
        ["sudo setcap cap_net_admin+ep '/home/a b/weir'"]
    );
}

#[test]
fn where_privileges_can_t_be_had_no_command_promises_them() {
    let ports = need(&["xdp:eth1"]);
    let mut container = stripped();
    container.privileges.container = true;
    container.privileges.bounding = 0;
    let found = bad(&container, &ports);
    let mend =
        ["docker run --cap-add NET_ADMIN --cap-add NET_RAW --cap-add IPC_LOCK --cap-add BPF …"];
    is(&found[0], "privileges", Problem, true, &mend);

    // Root of a user namespace has all bits, and the kernel says no.
    let mut namespace = stripped();
    namespace.privileges = machine(Vec::new()).privileges;
    namespace.privileges.user_namespace = true;
    let found = bad(&namespace, &ports);
    is(&found[0], "privileges", Problem, true, &[]);
    assert!(found[0].message.contains("user namespace"), "{found:?}");

    let mut service = stripped();
    service.privileges.no_new_privileges = true;
    let found = bad(&service, &ports);
    is(&found[0], "privileges", Problem, true, &[]);
    let mut bounded = stripped();
    bounded.privileges.bounding = 0;
    let found = bad(&bounded, &ports);
    is(&found[0], "privileges", Problem, true, &[]);
}

#[test]
fn a_control_socket_has_a_place() {
    let all = machine(vec![card("eth1")]);
    let with = |control| Need {
        control: Some(control),
        ..need(&["xdp:eth1"])
    };
    assert_eq!(bad(&all, &with(Ok(PathBuf::from("/run/weir")))), []);
    let found = one(&all, &with(Err("set XDG_RUNTIME_DIR".to_owned())));
    is(&found, "control-socket", Warning, false, &[]);
    assert!(found.message.contains("XDG_RUNTIME_DIR"), "{found:?}");
}

#[test]
fn kernels_are_new_enough_and_have_what_is_needed() {
    let mut old = machine(vec![card("eth1")]);
    old.kernel.release = "5.4.0-150-generic".to_owned();
    let found = one(&old, &need(&["xdp:eth1"]));
    is(&found, "kernel-version", Problem, true, &[]);
    assert_eq!(bad(&old, &need(&["af-packet:eth1"])), []);
    is(
        &one(&old, &Need::default()),
        "kernel-version",
        Warning,
        false,
        &[],
    );

    let mut small = machine(vec![card("eth1")]);
    small.kernel.xdp_socket = Probe::Missing;
    small.kernel.tun = Probe::Missing;
    let found = one(&small, &need(&["xdp:eth1"]));
    is(&found, "sockets", Problem, true, &[]);
    assert!(found.message.contains("CONFIG_XDP_SOCKETS"), "{found:?}");
    let found = one(&small, &need(&["tap:t0"]));
    let mend = [
        "sudo modprobe tun",
        "sudo mkdir -p /dev/net && sudo mknod -m 666 /dev/net/tun c 10 200",
    ];
    is(&found, "tun", Problem, true, &mend);
}

#[test]
fn memory_cores_and_clock() {
    let mut slow = machine(vec![card("eth1")]);
    slow.memory.huge = Vec::new();
    slow.memory.transparent = Some("never".to_owned());
    slow.cores.governors = vec!["powersave".to_owned()];
    slow.cores.quota = Some(1.5);
    slow.cores.siblings = vec![vec![0, 2], vec![1, 3]];
    slow.cores.nodes = vec![(0, vec![0, 2]), (1, vec![1, 3])];
    slow.links[0].node = Some(1);
    slow.clock.source = Some("hpet".to_owned());
    slow.clock.read_ns = 1_200;
    slow.clock.synchronised = Some(false);
    let ports = Need {
        cores: vec![0, 2],
        ..need(&["af-packet:eth1"])
    };
    let found = bad(&slow, &ports);
    let checks: Vec<&str> = found.iter().map(|f| f.check).collect();
    let expected = [
        "huge-pages",
        "cores",
        "cores",
        "cpu-quota",
        "governor",
        "clock",
        "clock",
    ];
    assert_eq!(checks, expected, "{found:#?}");
    assert!(found.iter().all(|f| f.status == Warning && !f.stops_run));
    assert!(
        found[5].mend[0].starts_with("echo tsc | sudo tee "),
        "{found:#?}"
    );
    assert!(found[1].message.contains("0,2"), "{found:#?}");
    assert_eq!(found[2].subject.as_deref(), Some("eth1"));

    // Transparent pages will do.
    slow.memory.transparent = Some("madvise".to_owned());
    let found = bad(&slow, &ports);
    assert!(found.iter().all(|f| f.check != "huge-pages"), "{found:#?}");
}
