//! One forgery of each message at least: from a process that has no business with
//! it, of another view, unit or clock, cut, or heard twice. A message without a row
//! here fails to compile ([`kind`]) or fails the first test.

use weir_nf::{PoolId, PortLease, PortSpace};
use weir_packet::Disposition;
use weir_protocol::message::{
    Comparison, Image, Message, MoveMode, Open, Origin, Refusal, Selection, Workload,
};
use weir_protocol::settings::Replication;
use weir_protocol::{Clock, Peer, RuntimeId, UnitId, View};

use crate::cluster::Cluster;
use crate::liars::{LIAR, STRANGER, batch, claim, entry, part, settled, tell, tell_runtime};

/// Which message it is. No wildcard: a new one needs a row in [`messages`].
fn kind(message: &Message) -> usize {
    match message {
        Message::Open(_) => 0,
        Message::Closed { .. } => 1,
        Message::Forget { .. } => 2,
        Message::Out { .. } => 3,
        Message::Prepare { .. } => 4,
        Message::Recover { .. } => 5,
        Message::Entries(_) => 6,
        Message::Held { .. } => 7,
        Message::Stored { .. } => 8,
        Message::Move { .. } => 9,
        Message::End { .. } => 10,
        Message::Tick { .. } => 11,
        Message::Repeat { .. } => 12,
        Message::Refuse { .. } => 13,
        Message::Forgotten { .. } => 14,
        Message::Claims { .. } => 15,
        Message::Pull { .. } => 16,
        Message::State { .. } => 17,
        Message::Outputs { .. } => 18,
        Message::Copy { .. } => 19,
        Message::Copied { .. } => 20,
        Message::LeaseWanted { .. } => 21,
        Message::LeaseGranted { .. } => 22,
        Message::PortFreed { .. } => 23,
        Message::PortsDoubted { .. } => 24,
        Message::PortsKnown { .. } => 25,
        Message::PollWorkload => 26,
        Message::Workload(_) => 27,
        Message::NotifyClusterCfg { .. } => 28,
        Message::SetMigrationTarget { .. } => 29,
        Message::SetReplica { .. } => 30,
        Message::Suspect { .. } => 31,
        Message::SendAhead { .. } => 32,
        Message::Ahead { .. } => 33,
        Message::Compare { .. } => 34,
        Message::Compared { .. } => 35,
    }
}

const KINDS: usize = 36;

/// One of each, about a unit in a view after packet `clock`.
fn messages(unit: UnitId, view: View, clock: Clock) -> Vec<Message> {
    let (to, new) = (RuntimeId(2), view.next());
    let open = Open {
        unit,
        view,
        old: View(view.0 - 1),
        base: clock,
        out: clock,
        origin: Origin::Planned { source: to },
        replica: None,
        every: 0,
    };
    let image = Image {
        clock,
        state: Some(vec![0x5a; 40]),
        since: clock,
        outputs: Vec::new(),
    };
    let (pool, lease) = (PoolId(0), lease());
    let mut all = of_units(unit, view, clock);
    all.extend([
        Message::Open(open),
        Message::Pull {
            unit,
            old: view,
            new,
            at: clock,
        },
        Message::State {
            unit,
            old: view,
            new,
            image,
        },
        Message::Outputs {
            unit,
            view,
            entries: vec![entry(clock.0 + 1, &[Disposition::Out])],
        },
        Message::Ahead {
            unit,
            view,
            image: Image {
                clock,
                state: None,
                since: clock,
                outputs: Vec::new(),
            },
        },
        Message::Compare {
            unit,
            view,
            clock,
            digest: 5,
            round: 1,
        },
        Message::Compared {
            unit,
            view,
            round: 0,
            found: Comparison::Differs,
        },
        Message::Copy {
            unit,
            old: view,
            clock: clock.next(),
            after: clock,
            packet: part(Disposition::Pending),
        },
        Message::Copied {
            unit,
            old: view,
            new,
            clock,
            changed: clock,
            touched: vec![1, 2, 3],
            outputs: Vec::new(),
        },
        Message::LeaseWanted { pool },
        Message::LeaseGranted {
            pool,
            address: 0,
            block: 0,
        },
        Message::PortFreed { pool, lease },
        Message::PortsDoubted {
            pool,
            doubts: vec![(lease, Some(UnitId(9)))],
        },
        Message::PortsKnown {
            pool,
            free: vec![lease],
            leased: vec![lease],
        },
        Message::PollWorkload,
        Message::Workload(Workload::default()),
        Message::NotifyClusterCfg {
            runtimes: vec![RuntimeId(77)],
        },
        Message::SetMigrationTarget {
            from: RuntimeId(1),
            to,
            what: Selection::All,
            mode: MoveMode::Push,
        },
        Message::SetReplica {
            of: RuntimeId(1),
            replica: Some(to),
        },
        Message::Suspect {
            runtime: RuntimeId(1),
        },
    ]);
    all
}

