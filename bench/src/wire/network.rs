//! Two hosts and what is between them, in network namespaces of their own.
//!
//! ```text
//!   client 10.0.0.2 ── inN  middle  outN ── 192.0.2.2 server
//!   (eth0, MAC A)                           (eth0, MAC B)
//! ```
//!
//! Every packet looks the same to the hosts whatever is in the middle. The client sends to MAC B and
//! the server to MAC A: for a bump these are the other host's own, and a router's interfaces bear
//! them. So neither side needs to be told who forwards, and no ARP is in the figures.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Address of the client.
pub(super) const CLIENT: &str = "10.0.0.2";
/// Address of the server.
pub(super) const SERVER: &str = "192.0.2.2";
/// The pool that clients' addresses are translated to.
pub(super) const POOL: &str = "203.0.113.4/30";
/// The first and the last of them.
const POOL_RANGE: &str = "203.0.113.4-203.0.113.7";
/// Ethernet address of the client, and of the server.
pub(super) const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0xa], [2, 0, 0, 0, 0, 0xb]];

/// The forwarder in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Middle {
    /// The kernel: routes, keeps track of connections, filters and translates.
    Kernel,
    /// A program that leaves Ethernet addresses as they are.
    Bump,
    /// A program that routes.
    Router,
}

/// How the kernel is to work on the middle's interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// Where the packet was sent: the sender's processor.
    Sender,
    /// Steered to a processor by RPS.
    Rps(usize),
    /// In a thread per interface (threaded NAPI, with GRO), which the caller pins.
    Thread,
    /// By the program that polls it; the kernel's own turn comes late.
    Polled,
}

/// Runs a program to its end: what it printed.
pub(crate) fn try_run(program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(format!("{program} {}: {}", args.join(" "), said.trim()))
}

/// The namespaces. They go when this is dropped.
#[derive(Debug)]
pub(super) struct Network {
    /// The end of all names.
    mark: String,
}

impl Network {
    /// Makes them; `number` is one that no other network of this process has now.
    pub(super) fn new(number: u32, middle: Middle, offloads: bool) -> Result<Network, String> {
        let network = Network {
            mark: format!("{}-{number}", std::process::id()),
        };
        network.make(middle, offloads)?;
        Ok(network)
    }

    fn make(&self, middle: Middle, offloads: bool) -> Result<(), String> {
        let [client, weir, server] =
            ["client", "middle", "server"].map(|place| self.namespace(place));
        let (inside, outside) = (self.inside(), self.outside());
        let [a, b] = MACS.map(mac);
        let (of_inside, of_outside) = match middle {
            Middle::Bump => (
                "02:00:00:00:00:01".to_owned(),
                "02:00:00:00:00:02".to_owned(),
            ),
            Middle::Kernel | Middle::Router => (b.clone(), a.clone()),
        };
        // A router takes what bears an address of its own for its own, and learns nothing of it.
        let (of_client, of_server) = match middle {
            Middle::Router => (
                "02:00:00:00:00:1a".to_owned(),
                "02:00:00:00:00:1b".to_owned(),
            ),
            Middle::Kernel | Middle::Bump => (a.clone(), b.clone()),
        };
        let mut script = format!(
            "for n in {client} {weir} {server}; do
               ip netns add $n
               ip netns exec $n sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
               ip -n $n link set lo up
             done
             ip link add eth0 address {of_client} netns {client} type veth peer name {inside} address {of_inside} netns {weir}
             ip link add eth0 address {of_server} netns {server} type veth peer name {outside} address {of_outside} netns {weir}
             ip -n {client} addr add {CLIENT}/16 dev eth0
             ip -n {server} addr add {SERVER}/24 dev eth0
             for n in {client} {server}; do ip -n $n link set eth0 up; done
             for i in {inside} {outside}; do ip -n {weir} link set $i up; done
             ip -n {client} neigh add 10.0.0.1 lladdr {b} dev eth0
             ip -n {client} route add default via 10.0.0.1
             ip -n {server} neigh add 192.0.2.1 lladdr {a} dev eth0
             ip -n {server} route add default via 192.0.2.1
             "
        );
        if !offloads {
            script += &format!(
                "for n in {client} {server}; do ip netns exec $n ethtool -K eth0 tx off >/dev/null; done\n"
            );
        }
        match middle {
            Middle::Bump | Middle::Router => {}
            Middle::Kernel => {
                script += &format!(
                    "ip -n {weir} addr add 10.0.0.1/16 dev {inside}
                     ip -n {weir} addr add 192.0.2.1/24 dev {outside}
                     ip -n {weir} neigh add {CLIENT} lladdr {a} dev {inside}
                     ip -n {weir} neigh add {SERVER} lladdr {b} dev {outside}
                     ip -n {weir} route add 198.18.0.0/16 via {SERVER}
                     ip netns exec {weir} sysctl -qw net.ipv4.ip_forward=1
                     ip netns exec {weir} nft -f - <<'END'
                     table ip wire {{
                       chain forward {{
                         type filter hook forward priority filter; policy drop;
                         ct state established,related accept
                         ct state invalid drop
                         iifname \"{inside}\" ip saddr 10.0.0.0/8 meta l4proto {{ tcp, udp, icmp }} ct state new accept
                       }}
                       chain out {{
                         type nat hook postrouting priority srcnat;
                         oifname \"{outside}\" ip saddr 10.0.0.0/8 snat to {POOL_RANGE}
                       }}
                     }}\nEND\n"
                );
            }
        }
        // The server counts the generator's packets at ingress and drops them.
        script += &format!(
            "ip netns exec {server} nft -f - <<'END'
             table netdev sink {{
               chain door {{
                 type filter hook ingress device eth0 priority 0;
                 ip daddr 198.18.0.0/16 jump count
               }}
               chain count {{
                 ip saddr {POOL} counter drop
                 counter drop
               }}
             }}\nEND\n"
        );
        try_run("sh", &["-euc", &script])
            .map(drop)
            .map_err(|error| {
                let why = error.lines().last().unwrap_or_default();
                format!("the network can't be made: {why}")
            })
    }

