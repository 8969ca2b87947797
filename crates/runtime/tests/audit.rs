//! Functions that lie about themselves, and are named.

mod common;

use common::line;
use weir_nf::host::{FlowOptions, Stage};
use weir_nf::prelude::*;
use weir_nf::{PoolId, PoolSpec, PortSpace, Want};
use weir_packet::{FrameMeta, FramePool, MemoryLayout};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Lie, Runtime, RuntimeConfig};

/// Does what it does not say: for each packet what its number says.
struct Liar {
    pool: PoolId,
}

const LIES: [&str; 16] = [
    "",
    "writes the link header",
    "writes the network header",
    "writes the transport header",
    "writes the payload",
    "drops for a reason of number 1, of 1",
    "gives label 2, of 1",
    "makes packets",
    "asks for aliases",
    "turns packets",
    "writes events",
    "keeps a tally",
    "leases ports",
    "gives no verdict",
    "writes the payload", // made longer
    "writes behind the packet",
];

impl Liar {
    fn lie(&self, packet: &mut Packet<'_>, flow: &FlowInfo<'_>, cx: &mut Context<'_>) -> Verdict {
        match packet.meta().sequence {
            1 => packet.bytes_mut()[0] ^= 2,
            2 => packet.network_mut()[8] ^= 1,
            3 => packet.transport_mut()[0] ^= 1,
            4 => packet.payload_mut()[0] ^= 1,
            5 => return Verdict::Drop(Reason::Two.into()),
            6 => return Verdict::Label(2),
            7 => {
                cx.emit(Side::Inside, 60);
            }
            8 => cx.alias(FlowKey::default(), flow.direction()),
            9 => return Verdict::Turn,
            10 => {
                cx.event("lie", flow).number("n", 1);
            }
            11 => {
                cx.tally(b"lie", 1);
            }
            12 => {
                cx.leases
                    .take(self.pool, 0, PortSpace::Udp, Want::default());
            }
            14 => {
                let network = packet.network_mut();
                let long = u16::from_be_bytes([network[2], network[3]]);
                network[2..4].copy_from_slice(&(long + 1).to_be_bytes());
                packet.append(1);
            }
            15 => {
                packet.append(4);
            }
            _ => {}
        }
        Verdict::Pass
    }
}

weir_nf::labels! {
    /// Drop reasons.
    enum Reason: Counter<Packets> {
        /// It is the first reason.
        One = "one",
        /// The descriptor does not have it.
        Two = "two",
    }
}

impl NetworkFunction for Liar {
    type Settings = ();
    type State = ();
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        drops: Reason::TABLE.split_at(1).0,
        labels: &["one"],
        ..Descriptor::new("liar", "Lies")
    };

    fn new(_: (), set_up: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        let spec = PoolSpec {
            addresses: vec![[192, 0, 2, 200].into()],
            first: 1_024,
            last: 2_047,
            block: 64,
        };
        let pool = set_up.lease("pool", spec)?;
        Ok(Liar { pool })
    }

    fn process(
        &self,
        packet: &mut Packet<'_>,
        flow: &mut Flow<'_, Self>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let info = flow.info;
        self.lie(packet, &info, cx)
    }

    fn process_burst(&self, burst: &mut Burst<'_, Self>, cx: &mut Context<'_>) {
        for i in (0..64)
            .filter(|i| burst.mask() >> i & 1 != 0)
            .collect::<Vec<_>>()
        {
            if burst.packet(i).meta().sequence != 13 {
                burst.step(i, self, cx);
            }
        }
    }
}

/// Runs these packets, from number 1 on, with audit on.
fn lies(stage: &Stage, packets: &[Vec<u8>]) -> Vec<Lie> {
    let config = RuntimeConfig {
        audit: true,
        event_bytes: 1 << 20,
        ..RuntimeConfig::default()
    };
    let mut runtime = Runtime::new(stage, config).expect("the stage runs");
    let mut pool = FramePool::with_layout(MemoryLayout::default());
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for (number, bytes) in packets.iter().enumerate() {
        let mut meta = FrameMeta::received(Time::from_secs(1_000), 0);
        meta.sequence = number as u64 + 1;
        input.push(pool.copy(bytes, meta).expect("a frame is free"));
    }
    runtime.process(&mut pool, &mut input, &mut output);
    pool.give_all(&mut output);
    runtime.finish(&mut pool);
    assert!(runtime.report().balances());
    runtime.lies().to_vec()
}

fn packets(count: usize) -> Vec<Vec<u8>> {
    let craft = Craft::udp("10.0.0.1:7", "192.0.2.1:80");
    vec![craft.payload(&[0, 1, 2, 3]).build(); count]
}

#[test]
fn each_lie_is_told_once_and_names_function_and_packet() {
    let builder = Harness::builder().with::<Liar>(()).expect("none");
    let found = lies(&builder.stage(), &packets(40));
    let want: Vec<(String, u64)> = LIES
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(number, _)| *number != 14) // told of packet 4
        .map(|(number, what)| ((*what).to_owned(), number as u64))
        .collect();
    let mut got: Vec<(String, u64)> = found.iter().map(|l| (l.what.clone(), l.packet)).collect();
    // A longer packet has another length in its header.
    got.sort_by_key(|(_, packet)| *packet);
    assert_eq!(got, want);
    assert!(found.iter().all(|l| l.function == "liar" && l.nf == "liar"));
    let text = found[0].to_string();
    assert_eq!(
        text,
        "liar (liar) writes the link header, which its descriptor does not say: packet 1"
    );
}

/// Says all that it does, but not that it writes an event at the end.
struct LastWord;

impl NetworkFunction for LastWord {
    type Settings = ();
    type State = ();
    type Stats = ();
    type FlowState = ();
    const DESCRIPTOR: Descriptor = Descriptor {
        needs: Needs::Flow,
        ..Descriptor::new("last-word", "Has the last word")
    };
    fn new(_: (), _: &mut SetUp<'_>) -> Result<Self, SettingsError> {
        Ok(LastWord)
    }
    fn process(&self, _: &mut Packet<'_>, _: &mut Flow<'_, Self>, _: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }
    fn close(&self, flow: &mut Flow<'_, Self>, _: CloseReason, cx: &mut Context<'_>) {
        let info = flow.info;
        cx.flow_event("over", &info);
    }
}

#[test]
fn what_is_done_at_the_end_is_compared_too() {
    let builder = Harness::builder().with::<LastWord>(()).expect("none");
    let found = lies(&builder.stage(), &packets(3));
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].what.as_str(), found[0].packet),
        ("writes events", 0)
    );
    assert!(found[0].to_string().ends_with("at the end of a flow"));
}

#[test]
fn who_does_what_it_says_is_not_named_and_does_the_same() {
    let made: Vec<line::Made> = (0..6).map(|i| (i, i * 5)).collect();
    let stage = line::written(
        &made,
        FlowOptions {
            max: 16,
            buffer_bytes: 1 << 20,
            ..FlowOptions::default()
        },
    );
    let packets: Vec<Vec<u8>> = (0..600u32)
        .map(|i| {
            let client = format!("10.0.0.{}:{}", i % 7, 1_000 + i % 3);
            let craft = Craft::udp(&client, "192.0.2.1:80");
            craft.payload(&[(i * 7 % 256) as u8, 0, 1, 2]).build()
        })
        .collect();
    assert_eq!(lies(&stage, &packets), []);
}