/// Those that are about one unit and go between a switch and a runtime.
fn of_units(unit: UnitId, view: View, clock: Clock) -> Vec<Message> {
    let (to, mode) = (RuntimeId(2), MoveMode::Push);
    let claims = vec![claim(unit, view, clock.0)];
    vec![
        Message::Closed {
            unit,
            old: view,
            at: clock,
            new: view.next(),
            to,
            mode,
        },
        Message::Forget {
            unit,
            below: view.next(),
            ended: true,
        },
        Message::Out {
            unit,
            view,
            out: clock,
        },
        Message::Prepare { unit, view, to },
        Message::SendAhead {
            unit,
            view,
            clock,
            to: vec![to],
        },
        Message::Recover {
            generation: 1,
            from: 0,
            most: 64,
        },
        batch(unit, view, vec![entry(clock.0 + 1, &[Disposition::Out])]),
        Message::Held { unit, view },
        Message::Stored { unit, view, clock },
        Message::Move {
            unit,
            view,
            to,
            mode,
        },
        Message::End { unit, view, clock },
        Message::Tick { unit, view },
        Message::Repeat {
            unit,
            view,
            after: Clock(clock.0 - 1),
        },
        Message::Refuse {
            unit,
            view,
            why: Refusal::Full,
        },
        Message::Forgotten { unit, below: view },
        Message::Claims {
            generation: 1,
            piece: 0,
            pieces: 1,
            claims,
            suspected: vec![RuntimeId(1)],
        },
    ]
}

fn lease() -> PortLease {
    PortLease {
        address: 0,
        port: 2_000,
        space: PortSpace::Udp,
    }
}

/// What runtimes and switch have refused, all reasons together.
fn refused(cluster: &mut Cluster) -> u64 {
    const REASONS: [&str; 17] = [
        "refused",
        "stale",
        "old_view",
        "unknown_unit",
        "not_owner",
        "misdirected",
        "from_stranger",
        "not_sent",
        "duplicate",
        "claim_late",
        "fenced",
        "gap",
        "pull_early",
        "early_given_up",
        "move_void",
        // Kept for a while, for a view that never opens.
        "state_ahead",
        "ahead_kept",
    ];
    let is_one = |name: &str| REASONS.iter().any(|reason| name.contains(reason));
    let counts = cluster.switch.counts().iter();
    let at_switch = counts.filter(|(what, _)| is_one(what.name()));
    let mut sum: u64 = at_switch.map(|(_, count)| count).sum();
    for host in &cluster.hosts {
        let counts = host.actors.counts().iter();
        let own = counts.filter(|(what, _)| is_one(what.name()));
        sum += own.map(|(_, count)| count).sum::<u64>();
    }
    sum
}

/// True where the sender may say this of itself, or it says nothing that counts: no
/// refusal is counted, and still nothing changes.
fn is_idle_talk(to_switch: bool, from: Peer, message: &Message) -> bool {
    let by_runtime = matches!(from, Peer::Runtime(_));
    match message {
        // Its own load; ports that it asks about; blocks that it has no right to are
        // not given; it has forgotten what nobody asked it to.
        Message::Workload(_)
        | Message::LeaseWanted { .. }
        | Message::PortsDoubted { .. }
        | Message::Forgotten { .. } => to_switch && by_runtime,
        // The early state of a move that does not come is given up in time.
        _ => false,
    }
}