    /// Has the kernel work where it is to, once the middle's program has its ports: threads of NAPI
    /// can't be asked for before there is NAPI, which a veth has with an XDP program or, as `gro` asks
    /// for, with GRO.
    pub(super) fn place(&self, gro: bool, placement: Placement) -> Result<(), String> {
        let mut script = String::new();
        for interface in [self.inside(), self.outside()] {
            let of = format!("/sys/class/net/{interface}");
            script += &match placement {
                Placement::Sender => continue,
                Placement::Rps(core) => {
                    format!("echo {:x} > {of}/queues/rx-0/rps_cpus\n", 1 << core)
                }
                Placement::Thread if gro => {
                    format!("ethtool -K {interface} gro on\necho 1 > {of}/threaded\n")
                }
                Placement::Thread => format!("echo 1 > {of}/threaded\n"),
                Placement::Polled => format!(
                    "echo 2 > {of}/napi_defer_hard_irqs\necho 200000 > {of}/gro_flush_timeout\n"
                ),
            };
        }
        self.run("middle", &["sh", "-euc", &script]).map(drop)
    }

    /// Name of a place's namespace.
    pub(super) fn namespace(&self, place: &str) -> String {
        format!("wire-{}-{place}", self.mark)
    }

    /// The middle's interface towards the client.
    pub(super) fn inside(&self) -> String {
        format!("i{}", self.mark)
    }

    /// The middle's interface towards the server.
    pub(super) fn outside(&self) -> String {
        format!("o{}", self.mark)
    }

    /// Threads of the kernel that work for the middle's interfaces.
    pub(super) fn threads(&self) -> Vec<u32> {
        let ours = [self.inside(), self.outside()].map(|name| format!("napi/{name}"));
        let Ok(all) = std::fs::read_dir("/proc") else {
            return Vec::new();
        };
        all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter(|id: &u32| {
                // Names of kernel threads are long in `status`' first line only where asked for
                // through `comm`, which cuts them at 15 octets or, for kthreads, at 63.
                let name = std::fs::read_to_string(format!("/proc/{id}/comm"));
                name.is_ok_and(|name| {
                    let name = name.trim_end();
                    ours.iter().any(|one| {
                        name.starts_with(one.as_str()) || name.len() >= 15 && one.starts_with(name)
                    })
                })
            })
            .collect()
    }

    /// Runs a program in a place to its end: what it printed.
    pub(super) fn run(&self, place: &str, args: &[&str]) -> Result<String, String> {
        let namespace = self.namespace(place);
        let mut all = vec!["netns", "exec", &namespace];
        all.extend(args);
        try_run("ip", &all)
    }

    /// A program to be started in a place on one processor.
    pub(super) fn command(&self, place: &str, core: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace(place), "taskset", "-c"])
            .args([&core.to_string(), program])
            .stdin(Stdio::null());
        command
    }

    /// Runs `work` on a thread in a place: its sockets are there.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        place: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, String> {
        let path = format!("/run/netns/{}", self.namespace(place));
        let namespace = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let moved =
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            let _ = ready.send(moved.map_err(|error| format!("{path}: {error}")));
            work()
        });
        is_ready.recv().map_err(|error| error.to_string())??;
        Ok(thread)
    }

    /// Packets that the server was sent by the generator: translated ones, and others.
    pub(super) fn arrived(&self) -> Result<[u64; 2], String> {
        let text = self.run(
            "server",
            &["nft", "list", "chain", "netdev", "sink", "count"],
        )?;
        let mut counts = text.lines().filter_map(|line| {
            let after = line.split_once("counter packets ")?.1;
            after.split_whitespace().next()?.parse::<u64>().ok()
        });
        match (counts.next(), counts.next()) {
            (Some(translated), Some(others)) => Ok([translated, others]),
            _ => Err(format!("nft's answer has no counters: {text}")),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for place in ["client", "middle", "server"] {
            let _ = try_run("ip", &["netns", "del", &self.namespace(place)]);
        }
    }
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(name: &str) -> Result<(), String> {
    let path = format!("/run/netns/{name}");
    let namespace = File::open(&path).map_err(|error| format!("{path}: {error}"))?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| format!("{path}: {error}"))
}

fn mac(octets: [u8; 6]) -> String {
    octets.map(|octet| format!("{octet:02x}")).join(":")
}
