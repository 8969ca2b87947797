//! UDP only from clients that have shown themselves first.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_nf::packet::protocol::ip;
use weir_nf::prelude::*;

use crate::words::Words;
use weir_nf::packet::Prefixes;

/// Settings of [`UdpWhitelist`].
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Clients (prefixes) that need not show themselves.
    pub allow: Words,
    /// How a client shows itself: any one of these is enough. Connections to
    /// TCP ports 80 and 443 if missing; an empty list leaves `allow` only.
    pub learn: Vec<Learn>,
    /// Seconds for which a client stays on the list after it last showed
    /// itself; 3,600 by default.
    pub lifetime: u32,
    /// Side whose clients are checked; UDP opened from the other side passes.
    /// `any` (the default), `inside` or `outside`.
    pub clients: Clients,
    /// Record an event for each UDP flow that is dropped.
    pub log: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let tcp = |port| Learn {
            protocol: Protocol::Tcp,
            port,
        };
        Settings {
            allow: Words::default(),
            learn: vec![tcp(80), tcp(443)],
            lifetime: 3_600,
            clients: Clients::Any,
            log: false,
        }
    }
}

/// A way for a client to show itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Learn {
    /// `tcp`: the client's connection to the port is established (the
    /// handshake is complete, so the address is not forged). `udp`: the client
    /// has sent a packet to the port and got an answer from it; packets to
    /// this port pass.
    #[serde(default)]
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
}

/// Protocol of a [`Learn`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Clients whose UDP is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clients {
    /// Everyone's.
    #[default]
    Any,
    /// That of clients inside.
    Inside,
    /// That of clients outside.
    Outside,
}

/// State of one client.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Client {
    /// Time (nanoseconds) until which it is on the list; 0 if it never was.
    until: u64,
}

impl State for Client {}

/// The function.
#[derive(Debug)]
pub struct UdpWhitelist {
    allow: Prefixes,
    learn: Vec<Learn>,
    lifetime: u64,
    clients: Clients,
    log: bool,
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// Its sender has not logged in over TCP.
        NotListed = "not_listed",
    }
}

weir_nf::labels! {
    /// Counters.
    enum Count: Counter<Packets> {
        /// Clients that logged in over TCP.
        Learned = "learned": Counter<Times>,
    }
}

impl UdpWhitelist {
    fn is_learning(&self, protocol: Protocol, port: u16) -> bool {
        self.learn
            .iter()
            .any(|learn| learn.protocol == protocol && learn.port == port)
    }

    /// Puts the client on the list, or keeps it there. To spare changes of
    /// state it is renewed when a sixteenth of its time is over.
    fn note(&self, state: &mut weir_nf::Tracked<'_, Client>, now: Time, cx: &mut Context<'_>) {
        let until = now.plus(self.lifetime).0;
        if state.until.saturating_add(self.lifetime / 16) < until {
            if state.until < now.0 {
                cx.count(Count::Learned, 1);
            }
            state.until = until;
        }
    }
}

impl NetworkFunction for UdpWhitelist {
    type Settings = Settings;
    type State = Client;
    type Stats = ();
    type FlowState = ();

    const DESCRIPTOR: Descriptor = Descriptor {
        manual: "\
Passes UDP only from clients that have shown themselves: such as players of a game
who have logged in over TCP before their game sends UDP, so that a flood of UDP
from forged addresses ends here. This is the UDP whitelister of NFActor; its state
is per client address, not per flow, and all flows of a client live together.

A client gets on the list by an established connection (`learn`), each packet of
which renews its `lifetime`; clients in `allow` need none. Client is who sent the
first packet of a flow; answers of servers belong to the flow and pass with it.
UDP of a client not (or no longer) on the list is dropped as `not_listed`, within
running flows too. All that is not UDP passes, later fragments of flows that were
never seen included (they reach no application without their first part).",
        needs: Needs::Flow,
        scope: Scope::Fields(Fields::CLIENT_ADDRESS),
        reads: Parts::NETWORK.and(Parts::TRANSPORT),
        drops: Reason::TABLE,
        counters: Count::TABLE,
        events: true,
        cycles: 20,
        ..Descriptor::new(
            "udp-whitelist",
            "UDP only from clients that have logged in over TCP",
        )
    };

    fn new(settings: Settings, set_up: &mut SetUp<'_>) -> Result<UdpWhitelist, SettingsError> {
        let allow = Prefixes::parse(settings.allow.iter())
            .map_err(|message| SettingsError::new("allow", message))?;
        if settings.lifetime == 0 {
            return Err(SettingsError::new("lifetime", "a lifetime is at least 1 s"));
        }
        if let Some(i) = settings.learn.iter().position(|learn| learn.port == 0) {
            return Err(SettingsError::new(
                format!("learn[{i}].port"),
                "a port is 1 to 65535",
            ));
        }
        if settings.learn.is_empty() && allow.is_empty() {
            set_up.warn("nothing to learn from and nobody allowed: all UDP is dropped");
        }
        Ok(UdpWhitelist {
            allow,
            learn: settings.learn,
            lifetime: u64::from(settings.lifetime) * 1_000_000_000,
            clients: settings.clients,
            log: settings.log,
        })
    }

