//! The compiler: a chain as written in, a plan out. A pure function, in passes
//! that can be read one by one.

mod graph;
mod options;
mod plan;

pub use graph::{Effects, Graph, Processor};
pub use options::{Mode, Options, Parallel};
pub use plan::{Balance, Decision, Pass, Plan, PlannedStage, Step};
