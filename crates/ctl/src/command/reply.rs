//! Replies to commands.

use tokio::sync::oneshot;

/// Sends the reply to a command; its caller may have gone.
pub type Reply<T> = oneshot::Sender<T>;
