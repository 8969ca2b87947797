//! Chains cut into stages do what they do as written.

mod common;

use common::line::{Line, Made, Told, cut, written};
use proptest::prelude::*;
use weir_nf::host::{FlowOptions, Stage, WhenFull};
use weir_nf::prelude::*;
use weir_runtime::Report;
use weir_runtime::harness::Craft;

#[derive(Clone, Debug)]
struct Step {
    client: u8,
    server: u8,
    kind: u8,
    back: bool,
    flags: u8,
    what: u8,
    wait_ms: u64,
    /// The burst ends here.
    flush: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![
        8 => Just(0u64), 4 => 0u64..2_000, 1 => 9_000u64..11_000, 1 => 230_000u64..310_000
    ];
    let step = (
        (0u8..5, 0u8..3, 0u8..8, any::<bool>()),
        (0u8..7, any::<u8>(), wait, prop::bool::weighted(0.1)),
    );
    let step = step.prop_map(
        |((client, server, kind, back), (flags, what, wait_ms, flush))| Step {
            client,
            server,
            kind,
            back,
            flags,
            what,
            wait_ms,
            flush,
        },
    );
    prop::collection::vec(step, 1..250)
}

impl Step {
    fn packet(&self, number: usize) -> Vec<u8> {
        let client = format!("10.0.0.{}:1000", self.client);
        let server = format!("192.0.2.{}:80", self.server);
        let (from, to) = if self.back {
            (server, client)
        } else {
            (client, server)
        };
        let payload = [self.what, 0, number as u8, 4, 5, 6, 7, 8];
        let fragment = [0x2000, 2, 0x2002][usize::from(self.flags) % 3];
        let craft = match self.kind {
            0..4 => {
                let flags = ["S", "SA", "R", "FA", "A", "A", "A"][usize::from(self.flags)];
                Craft::tcp(&from, &to).flags(flags)
            }
            4 => Craft::udp(&from, &to)
                .ip_id(u16::from(self.what % 4))
                .fragment(fragment),
            _ => Craft::udp(&from, &to),
        };
        let mut bytes = craft.payload(&payload).build();
        if self.kind == 7 {
            // not IP, or cut
            match self.flags {
                0 => bytes.truncate(usize::from(self.what) % 40 + 4),
                1 => bytes[12..14].copy_from_slice(&[0x88, 0xb5]),
                _ => {}
            }
        }
        bytes
    }
}

fn run(stages: &[Stage], steps: &[Step], frames: u32, portions: u64) -> (Told, Report) {
    let mut line = Line::new(stages, frames, portions);
    let mut told = Told::default();
    let mut now = Time::from_secs(1_700_000_000);
    for (number, step) in steps.iter().enumerate() {
        now = now.plus(step.wait_ms * 1_000_000);
        line.push(&step.packet(number), now, number as u64 + 1);
        if step.flush {
            line.run(&mut told);
        }
    }
    let report = line.finish(&mut told);
    assert!(report.balances(), "{report:?}");
    (told, report)
}

fn starts(len: usize, cuts: &[usize]) -> Vec<usize> {
    let mut starts: Vec<usize> = cuts.iter().map(|cut| cut % len).chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn stages_do_what_the_chain_as_written_does(
        made in prop::collection::vec((any::<u8>(), any::<u8>()), 2..8),
        cuts in prop::collection::vec(any::<usize>(), 1..4),
        steps in steps(),
        max in prop_oneof![1u32..9, Just(64u32)],
        refuse: bool,
        held in prop_oneof![Just(0u32), Just(4), Just(64)],
        portions: u64,
    ) {
        let made: Vec<Made> = made;
        let flows = FlowOptions {
            max,
            when_full: if refuse { WhenFull::Refuse } else { WhenFull::Evict },
            held_fragments: held,
            buffer_bytes: 1 << 20,
            ..FlowOptions::default()
        };
        let whole = written(&made, flows);
        let stages = cut(&whole, &starts(made.len(), &cuts));
        let (want, want_report) = run(&[whole], &steps, 4_096, 0);
        let (got, mut report) = run(&stages, &steps, 4_096, portions);
        prop_assert_eq!(&got.packets, &want.packets);
        prop_assert_eq!(&got.emitted, &want.emitted);
        prop_assert_eq!(&got.events, &want.events);
        prop_assert_eq!(&got.states, &want.states);
        report.bad_notices = 0;
        prop_assert_eq!(report, want_report);
    }
}
