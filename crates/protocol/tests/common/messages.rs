//! Any message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weir_nf::host::AliasRequest;
use weir_nf::{PoolId, PortLease, PortSpace, RuntimeId};
use weir_packet::{Direction, Disposition, FlowKey, LinkType, Prefix, Side, Time};
use weir_protocol::message::{
    Change, Claim, Comparison, Entry, EntryBatch, FlowSpace, Image, Message, MoveMode, Open,
    Origin, Part, Refusal, Selection, StateUpdate, Workload,
};
use weir_protocol::{Clock, UnitId, View};

fn unit() -> impl Strategy<Value = UnitId> {
    any::<u64>().prop_map(UnitId)
}

fn view() -> impl Strategy<Value = View> {
    any::<u64>().prop_map(View)
}

fn clock() -> impl Strategy<Value = Clock> {
    any::<u64>().prop_map(Clock)
}

fn runtime() -> impl Strategy<Value = RuntimeId> {
    any::<u32>().prop_map(RuntimeId)
}

fn pool() -> impl Strategy<Value = PoolId> {
    any::<u8>().prop_map(PoolId)
}

fn side() -> impl Strategy<Value = Side> {
    select(vec![Side::Inside, Side::Outside])
}

fn mode() -> impl Strategy<Value = MoveMode> {
    select(vec![MoveMode::Push, MoveMode::Pull, MoveMode::Reprocess])
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..80)
}

fn key() -> impl Strategy<Value = FlowKey> {
    prop_oneof![
        any::<[u64; 6]>().prop_map(FlowKey::from_words),
        any::<([u8; 4], u16, [u8; 4], u16, u8)>().prop_map(|(a, ap, b, bp, proto)| {
            FlowKey::new(
                Ipv4Addr::from(a).into(),
                ap,
                Ipv4Addr::from(b).into(),
                bp,
                proto,
                0,
                1,
            )
            .0
        }),
    ]
}

fn prefix() -> impl Strategy<Value = Prefix> {
    prop_oneof![
        (any::<u32>(), 0u8..=32).prop_map(|(bits, length)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Prefix::new(IpAddr::V4(Ipv4Addr::from(bits & mask)), length).expect("a network")
        }),
        (any::<u128>(), 0u8..=128).prop_map(|(bits, length)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Prefix::new(IpAddr::V6(Ipv6Addr::from(bits & mask)), length).expect("a network")
        }),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let marks = (
        (0u8..=6).prop_map(|n| Disposition::from_u8(n).expect("a disposition")),
        any::<u8>(),
        side(),
        any::<u8>(),
        select(LinkType::ALL.to_vec()),
        any::<u16>(),
    );
    let rest = (
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
        0..1u32 << 24,
        bytes(),
    );
    (marks, rest).prop_map(
        |((disposition, flags, side, port, link, dlt), (time, sequence, wire_len, path, bytes))| {
            Part {
                disposition,
                time: Time(time),
                sequence,
                flags,
                side,
                port,
                link,
                dlt,
                wire_len,
                path,
                bytes,
            }
        },
    )
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    vec(
        (clock(), vec(part(), 0..4)).prop_map(|(clock, parts)| Entry { clock, parts }),
        0..4,
    )
}

fn state() -> impl Strategy<Value = StateUpdate> {
    prop_oneof![
        Just(StateUpdate::Omitted),
        bytes().prop_map(StateUpdate::Touched),
        option::of(bytes()).prop_map(StateUpdate::Full),
        option::of(bytes()).prop_map(StateUpdate::Whole),
        (clock(), option::of(bytes()))
            .prop_map(|(since, state)| StateUpdate::Rest { since, state }),
        (clock(), option::of(bytes()))
            .prop_map(|(since, state)| StateUpdate::Apart { since, state }),
        (
            clock(),
            vec(
                (any::<u32>(), bytes()).prop_map(|(at, bytes)| Change { at, bytes }),
                0..4
            )
        )
            .prop_map(|(from, changes)| StateUpdate::Delta { from, changes }),
    ]
}

fn batch() -> impl Strategy<Value = EntryBatch> {
    (unit(), view(), clock(), state(), entries()).prop_map(|(unit, view, clock, state, entries)| {
        EntryBatch {
            unit,
            view,
            clock,
            state,
            entries,
        }
    })
}

