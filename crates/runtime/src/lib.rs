//! The engine of weir: flow table, flow actors, bursts through a stage.

mod flows;
