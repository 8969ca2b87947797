//! `weir coordinator`: keeps compositions, and tells agents what their hosts have to run.

mod reader;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use weir_coordinator::service::{self, Listener};
use weir_coordinator::store::Store;
use weir_ctl::server::Socket;
use weir_identity::{Credentials, Role};
use weir_nf::host::Kind;

use crate::args::{Coordinated, Coordinator as Args};
use crate::ask;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service::Service;

use reader::OfThisProgram;

/// Interval in which signals are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Interval in which changed certificates are looked for.
const REFRESH: Duration = Duration::from_secs(10);

/// Runs a coordinator, or asks one.
pub(crate) fn command(command: &Coordinated, kinds: &[Kind]) -> Outcome {
    match command {
        Coordinated::Coordinator(args) => run(args, kinds),
        Coordinated::Apply(args) => ask::apply(args, kinds),
        Coordinated::Describe(args) => ask::describe(args),
        Coordinated::Delete(args) => ask::delete(args),
    }
}

/// Runs a coordinator until it is ended.
fn run(args: &Args, kinds: &[Kind]) -> Outcome {
    let signals = crate::run::end_signals()?;
    let mut control = match &args.socket {
        Some(path) => Socket::at(path, false)?,
        None => Socket::of_coordinator().map_err(|why| {
            Failure::outside(format!("{why}; another path is given with `--socket`"))
        })?,
    };
    let store = Store::open(&args.store).map_err(Failure::outside)?;
    let secured = secured(args)?;
    let failed = |error: std::io::Error| Failure::outside(format!("can't serve: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let mut manager = Service::of_process();
    runtime.block_on(async {
        let mut listeners = Vec::new();
        if let Some(listener) = control.listener() {
            listeners.push(Listener::Unix(
                UnixListener::from_std(listener).map_err(failed)?,
            ));
        }
        let mut shown = format!("unix:{}", control.path().display());
        let mut credentials = None;
        if let Some((at, its)) = secured {
            let bound = TcpListener::bind(at).await;
            let bound = bound
                .map_err(|error| Failure::outside(format!("can't listen on {at}: {error}")))?;
            let at = bound.local_addr().map_err(failed)?;
            shown = format!("{shown} and {at}");
            listeners.push(Listener::Tcp(bound, its.clone(), |why| {
                say(format_args!("warning: {why}"));
            }));
            credentials = Some(its);
        }
        say(format_args!("coordinator on {shown}"));
        manager.ready();
        let until_told = async {
            let mut rounds = 0_u32;
            while !signals.came() {
                tokio::time::sleep(LOOK).await;
                manager.alive();
                rounds += 1;
                if u128::from(rounds) * LOOK.as_millis() >= REFRESH.as_millis() {
                    rounds = 0;
                    refresh(credentials.as_ref());
                }
            }
        };
        let reader = Arc::new(OfThisProgram(kinds.to_vec()));
        let served = service::serve(store, listeners, reader, until_told).await;
        served.map_err(Failure::outside)
    })?;
    drop(control);
    Ok(Exit::Done)
}

/// Where peers with certificates are heard, and the certificate that they see.
fn secured(args: &Args) -> Result<Option<(SocketAddr, Credentials)>, Failure> {
    let (Some(listen), Some(folder)) = (args.listen, &args.identity) else {
        return Ok(None);
    };
    Ok(Some((listen, credentials(folder, Role::Coordinator)?)))
}

/// The certificate of a folder, which is one for this role.
pub(crate) fn credentials(folder: &Path, role: Role) -> Result<Credentials, Failure> {
    let credentials = Credentials::load(folder).map_err(|why| Failure::usage(why.to_string()))?;
    let own = credentials.own();
    match own.role() == role {
        true => Ok(credentials),
        false => Err(Failure::usage(format!(
            "{} is no certificate of a role `{role}`: {own}",
            folder.display()
        ))),
    }
}

/// Takes changed certificates, where there are some.
pub(crate) fn refresh(credentials: Option<&Credentials>) {
    match credentials.map(Credentials::refresh) {
        Some(Ok(true)) => say("new certificates are taken"),
        Some(Err(why)) => say(format_args!(
            "warning: the certificates stay as they were: {why}"
        )),
        Some(Ok(false)) | None => {}
    }
}
