//! Messages of real flows do not depend on how the streams are cut, nor on snapshots between the pieces.

mod common;

use common::{Run, messages};
use weir_dissect::Limits;

#[test]
fn messages_do_not_depend_on_cuts_and_snapshots() {
    let Some(traces) = common::traces::traces() else {
        return;
    };
    let small = Limits {
        head: 300,
        body: 1000,
    };
    let (mut flows, mut seen) = (0, 0);
    for file in common::captures(&traces) {
        if std::fs::metadata(&file).unwrap().len() > 1_000_000 {
            continue;
        }
        for (number, flow) in common::flows(&file).iter().enumerate() {
            if flow.pieces.is_empty() || number > 40 {
                continue;
            }
            flows += 1;
            for limits in [Limits::default(), small] {
                let whole = messages(flow, Run { limits, seed: None });
                let seed = flows as u64 * 0x9e37_79b9 + 1;
                let cut = messages(
                    flow,
                    Run {
                        limits,
                        seed: Some(seed),
                    },
                );
                seen += whole.len();
                for (whole, cut) in whole.iter().zip(&cut) {
                    assert_eq!(whole, cut, "{} flow {number} seed {seed}", file.display());
                }
                assert_eq!(
                    whole.len(),
                    cut.len(),
                    "{} flow {number} seed {seed}",
                    file.display()
                );
            }
        }
    }
    assert!(flows > 900 && seen > 3000, "{flows} flows, {seen} messages");
}
