//! The control socket of a run: gRPC ([`weir_api`]) on a thread of its own,
//! which sends commands to the threads that move packets ([`crate::driver::command`]).

mod about;
mod asked;
mod convert;
mod fresh;
mod http;
mod metrics;
mod peers;
mod reasons;
mod server;
mod socket;
mod watches;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::driver::command::CommandSender;
use crate::exit::Failure;
use crate::say::say;

pub(crate) use about::{About, Wanted};
use asked::Asked;
use socket::Socket;
pub(crate) use socket::{folder, instances};

/// The control socket of this process; closed and gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    path: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Wanted {
    /// Whether a run has a control socket: one with interfaces unless it was
    /// refused, another one if it was asked for.
    fn is_wanted(&self, live: bool) -> bool {
        match &self.path {
            Some(path) => path.as_os_str() != "none",
            None => live || self.name.is_some(),
        }
    }

    /// Whether the socket itself was asked for.
    fn is_asked_for(&self) -> bool {
        self.path.is_some() || self.name.is_some()
    }

    /// Opens the socket where one is wanted, and answers on it until the
    /// [`Control`] is dropped. To be called once the signals that end a run are
    /// taken: threads inherit that.
    ///
    /// # Errors
    ///
    /// A socket that was asked for can't be had. One that nobody asked for is
    /// done without, with a warning to standard error.
    pub(crate) fn open(
        &self,
        about: About<'_>,
        senders: Vec<CommandSender>,
    ) -> Result<Option<Control>, Failure> {
        let socket = match self.is_wanted(about.mode == "live") {
            false => None,
            true => match self.socket(&about) {
                Ok(socket) => Some(socket),
                Err(message) if self.is_asked_for() => return Err(Failure::outside(message)),
                Err(message) => {
                    say(format_args!("warning: no control socket: {message}"));
                    None
                }
            },
        };
        let metrics = match self.metrics {
            None => None,
            Some(address) => Some(TcpListener::bind(address).map_err(|error| {
                Failure::outside(format!(
                    "can't answer for metrics on {address}: {error}; give another address with \
                     --metrics"
                ))
            })?),
        };
        if socket.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let started = self.start(socket, metrics, about, senders);
        started.map(Some).map_err(Failure::outside)
    }

    fn socket(&self, about: &About<'_>) -> Result<Socket, String> {
        let stem = about.chain.file_stem().unwrap_or_default();
        match (&self.path, &self.name) {
            (Some(path), _) => Socket::at(path),
            (None, Some(name)) => Socket::named(name),
            (None, None) => Socket::for_chain(&stem.to_string_lossy()),
        }
    }

    fn start(
        &self,
        socket: Option<Socket>,
        metrics: Option<TcpListener>,
        about: About<'_>,
        senders: Vec<CommandSender>,
    ) -> Result<Control, String> {
        let stem = about.chain.file_stem().unwrap_or_default();
        let name = match (&self.name, &socket) {
            (Some(name), _) => name.clone(),
            (None, Some(socket)) => socket.name(),
            (None, None) => stem.to_string_lossy().into_owned(),
        };
        let info = convert::info(name, &about);
        let asked = Arc::new(Asked::new(info, about, senders));
        let path = socket.as_ref().map(|socket| socket.path().to_owned());
        let address = metrics
            .as_ref()
            .and_then(|listener| listener.local_addr().ok());
        let (stop, stopped) = oneshot::channel();
        let thread = server::start(socket, metrics, asked, stopped)?;
        Ok(Control {
            path,
            metrics: address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Control {
    /// Where it listens.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where Prometheus asks.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic of its was printed.
            drop(thread.join());
        }
    }
}
