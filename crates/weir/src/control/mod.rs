//! The control socket of a run: gRPC ([`weir_api`]) on a thread of its own,
//! which asks the threads that move packets ([`crate::driver::inbox`]).

mod asked;
mod convert;
mod peers;
mod server;
mod socket;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use weir_api::v1;
use weir_graph::ChainFile;

use crate::driver::inbox::{Inbox, Post};
use crate::exit::Failure;

use asked::Asked;
use socket::Socket;
pub(crate) use socket::{folder, instances};

/// What the command line says of the control socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// `--control`: a path, or `none`.
    pub(crate) path: Option<PathBuf>,
    /// `--name`.
    pub(crate) name: Option<String>,
}

/// What an instance says of itself, beside its counts.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) file: &'a ChainFile,
    pub(crate) chain: &'a Path,
    /// How it runs, in a word.
    pub(crate) mode: &'a str,
    pub(crate) inputs: Vec<v1::PortInfo>,
    pub(crate) outputs: Vec<v1::PortInfo>,
}

/// The control socket of this process; closed and gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
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
        posts: Vec<Post>,
    ) -> Result<Option<Control>, Failure> {
        let live = about.mode == "live";
        if !self.is_wanted(live) {
            return Ok(None);
        }
        match self.start(about, posts) {
            Ok(control) => Ok(Some(control)),
            Err(message) if self.path.is_some() || self.name.is_some() => {
                Err(Failure::outside(message))
            }
            Err(message) => {
                eprintln!("warning: no control socket: {message}");
                Ok(None)
            }
        }
    }

    fn start(&self, about: About<'_>, posts: Vec<Post>) -> Result<Control, String> {
        let stem = about.chain.file_stem().unwrap_or_default();
        let socket = match (&self.path, &self.name) {
            (Some(path), _) => Socket::at(path)?,
            (None, Some(name)) => Socket::named(name)?,
            (None, None) => Socket::for_chain(&stem.to_string_lossy())?,
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => socket.name(),
        };
        let info = convert::info(name, &about);
        let asked = Arc::new(Asked::new(info, about, posts));
        let path = socket.path().to_owned();
        let (stop, stopped) = oneshot::channel();
        let thread = server::start(socket, asked, stopped)?;
        Ok(Control {
            path,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Control {
    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
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

/// An inbox for a thread; the failure says that there is none to be had.
pub(crate) fn inbox(sleeps: bool) -> Result<(Post, Inbox), Failure> {
    Inbox::new(sleeps)
        .map_err(|error| Failure::outside(format!("can't make an event descriptor: {error}")))
}
