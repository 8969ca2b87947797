//! A chain and the plan by which it runs.

use weir_graph::NamedText;
use weir_graph::compile::Plan;
use weir_nf::host::Stage;

/// A chain to run.
#[derive(Clone, Debug)]
pub struct ChainPlan {
    /// The plan.
    pub plan: Plan,
    /// Its stages, step by step ([`Plan::stages`]).
    pub stages: Vec<Vec<Stage>>,
    /// The texts that its functions have read.
    pub texts: Vec<NamedText>,
}
