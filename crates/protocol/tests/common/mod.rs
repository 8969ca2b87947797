//! What several tests need.

#![allow(dead_code)] // each test takes a part

pub(crate) mod link;
pub(crate) mod messages;
