//! Messages: what decodes is encoded to the bytes that it came from, and takes
//! little more memory than they do.

use weir_nf::RuntimeId;
use weir_nf::host::AliasRequest;
use weir_packet::{Direction, Disposition, FlowKey, LinkType, Side, Time};
use weir_protocol::message::{
    Claim, Entry, EntryBatch, FlowSpace, Image, Message, MoveMode, Open, Origin, Part, Selection,
    StateUpdate,
};
use weir_protocol::{Clock, UnitId, View};

/// The bytes as messages, one after the other.
pub fn run(data: &[u8]) {
    let mut rest = data;
    while let Ok((message, used)) = Message::decode(rest) {
        let mut again = Vec::with_capacity(used);
        message.encode(&mut again);
        assert_eq!(again, rest[..used], "{message:?}");
        assert_eq!(Message::decode(&again), Ok((message, used)));
        rest = &rest[used..];
    }
}

fn part(disposition: Disposition, bytes: &[u8]) -> Part {
    Part {
        disposition,
        time: Time(1_700_000_000_000_000_000),
        sequence: 9,
        flags: 8,
        side: Side::Outside,
        port: 1,
        link: LinkType::Ethernet,
        dlt: 1,
        wire_len: bytes.len() as u32,
        path: 0b101,
        bytes: bytes.to_vec(),
    }
}

/// One message of each shape.
pub(crate) fn examples() -> Vec<Message> {
    let (unit, view, clock) = (UnitId(1 << 32 | 5), View(1 << 48 | 3), Clock(7));
    let runtime = RuntimeId(2);
    let key = FlowKey::from_words([0, 0x0a00_0001, 0, 0x0a00_0002, 1 << 48 | 2 << 32, 6]);
    let entries = vec![Entry {
        clock,
        parts: vec![
            part(Disposition::Notes, b"notes"),
            part(Disposition::Out, b"packet"),
        ],
    }];
    let batch = |state| EntryBatch {
        unit,
        view,
        clock,
        state,
        entries: entries.clone(),
    };
    let alias = AliasRequest {
        flow: 1,
        key,
        client: Direction::Reverse,
        side: Side::Inside,
        open: true,
    };
    let prefixes = ["10.0.0.0/8", "2001:db8::/32"].map(|p| p.parse().expect("a prefix"));
    vec![
        Message::Open(Open {
            unit,
            view,
            old: View::NONE,
            base: clock,
            out: clock,
            origin: Origin::Planned { source: runtime },
            replica: Some(runtime),
            every: 0,
        }),
        Message::Closed {
            unit,
            old: view,
            at: clock,
            new: view.next(),
            to: runtime,
            mode: MoveMode::Reprocess,
        },
        Message::Entries(vec![
            batch(StateUpdate::Omitted),
            batch(StateUpdate::Touched(vec![1, 2])),
            batch(StateUpdate::Full(Some(vec![3]))),
            batch(StateUpdate::Whole(None)),
        ]),
        Message::Claims {
            generation: 2,
            piece: 0,
            pieces: 1,
            claims: vec![Claim {
                unit,
                view,
                owner: true,
                clock,
                state: true,
                key: Some(key),
                flows: vec![(key, false)],
                aliases: vec![(key, alias)],
            }],
            suspected: vec![runtime],
        },
        Message::State {
            unit,
            old: view,
            new: view.next(),
            image: Image {
                clock,
                since: Clock(3),
                state: Some(vec![0; 20]),
                outputs: entries.clone(),
            },
        },
        Message::Copy {
            unit,
            old: view,
            clock,
            after: Clock(6),
            packet: part(Disposition::Pending, b"copy"),
        },
        Message::Copied {
            unit,
            old: view,
            new: view.next(),
            clock,
            changed: clock,
            touched: vec![4; 9],
            outputs: entries,
        },
        Message::NotifyClusterCfg {
            runtimes: vec![runtime, RuntimeId(3)],
        },
        Message::SetMigrationTarget {
            from: runtime,
            to: RuntimeId(3),
            what: Selection::Space(FlowSpace {
                prefixes: prefixes.to_vec(),
                ports: vec![(1, 2)],
                protocols: vec![6, 17],
            }),
            mode: MoveMode::Pull,
        },
        Message::PollWorkload,
    ]
}
