//! Bad input against a real switch and real actors: mutated, random, forged
//! and replayed frames, and peers that have the key and say what is not theirs
//! to say. All of it is refused and counted; nothing of it is acted on.

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod forgeries;
mod frames;
mod functions;
mod liars;
mod snapshots;
