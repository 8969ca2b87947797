//! The control interface of a running weir: what its control socket speaks.
//!
//! gRPC over a Unix socket that only its owner may open. The service is
//! `v1::instance_server::Instance` (feature `service`); its description is
//! `proto/weir/v1/`, and docs/api.md. This crate has messages and nothing else:
//! `weir` fills them, and asks.

pub use prost::Message;

/// Version 1. Fields and calls may be added; none changes its meaning or
/// number.
///
/// Made from `proto/` by `tests/generated.rs`. It is kept in the repository so
/// that a build needs no compiler of Protocol Buffers.
// What is made from the descriptions has their comments, and no others.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("../generated/weir.v1.rs");
}
