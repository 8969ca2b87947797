//! Chain files of weir: from YAML to a checked plan.
//!
//! [`load`] takes the text of a chain file and gives [`Chain`]s whose
//! [`weir_nf::host::Stage`] the engine runs, or everything that is wrong with
//! the file, each with its line and column. It opens no file: the text is given
//! to it, and texts that settings name come through [`weir_nf::Sources`].
//!
//! ```yaml
//! chain: edge
//! match:
//!   - {protocol: tcp, port: 80}
//! flows:
//!   max: 1000000
//!   timeouts: {udp: 2m}
//! nfs:
//!   - ip-check
//!   - firewall:
//!       default: drop
//!   - http-classifier: {ports: [80]}
//!     as: classify
//!     links: {other: out}
//!   - monitor
//! ```
//!
//! The way goes from text to a tree with places (`tree`), to chains as written
//! (`raw`), with overrides in them (`overrides`), to what was meant (`flows`,
//! `ports`, `network`, `threads`, `placing`, `selector`, `links`), to the processors of its entries (`template`),
//! to functions that are built (`load`).

mod change;
mod claims;
pub mod compile;
mod composition;
mod de;
mod describe;
mod diagnostic;
mod fault;
mod flows;
mod form;
mod keys;
#[cfg(test)]
mod keys_tests;
mod links;
mod load;
mod nearest;
mod network;
mod overrides;
pub mod picture;
mod placing;
mod plan_key;
mod ports;
mod raw;
mod read;
mod rule_variables;
mod schema;
mod script;
mod script_keys;
mod selector;
mod sets;
mod setting_change;
mod template;
mod threads;
mod tree;
mod units;

pub use change::{Change, changes, set_changes};
pub use composition::{
    ComposedFlowlets, ComposedHost, ComposedScaling, ComposedTenant, Composition, NANO, Placed,
    Prices, SCALING_INTERVALS, composition_schema, is_composition, load_composition,
};
pub use describe::{
    Description, FlowsDescription, FunctionDescription, InstanceDescription, LinkDescription,
    PortDescription, describe,
};
pub use diagnostic::{Diagnostic, Severity, render};
pub use load::{Chain, ChainFile, Input, NamedText, load, load_with};
pub use network::{Network, OnFailure, PortAddress, Route, RoutedPort, Routing, StaticNeighbour};
pub use overrides::Override;
pub use placing::{PlacedThread, Placing};
pub use ports::PortDecl;
pub use rule_variables::{chain_variables, suricata_variables};
pub use schema::{schema, schema_with};
pub use script::{Script, ScriptCommand, ScriptStep, ScriptTime, load_script};
pub use script_keys::{MOST_RUNTIMES, ScriptFlows, ScriptMode, script_schema};
pub use selector::Selector;
pub use sets::{SetChange, SetDefinition};
pub use setting_change::SettingChange;
pub use template::{
    Instance, SettingDescription, TemplateDescription, TemplateLabel, TemplateLink,
    TemplateProcessor, TemplateText, Templates, describe_templates, template_schema,
};
pub use threads::Threads;
pub use units::{bit_rate, duration, short_time};
