//! Decisions about a whole cluster: which switch runs, when to add runtimes, what to move, whom to
//! stop, what each tenant may have. Pure functions and state machines: load reports in, actions out.

pub mod instances;
pub mod lease;
pub mod scaling;
pub mod tenants;

pub use instances::{Instances, InstancesError, InstancesSettings};
pub use scaling::{
    Action, Ahead, Decision, Load, Need, Places, Policy, Scaling, ScalingSettings, SettingsError,
};