fn alias() -> impl Strategy<Value = AliasRequest> {
    let direction = select(vec![Direction::Forward, Direction::Reverse]);
    (any::<u32>(), key(), direction, side(), any::<bool>()).prop_map(
        |(flow, key, client, side, open)| AliasRequest {
            flow,
            key,
            client,
            side,
            open,
        },
    )
}

fn lease() -> impl Strategy<Value = PortLease> {
    let space = select(vec![PortSpace::Tcp, PortSpace::Udp, PortSpace::Icmp]);
    (any::<u16>(), any::<u16>(), space).prop_map(|(address, port, space)| PortLease {
        address,
        port,
        space,
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let names = (
        vec((key(), any::<bool>()), 0..4),
        vec((key(), alias()), 0..3),
    );
    let scope = option::of(key());
    let marks = (any::<bool>(), any::<bool>());
    (unit(), view(), marks, clock(), scope, names).prop_map(
        |(unit, view, (owner, state), clock, key, (flows, aliases))| Claim {
            unit,
            view,
            owner,
            clock,
            state,
            key,
            flows,
            aliases,
        },
    )
}

fn open() -> impl Strategy<Value = Message> {
    let origin = prop_oneof![
        any::<bool>().prop_map(|after_loss| Origin::Nothing { after_loss }),
        runtime().prop_map(|source| Origin::Planned { source }),
        runtime().prop_map(|source| Origin::Resumed { source }),
    ];
    let replica = option::of(runtime());
    let every = any::<u32>();
    (
        unit(),
        view(),
        view(),
        clock(),
        clock(),
        origin,
        replica,
        every,
    )
        .prop_map(|(unit, view, old, base, out, origin, replica, every)| {
            Message::Open(Open {
                unit,
                view,
                old,
                base,
                out,
                origin,
                replica,
                every,
            })
        })
}

fn selection() -> impl Strategy<Value = Selection> {
    let space = (
        vec(prefix(), 0..4),
        vec(any::<(u16, u16)>(), 0..4),
        vec(any::<u8>(), 0..4),
    );
    prop_oneof![
        any::<u32>().prop_map(Selection::Number),
        Just(Selection::All),
        space.prop_map(|(prefixes, ports, protocols)| Selection::Space(FlowSpace {
            prefixes,
            ports,
            protocols
        })),
        key().prop_map(Selection::Key),
    ]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    select(vec![
        Comparison::Equal,
        Comparison::Differs,
        Comparison::Behind,
        Comparison::Missing,
    ])
}

fn refusal() -> impl Strategy<Value = Refusal> {
    select(vec![
        Refusal::Full,
        Refusal::Layout,
        Refusal::Corrupt,
        Refusal::NoState,
        Refusal::TooLong,
    ])
}

fn about_units() -> impl Strategy<Value = Message> {
    prop_oneof![
        open(),
        (unit(), view(), clock(), view(), runtime(), mode()).prop_map(
            |(unit, old, at, new, to, mode)| Message::Closed {
                unit,
                old,
                at,
                new,
                to,
                mode
            }
        ),
        (unit(), view(), any::<bool>()).prop_map(|(unit, below, ended)| Message::Forget {
            unit,
            below,
            ended
        }),
        (unit(), view(), clock()).prop_map(|(unit, view, out)| Message::Out { unit, view, out }),
        (unit(), view(), runtime()).prop_map(|(unit, view, to)| Message::Prepare {
            unit,
            view,
            to
        }),
        (unit(), view(), clock(), vec(runtime(), 0..4)).prop_map(|(unit, view, clock, to)| {
            Message::SendAhead {
                unit,
                view,
                clock,
                to,
            }
        }),
        (unit(), view()).prop_map(|(unit, view)| Message::Held { unit, view }),
        (unit(), view(), clock()).prop_map(|(unit, view, clock)| Message::Stored {
            unit,
            view,
            clock
        }),
        (unit(), view()).prop_map(|(unit, below)| Message::Forgotten { unit, below }),
        (unit(), view(), runtime(), mode()).prop_map(|(unit, view, to, mode)| Message::Move {
            unit,
            view,
            to,
            mode
        }),
        (unit(), view(), clock()).prop_map(|(unit, view, clock)| Message::End {
            unit,
            view,
            clock
        }),
        (unit(), view()).prop_map(|(unit, view)| Message::Tick { unit, view }),
        (unit(), view(), clock()).prop_map(|(unit, view, after)| Message::Repeat {
            unit,
            view,
            after
        }),
        (unit(), view(), refusal()).prop_map(|(unit, view, why)| Message::Refuse {
            unit,
            view,
            why
        }),
        (unit(), view(), view(), clock()).prop_map(|(unit, old, new, at)| Message::Pull {
            unit,
            old,
            new,
            at
        }),
    ]
}

fn about_copies() -> impl Strategy<Value = Message> {
    prop_oneof![
        (unit(), view(), clock(), any::<u64>(), any::<u32>()).prop_map(
            |(unit, view, clock, digest, round)| Message::Compare {
                unit,
                view,
                clock,
                digest,
                round,
            }
        ),
        (unit(), view(), any::<u32>(), comparison()).prop_map(|(unit, view, round, found)| {
            Message::Compared {
                unit,
                view,
                round,
                found,
            }
        }),
    ]
}

fn with_state() -> impl Strategy<Value = Message> {
    let image = || {
        (clock(), option::of(bytes()), clock(), entries()).prop_map(
            |(clock, state, since, outputs)| Image {
                clock,
                state,
                since,
                outputs,
            },
        )
    };
    prop_oneof![
        vec(batch(), 0..4).prop_map(Message::Entries),
        (
            any::<u16>(),
            any::<u32>(),
            any::<u32>(),
            vec(claim(), 0..4),
            vec(runtime(), 0..3)
        )
            .prop_map(
                |(generation, piece, pieces, claims, suspected)| Message::Claims {
                    generation,
                    piece,
                    pieces,
                    claims,
                    suspected,
                }
            ),
        (unit(), view(), image()).prop_map(|(unit, view, image)| Message::Ahead {
            unit,
            view,
            image
        }),
        (unit(), view(), view(), image()).prop_map(|(unit, old, new, image)| Message::State {
            unit,
            old,
            new,
            image
        }),
        (unit(), view(), clock(), clock(), part()).prop_map(|(unit, old, clock, after, packet)| {
            Message::Copy {
                unit,
                old,
                clock,
                after,
                packet,
            }
        }),
        (unit(), view(), entries()).prop_map(|(unit, view, entries)| Message::Outputs {
            unit,
            view,
            entries
        }),
        (unit(), view(), view(), clock(), clock(), bytes(), entries()).prop_map(
            |(unit, old, new, clock, changed, touched, outputs)| Message::Copied {
                unit,
                old,
                new,
                clock,
                changed,
                touched,
                outputs
            }
        ),
    ]
}

fn others() -> impl Strategy<Value = Message> {
    let space = select(vec![PortSpace::Tcp, PortSpace::Udp, PortSpace::Icmp]);
    prop_oneof![
        (any::<u16>(), any::<u32>(), any::<u32>()).prop_map(|(generation, from, most)| {
            Message::Recover {
                generation,
                from,
                most,
            }
        }),
        pool().prop_map(|pool| Message::LeaseWanted { pool }),
        (pool(), any::<u16>(), any::<u16>()).prop_map(|(pool, address, block)| {
            Message::LeaseGranted {
                pool,
                address,
                block,
            }
        }),
        (pool(), any::<u16>(), any::<u16>(), space).prop_map(|(pool, address, port, space)| {
            let lease = PortLease {
                address,
                port,
                space,
            };
            Message::PortFreed { pool, lease }
        }),
        (pool(), vec((lease(), option::of(unit())), 0..4))
            .prop_map(|(pool, doubts)| Message::PortsDoubted { pool, doubts }),
        (pool(), vec(lease(), 0..3), vec(lease(), 0..3))
            .prop_map(|(pool, free, leased)| Message::PortsKnown { pool, free, leased }),
        Just(Message::PollWorkload),
        any::<(u64, u64, u32, u32)>().prop_map(|(packets, drops, units, busy)| {
            Message::Workload(Workload {
                packets,
                drops,
                units,
                busy,
            })
        }),
        vec(runtime(), 0..8).prop_map(|runtimes| Message::NotifyClusterCfg { runtimes }),
        (runtime(), runtime(), selection(), mode()).prop_map(|(from, to, what, mode)| {
            Message::SetMigrationTarget {
                from,
                to,
                what,
                mode,
            }
        }),
        (runtime(), option::of(runtime()))
            .prop_map(|(of, replica)| Message::SetReplica { of, replica }),
        runtime().prop_map(|runtime| Message::Suspect { runtime }),
    ]
}

/// Any message of any kind.
pub(crate) fn message() -> impl Strategy<Value = Message> {
    prop_oneof![2 => about_units(), 1 => with_state(), 1 => about_copies(), 1 => others()]
}
