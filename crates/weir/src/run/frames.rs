//! `--frame-check`: who had the frames last that were not given back, or were
//! given back twice.

use std::sync::Arc;

use weir_packet::{Holder, MemoryLayout, PacketMemory};

use super::ports::RunPort;
use super::summary::Ended;
use crate::args::Run;
use crate::driver::{CHAINS, COMING, LEAVING};
use crate::exit::Failure;

/// Packet memory for a run in one thread, with a ledger where it is asked for.
pub(super) fn memory(args: &Run, layout: MemoryLayout) -> Arc<PacketMemory> {
    if args.frame_check {
        PacketMemory::checked(layout, weir_io::advise_large_pages)
    } else {
        PacketMemory::new(layout, weir_io::advise_large_pages)
    }
}

/// Refuses it where frames are with several threads.
pub(super) fn check_one_stage(args: &Run) -> Result<(), Failure> {
    if args.frame_check {
        return Err(Failure::usage(
            "--frame-check is for runs in one thread: `--plan rtc` makes it one",
        ));
    }
    Ok(())
}

/// Warns of frames that are out at the end, or were given back twice, and says
/// who had them. `inputs` are the ports by their numbers.
pub(super) fn report(of_run: &mut Ended, memory: &PacketMemory, inputs: &[RunPort]) {
    let name = |holder: Holder| match holder {
        CHAINS => "the chains".to_owned(),
        LEAVING => "the ports that packets leave by".to_owned(),
        COMING => "the inputs".to_owned(),
        port => inputs.get(usize::from(port)).map_or_else(
            || format!("port {port}"),
            |port| format!("port `{}`", port.text),
        ),
    };
    for (holder, count) in memory.held() {
        let holder = name(holder);
        of_run
            .warnings
            .push(format!("frames: {count} were last with {holder}"));
    }
    let (times, givers) = memory.doubled();
    if times > 0 {
        of_run.warnings.push(format!(
            "frames were given back twice, {times} times: this is a fault of weir"
        ));
    }
    for (first, second) in givers {
        let (first, second) = (name(first), name(second));
        of_run.warnings.push(format!(
            "frames: one was given back by {first}, then by {second}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_packet::{FrameMeta, FramePool, Time};

    use super::*;

    #[test]
    fn a_leak_is_told_with_who_had_it() {
        let memory = PacketMemory::checked(MemoryLayout::default(), weir_io::advise_large_pages);
        let mut pool = FramePool::new(Arc::clone(&memory)).unwrap();
        pool.set_holder(0);
        let mut frames: Vec<_> = (0..3)
            .map(|_| {
                let meta = FrameMeta::received(Time(0), 4);
                pool.copy(b"abcd", meta).unwrap()
            })
            .collect();
        memory.hold(&frames[..2], CHAINS);
        pool.give(frames.pop().unwrap());
        let mut of_run = Ended {
            reports: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            refused: 0,
            elapsed: Duration::ZERO,
            more: Vec::new(),
            warnings: Vec::new(),
        };
        report(&mut of_run, &memory, &[]);
        assert_eq!(of_run.warnings, ["frames: 2 were last with the chains"]);
        pool.give_all(&mut frames);
        of_run.warnings.clear();
        report(&mut of_run, &memory, &[]);
        assert!(of_run.warnings.is_empty());
    }
}
