//! What a thread of a cluster steps: a runtime, or what stands for one on another host.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use weir_exec::{Node, Round};

use super::super::link::LinkNode;
use super::super::runtime_done::RuntimeDone;
use super::super::runtime_node::RuntimeNode;

/// See the module.
pub(super) enum ClusterNode {
    Runtime(Box<RuntimeNode>),
    Link(Box<LinkNode>),
}

/// Does the same with either.
macro_rules! either {
    ($node:expr, $its:ident => $what:expr) => {
        match $node {
            ClusterNode::Runtime($its) => $what,
            ClusterNode::Link($its) => $what,
        }
    };
}

impl Node for ClusterNode {
    type Report = RuntimeDone;

    fn step(&mut self) -> Result<Round, String> {
        either!(self, node => node.step())
    }

    fn take_commands(&mut self) -> bool {
        either!(self, node => node.take_commands())
    }

    fn prepare_park(&mut self) -> bool {
        either!(self, node => node.prepare_park())
    }

    fn unpark(&mut self) {
        either!(self, node => node.unpark());
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        either!(self, node => node.descriptors(into));
    }

    fn longest(&self) -> Duration {
        either!(self, node => node.longest())
    }

    fn finish(self) -> Result<RuntimeDone, String> {
        either!(self, node => node.finish())
    }
}
