//! The end of a cluster, and what all its parts counted, together.

use std::time::Duration;

use weir_packet::Frame;
use weir_protocol::counts::Countable as _;
use weir_protocol::RuntimeId;
use weir_runtime::{FunctionReport, Report};

use super::cluster::{Cluster, ClusterError, GateCounts};
use super::hand_overs::HandOvers;
use super::path::PathCounts;

/// What one runtime did.
#[derive(Clone, Debug)]
pub struct RuntimeEnd {
    /// Which.
    pub id: RuntimeId,
    /// Packets that came to it.
    pub packets: u64,
    /// Units that it owned at the end, in all chains.
    pub units: u64,
    /// Time in which it had something to do.
    pub busy: Duration,
    /// Most packets it held for units whose state was not there yet.
    pub held_most: u64,
}

/// What a cluster did.
#[derive(Debug)]
pub struct ClusterEnd {
    /// Per chain.
    pub reports: Vec<Report>,
    /// Per runtime, in the order of their numbers.
    pub runtimes: Vec<RuntimeEnd>,
    /// What left.
    pub gate: GateCounts,
    /// Hand-overs.
    pub hand_overs: HandOvers,
    /// What the switches and the actors counted, all of them together; those
    /// that are 0 included.
    pub counts: Vec<(String, u64)>,
    /// What the emulated path did.
    pub path: PathCounts,
    /// Frames that nobody gave back; 0 unless there is a bug.
    pub leaked: usize,
}