    fn show(&self, state: &Client, (): &(), shown: &mut Shown) {
        match state.until {
            0 => shown.flag("listed", false),
            until => shown.flag("listed", true).text("until", Time(until)),
        };
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let (info, now) = (flow.info, packet.time());
        let key = info.key();
        match key.proto() {
            ip::TCP => {
                // FINs count: the client was there. Resets need no handshake.
                let shown = matches!(info.phase(), Phase::Established | Phase::Closing);
                let (_, port) = key.destination(info.client_direction());
                if shown && self.is_learning(Protocol::Tcp, port) {
                    self.note(&mut flow.state, now, cx);
                }
                Verdict::Pass
            }
            ip::UDP => {
                let to_server = info.to_server();
                let client_side = if to_server {
                    packet.side()
                } else {
                    packet.side().opposite()
                };
                let (client, _) = key.source(info.client_direction());
                let (_, port) = key.destination(info.client_direction());
                if self.is_learning(Protocol::Udp, port) {
                    if info.phase() == Phase::Established {
                        self.note(&mut flow.state, now, cx);
                    }
                    return Verdict::Pass;
                }
                let checked = match self.clients {
                    Clients::Any => true,
                    Clients::Inside => client_side == Side::Inside,
                    Clients::Outside => client_side == Side::Outside,
                };
                if !checked || flow.state.until >= now.0 || self.allow.contains(client) {
                    return Verdict::Pass;
                }
                if self.log && info.is_first() && cx.wants_events() {
                    cx.event("drop", &info)
                        .object("drop")
                        .text("reason", "not_listed")
                        .end();
                }
                Verdict::Drop(Reason::NotListed.into())
            }
            _ => Verdict::Pass,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_runtime::harness::{Craft, Harness};

    fn log_in(harness: &mut Harness, client: &str, server: &str) {
        for (flags, there) in [("S", true), ("SA", false), ("A", true)] {
            let packet = if there {
                Craft::tcp(client, server)
            } else {
                Craft::tcp(server, client)
            };
            assert_eq!(harness.send(&packet.flags(flags).build()).len(), 1);
        }
    }

    #[test]
    fn udp_passes_after_a_login_and_for_its_lifetime() {
        for (client, udp, server, game) in [
            (
                "10.0.0.1:40000",
                "10.0.0.1:5000",
                "192.0.2.1:443",
                "192.0.2.1:7000",
            ),
            (
                "[2001:db8::1]:40000",
                "[2001:db8::1]:5000",
                "[2001:db8::2]:443",
                "[2001:db8::2]:7000",
            ),
        ] {
            let mut harness = Harness::of::<UdpWhitelist>(Settings {
                lifetime: 60,
                log: true,
                ..Settings::default()
            });
            let packet = Craft::udp(udp, game).payload(b"move").build();
            assert_eq!(harness.send(&packet).len(), 0);
            assert!(harness.events()[0].contains("not_listed"));
            // a SYN alone (a forged address) changes nothing
            harness.send(&Craft::tcp(client, server).flags("S").build());
            assert_eq!(harness.send(&packet).len(), 0);
            log_in(&mut harness, client, server);
            assert_eq!(harness.send(&packet).len(), 1);
            // the answer belongs to the flow
            assert_eq!(harness.send(&Craft::udp(game, udp).build()).len(), 1);
            harness.advance_ms(61_000);
            assert_eq!(harness.send(&packet).len(), 0);
            assert_eq!(harness.counter("udp-whitelist", "learned"), 1);
            assert_eq!(
                harness.finish().drops,
                [("udp-whitelist.not_listed".to_owned(), 3)]
            );
        }
    }

    #[test]
    fn one_client_does_not_speak_for_another() {
        let mut harness = Harness::of::<UdpWhitelist>(Settings::default());
        log_in(&mut harness, "10.0.0.1:40000", "192.0.2.1:443");
        log_in(&mut harness, "10.0.0.2:40000", "192.0.2.1:8443");
        let send = |harness: &mut Harness, client: &str| {
            harness
                .send(&Craft::udp(client, "192.0.2.1:7000").build())
                .len()
        };
        assert_eq!(send(&mut harness, "10.0.0.1:1"), 1);
        assert_eq!(send(&mut harness, "10.0.0.2:1"), 0); // another port
        assert_eq!(send(&mut harness, "10.0.0.3:1"), 0);
    }

    #[test]
    fn lists_knocks_and_sides() {
        let mut harness = Harness::of::<UdpWhitelist>(Settings {
            allow: Words::from("10.9.0.0/16"),
            learn: vec![Learn {
                protocol: Protocol::Udp,
                port: 4_000,
            }],
            clients: Clients::Outside,
            ..Settings::default()
        });
        let out = Side::Outside;
        let game = |client: &str| Craft::udp(client, "192.0.2.1:7000").build();
        assert_eq!(harness.send_from(out, &game("10.9.1.1:1")).len(), 1);
        assert_eq!(harness.send_from(out, &game("10.0.0.1:1")).len(), 0);
        assert_eq!(
            harness.send_from(Side::Inside, &game("10.0.0.7:1")).len(),
            1
        );
        let knock = Craft::udp("10.0.0.1:9", "192.0.2.1:4000").build();
        assert_eq!(harness.send_from(out, &knock).len(), 1);
        assert_eq!(harness.send_from(out, &game("10.0.0.1:1")).len(), 0);
        let answer = Craft::udp("192.0.2.1:4000", "10.0.0.1:9").build();
        assert_eq!(harness.send_from(Side::Inside, &answer).len(), 1);
        assert_eq!(harness.send_from(out, &game("10.0.0.1:1")).len(), 1);
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        for (settings, path) in [
            (
                Settings {
                    lifetime: 0,
                    ..Settings::default()
                },
                "lifetime",
            ),
            (
                Settings {
                    allow: Words::from("10/8"),
                    ..Settings::default()
                },
                "allow",
            ),
            (
                Settings {
                    learn: vec![Learn::default()],
                    ..Settings::default()
                },
                "learn[0].port",
            ),
        ] {
            let error = Harness::builder()
                .with::<UdpWhitelist>(settings)
                .unwrap_err();
            assert_eq!(error.path, path);
        }
    }
}
