//! The control socket of a run: where it is, by the arguments, and what it offers.

use std::net::TcpListener;

use weir_ctl::command::CommandSender;
use weir_ctl::observe::Unseen;
use weir_ctl::server::{Billed, Offer, Server, Socket, SocketError};
use weir_graph::ChainFile;

use crate::args::Run;
use crate::billing::{Billing, message_of};
use crate::exit::Failure;
use crate::say::say;
use crate::set_log;

use super::ports::{Ports, RunPort};
use super::reload::configuration;
use super::upgrade::upgrades;

/// The control socket of this process; closed and gone when it is dropped.
pub(super) type Control = Server;

/// Opens the control socket and the metrics' port where they are wanted, and says where
/// they are. To be called once the signals that end a run are taken: the server's
/// thread inherits that.
///
/// # Errors
///
/// A socket or port that the user asked for can't be opened. If the default socket
/// can't, the run goes on without it, with a warning on standard error.
pub(super) fn open_control(
    args: &Run,
    file: &ChainFile,
    mode: &str,
    ports: &Ports,
    senders: Vec<CommandSender>,
    unseen: Vec<Unseen>,
) -> Result<Option<Control>, Failure> {
    let stem = args.chain.file_stem().unwrap_or_default().to_string_lossy();
    let socket = match socket(args, mode == "live", &stem) {
        Ok(socket) => socket,
        Err(error) if is_asked_for(args) => return Err(error.into()),
        Err(error) => {
            let failure = Failure::from(error);
            say(format_args!(
                "warning: no control socket: {}",
                failure.why()
            ));
            None
        }
    };
    let listener = metrics(args)?;
    if socket.is_none() && listener.is_none() {
        return Ok(None);
    }
    let path = socket.as_ref().map(|socket| socket.path().to_owned());
    let address = listener.as_ref().and_then(|l| l.local_addr().ok());
    let name = match (&args.name, &socket) {
        (Some(name), _) => name.clone(),
        (None, Some(socket)) => socket.name(),
        (None, None) => stem.into_owned(),
    };
    let (configuration, fixed_sets) = configuration(args, file)?;
    let set_log = set_log::log().map_err(|error| Failure::outside(error.to_string()))?;
    let of = |ports: &[RunPort]| ports.iter().map(RunPort::info).collect();
    let offer = Offer {
        name,
        file,
        chain: &args.chain,
        mode,
        unseen,
        hosts: args
            .raised
            .as_ref()
            .map(|raised| raised.hosts.clone())
            .unwrap_or_default(),
        events: args.happened.clone(),
        upgrades: upgrades(args, file, ports)?,
        configuration,
        fixed_sets,
        set_log,
        inputs: of(&ports.inputs),
        outputs: of(&ports.outputs),
        billed: args.billing.as_ref().map(billed),
        senders,
    };
    let server = Server::start(socket, listener, offer).map_err(Failure::outside)?;
    if !args.quiet {
        if let Some(path) = path {
            say(format_args!("control socket: {}", path.display()));
        }
        if let Some(address) = address {
            say(format_args!("metrics: http://{address}/metrics"));
        }
    }
    Ok(Some(server))
}

/// What the run is billed by, as the server takes it.
fn billed(billing: &Billing) -> Billed {
    let prices = billing.prices.as_ref();
    Billed {
        ledger: billing.ledger.clone(),
        folder: billing.folder.clone(),
        prices: prices.map(message_of),
    }
}

/// True if the user asked for the control socket.
fn is_asked_for(args: &Run) -> bool {
    args.control.is_some() || args.name.is_some()
}

/// The socket of a run: one with interfaces has one unless it was refused, another one
/// if it was asked for.
fn socket(args: &Run, live: bool, stem: &str) -> Result<Option<Socket>, SocketError> {
    // Most agents say that this is the switch of that name: another one on this host, which
    // stood still, is it no more.
    let replaces = args.lease.is_some();
    match (&args.control, &args.name) {
        (Some(path), _) if path.as_os_str() == "none" => Ok(None),
        (Some(path), _) => Socket::at(path, replaces).map(Some),
        (None, Some(name)) => Socket::named(name, replaces).map(Some),
        (None, None) if live => Socket::for_chain(stem).map(Some),
        (None, None) => Ok(None),
    }
}

fn metrics(args: &Run) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = args.metrics else {
        return Ok(None);
    };
    let listener = TcpListener::bind(address).map_err(|error| {
        Failure::outside(format!(
            "can't answer for metrics on {address}: {error}; give another address with --metrics"
        ))
    })?;
    Ok(Some(listener))
}
