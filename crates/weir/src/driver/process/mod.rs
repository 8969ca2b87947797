//! Engines in processes of their own, on packet memory that all of them have: what
//! stages of a plan ([`super::pipeline`]) and runtimes behind a switch
//! ([`super::cluster`]) have in common.
//!
//! The main process starts the others ([`ProcessCommand`]) with descriptors of the
//! packet memory and of the rings ([`SharedRoom`]). Commands to their engines go over a
//! socket with a thread at either end ([`Relay`], [`command_server`]); what they count
//! comes as [`Said`]. When the main process dies, the kernel ends the others.

pub(super) mod child;
pub(super) mod command_server;
mod command_wire;
mod lines;
mod relay;
mod reread;
mod room;
mod running;
pub(super) mod said;
mod said_done;
mod start;

pub(super) use lines::in_messages;
pub(super) use relay::{Engines, Relay, RelayWay};
pub use reread::Reread;
pub(crate) use reread::Taken;
pub(super) use room::{SharedRoom, layout_of, layout_words};
pub(super) use running::Running;
pub(super) use said::Said;
pub(super) use said_done::SaidDone;
pub use start::ProcessCommand;
pub(crate) use start::cause;
pub(super) use start::{Start, TENANT, TRUSTED, outside};

use weir_graph::compile::Plan;
use weir_io::shared;

use super::pipeline::ChainPlan;

/// Prepares this process, which another weir has started: it ends with that one, and a
/// panic ends it at once. To unwind would close rings, and a crash would look like a
/// normal end.
///
/// # Errors
///
/// The kernel refuses.
pub(super) fn obey_parent() -> Result<(), String> {
    shared::end_with_parent().map_err(|error| error.to_string())?;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        std::process::abort();
    }));
    Ok(())
}

/// A number that stands for plans: that of others is another, most likely. A process loads
/// its chains itself, from a file that may have changed since.
pub(crate) fn digest<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> u64 {
    digest_of(plans.into_iter().map(Plan::identity))
}

/// The same for chains with the texts that their functions read.
pub(crate) fn digest_of_chains(chains: &[ChainPlan]) -> u64 {
    let plans = digest(chains.iter().map(|chain| &chain.plan));
    let each = chains.iter().enumerate().flat_map(|(number, chain)| {
        let texts = chain.texts.iter();
        texts.map(move |text| (number, text))
    });
    let texts = each.map(|(number, text)| {
        let (function, name, digest) = (&text.function, &text.name, text.digest);
        format!("{number}\t{function}\t{name}\t{digest:016x}\n")
    });
    digest_of(std::iter::once(plans.to_string()).chain(texts))
}

/// A number that stands for texts in this order.
pub(crate) fn digest_of(texts: impl IntoIterator<Item = String>) -> u64 {
    texts.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, text| {
        text.bytes().fold(hash, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    })
}