#[test]
fn each_message_has_a_row() {
    let mut rows = [0; KINDS];
    for message in messages(UnitId(1), View(2), Clock(3)) {
        rows[kind(&message)] += 1;
    }
    assert!(rows.iter().all(|&count| count > 0), "{rows:?}");
}

/// Hears a forgery, and nothing has changed but counts.
fn hear(cluster: &mut Cluster, to: Option<u32>, from: Peer, message: &Message) {
    let (before, counted) = (cluster.state(), refused(cluster));
    match to {
        None => tell(cluster, from, message.clone()),
        Some(id) => tell_runtime(cluster, id, from, message.clone()),
    }
    let counts = refused(cluster) > counted || is_idle_talk(to.is_none(), from, message);
    assert!(counts, "not counted: {message:?} from {from:?} to {to:?}");
    cluster.carry();
    let after = cluster.state();
    assert_eq!(before, after, "{message:?} from {from:?} to {to:?}");
}

#[test]
fn nobody_speaks_for_others() {
    let (mut cluster, unit, view) = settled();
    for message in messages(unit, view, Clock(3)) {
        for from in [LIAR, STRANGER, Peer::Switch(1)] {
            hear(&mut cluster, None, from, &message);
        }
        // To the owner: from runtimes, and from a switch whose time is over.
        for from in [LIAR, STRANGER, Peer::Switch(0)] {
            hear(&mut cluster, Some(1), from, &message);
        }
    }
    assert_eq!((cluster.packet(1), cluster.packet(2)), (Some(4), Some(4)));
    cluster.end();
}

#[test]
fn who_may_speak_means_another_unit_view_or_clock() {
    let (mut cluster, unit, view) = settled();
    let owner = Peer::Runtime(RuntimeId(1));
    let wrong = [
        (unit, View(view.0 - 1), Clock(3)),
        (unit, View(view.0 + 1_000), Clock(3)),
        (UnitId(unit.0 + (1 << 32)), view, Clock(3)),
        (UnitId(u64::MAX), view, Clock(3)),
        (UnitId(0), view, Clock(3)),
    ];
    for (unit, view, clock) in wrong {
        for message in of_units(unit, view, clock) {
            hear(&mut cluster, None, owner, &message);
        }
    }
    // Clocks that were let out, or never given.
    for clock in [1, 2, 9, u64::MAX - 1] {
        let entries = batch(unit, view, vec![entry(clock, &[Disposition::Out])]);
        hear(&mut cluster, None, owner, &entries);
        let clock = Clock(clock);
        hear(
            &mut cluster,
            None,
            owner,
            &Message::End { unit, view, clock },
        );
        hear(
            &mut cluster,
            None,
            owner,
            &Message::Stored { unit, view, clock },
        );
    }
    assert_eq!((cluster.packet(1), cluster.packet(2)), (Some(4), Some(4)));
    cluster.end();
}

#[test]
fn what_is_cut_or_longer_is_no_message() {
    for message in messages(UnitId(1 << 32 | 7), View(9), Clock(3)) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(Message::decode_one(&bytes).as_ref(), Ok(&message));
        for length in 0..bytes.len() {
            let cut = Message::decode_one(&bytes[..length]);
            assert!(cut.is_err(), "{length} octets of {message:?}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(Message::decode_one(&longer).is_err(), "{message:?}");
    }
}

/// All that switch and runtimes say is heard twice, and all is as it is without.
#[test]
fn what_is_heard_twice_counts_once() {
    for replication in [
        Replication::None,
        Replication::EachBurst,
        Replication::Every(3),
    ] {
        let outputs = [false, true].map(|twice| {
            let mut cluster = Cluster::new(3, replication);
            cluster.twice = twice;
            let mut outputs = Vec::new();
            for round in 0..6 {
                for flow in 1..=6 {
                    outputs.push(cluster.packet(flow));
                }
                cluster.move_all(cluster.owner_of(1), round % 3 + 1);
                cluster.later(20);
            }
            cluster.end();
            outputs
        });
        assert_eq!(outputs[0], outputs[1], "{replication}");
    }
}
