//! Ports of a parallel step and of a balanced stage, wired with rings.

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_packet::{FramePool, ParseOptions};

use super::{
    Branch, ByFlow, InTurn, Lender, Marker, MergeFlows, MergeTurns, Regions, StageError,
    StageInput, StageOutput, Sync, point,
};

/// Parts of a parallel step.
#[derive(Clone, Debug)]
pub struct ParallelSettings {
    /// Places in each ring.
    pub places: usize,
    /// `next` of the packets that are for this step.
    pub group: RangeInclusive<u8>,
    /// The branches beside the first.
    pub further: Vec<FurtherBranch>,
    /// `next` of the packets behind the step; `None` leaves what the first
    /// branch set.
    pub exit: Option<u8>,
    /// How headers are parsed in the chain: that says where parts of packets
    /// are that branches write.
    pub parse: ParseOptions,
}

/// A branch of a parallel step, beside the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FurtherBranch {
    /// `next` that its copies get: where they enter it.
    pub entry: u8,
    /// Regions that it may write.
    pub writes: Regions,
}

/// The ports of one stage's thread.
#[derive(Debug)]
pub struct QueuePorts {
    /// Port from which it takes frames.
    pub input: Box<dyn StageInput>,
    /// Port to which it gives frames.
    pub output: Box<dyn StageOutput>,
}

/// The ports of a parallel step.
#[derive(Debug)]
pub struct Parallel {
    /// For the stage before: its output.
    pub branch: Branch,
    /// For the branches, the first one first.
    pub queues: Vec<QueuePorts>,
    /// For the stage behind: its input.
    pub sync: Sync,
}

/// Makes the ports of a parallel step; `pool` is for copies: as many packets
/// can be on their way through the step as it has frames per further branch.
///
/// # Errors
///
/// As [`Branch::new`].
pub fn parallel(settings: &ParallelSettings, pool: FramePool) -> Result<Parallel, StageError> {
    let memory = Arc::clone(pool.memory());
    let mut lender = Lender::new(pool);
    let (first, input) = point(settings.places);
    let (output, behind_first) = point(settings.places);
    let mut queues = vec![QueuePorts {
        input: Box::new(input),
        output: Box::new(output),
    }];
    let (mut outputs, mut behind) = (Vec::new(), Vec::new());
    for (number, further) in settings.further.iter().enumerate() {
        let (to_branch, input) = point(settings.places);
        let (to_sync, from_branch) = point(settings.places);
        let marker = Marker::new(
            Arc::clone(&memory),
            number as u8,
            !further.writes.is_none(),
            Box::new(to_sync),
            lender.return_path(),
        );
        outputs.push((Box::new(to_branch) as Box<dyn StageOutput>, further.entry));
        behind.push((Box::new(from_branch) as Box<dyn StageInput>, further.writes));
        queues.push(QueuePorts {
            input: Box::new(input),
            output: Box::new(marker),
        });
    }
    let sync = Sync::new(
        Box::new(behind_first),
        behind,
        memory,
        lender.return_path(),
        settings.exit,
        settings.parse,
    );
    let branch = Branch::new(Box::new(first), outputs, settings.group.clone(), lender)?;
    Ok(Parallel {
        branch,
        queues,
        sync,
    })
}

/// The ports of a stage that runs as several instances.
#[derive(Debug)]
pub struct Balanced {
    /// For the stage before: its output.
    pub output: Box<dyn StageOutput>,
    /// For the instances.
    pub queues: Vec<QueuePorts>,
    /// For the stage behind: its input.
    pub input: Box<dyn StageInput>,
}

/// A ring before and one behind each instance: the stage's ports, what the
/// balanced port gives to, and what the merging port takes from.
type Rings = (
    Vec<QueuePorts>,
    Vec<Box<dyn StageOutput>>,
    Vec<Box<dyn StageInput>>,
);

fn rings(instances: usize, places: usize) -> Rings {
    let mut rings: Rings = Default::default();
    for _ in 0..instances {
        let (to_instance, input) = point(places);
        let (output, from_instance) = point(places);
        rings.0.push(QueuePorts {
            input: Box::new(input),
            output: Box::new(output),
        });
        rings.1.push(Box::new(to_instance));
        rings.2.push(Box::new(from_instance));
    }
    rings
}

/// Makes the ports of a stage with so many instances that each have their
/// flows ([`ByFlow`], [`MergeFlows`]), with rings of `places` places; `pool` is
/// for copies of notices.
///
/// # Errors
///
/// As [`ByFlow::new`].
pub fn balanced_by_flow(
    instances: usize,
    places: usize,
    pool: FramePool,
) -> Result<Balanced, StageError> {
    let memory = Arc::clone(pool.memory());
    let mut lender = Lender::new(pool);
    let back = lender.return_path();
    let (queues, to, from) = rings(instances, places);
    Ok(Balanced {
        output: Box::new(ByFlow::new(to, lender)?),
        queues,
        input: Box::new(MergeFlows::new(from, memory, back)),
    })
}

/// Makes the ports of a stage with so many instances that are given `turn`
/// packets in turn ([`InTurn`], [`MergeTurns`]), with rings of `places`
/// places; `pool` is for turns' ends and copies of notices.
///
/// # Errors
///
/// As [`InTurn::new`].
pub fn balanced_in_turn(
    instances: usize,
    places: usize,
    turn: usize,
    pool: FramePool,
) -> Result<Balanced, StageError> {
    let memory = Arc::clone(pool.memory());
    let mut lender = Lender::new(pool);
    let back = lender.return_path();
    let (queues, to, from) = rings(instances, places);
    Ok(Balanced {
        output: Box::new(InTurn::new(to, turn, lender)?),
        queues,
        input: Box::new(MergeTurns::new(from, memory, back)),
    })
}
