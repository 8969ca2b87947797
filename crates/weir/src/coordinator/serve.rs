//! A coordinator while it stands by, and while it leads.

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use weir_coordinator::service::{self, Ended, Listener};
use weir_coordinator::store::{Attempt, Candidate, Imported, Store};
use weir_ctl::server::Socket;
use weir_identity::{Credentials, Role};
use weir_io::live::EndSignals;
use weir_nf::host::Kind;

use crate::args::Coordinator as Args;
use crate::exit::{Exit, Failure, Outcome};
use crate::say::say;
use crate::service::Service;

use super::certificates::{credentials, refresh};
use super::place::Place;
use super::reader::OfThisProgram;

/// Interval in which signals are looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Interval in which changed certificates are looked for.
const REFRESH: Duration = Duration::from_secs(10);
/// Looks for signals between two attempts to lead.
const ATTEMPT: u32 = 5;
/// How long the work of a term may go on after it.
const REST: Duration = Duration::from_secs(1);

/// Runs a coordinator until it is ended.
pub(super) fn run(args: &Args, kinds: &[Kind]) -> Outcome {
    let place = Place::of(args)?;
    let mut coordinator = Running {
        args,
        kinds,
        secured: secured(args)?,
        signals: crate::run::end_signals()?,
        manager: Service::of_process(),
        waited: 0,
    };
    match place {
        Place::Folder(folder) => {
            let control = coordinator.socket()?;
            let store = Store::open(&folder).map_err(Failure::outside)?;
            let kept = store.load().map_err(Failure::outside)?;
            coordinator.serve(control, &Arc::new(store), kept)?;
        }
        Place::Etcd(etcd) => {
            let says = coordinator.says()?;
            let imports = coordinator.args.import.is_some();
            let candidate = Candidate::new(&etcd, &says, imports).map_err(Failure::usage)?;
            coordinator.stand_and_lead(&candidate)?;
        }
    }
    Ok(Exit::Done)
}

/// A coordinator that runs.
struct Running<'a> {
    args: &'a Args,
    kinds: &'a [Kind],
    /// Where peers with certificates are heard, and the certificate that they see.
    secured: Option<(SocketAddr, Credentials)>,
    signals: EndSignals,
    manager: Service,
    /// Looks for signals since certificates were looked for.
    waited: u32,
}

impl Running<'_> {
    fn socket(&self) -> Result<Socket, Failure> {
        match &self.args.socket {
            Some(path) => Ok(Socket::at(path, false)?),
            None => Socket::of_coordinator().map_err(|why| {
                Failure::outside(format!("{why}; another path is given with `--socket`"))
            }),
        }
    }

    /// The name that coordinators that stand by tell. It also checks that this one can listen, before it
    /// has to.
    fn says(&self) -> Result<String, Failure> {
        let control = self.socket()?;
        let path = std::path::absolute(control.path());
        let path = path.unwrap_or_else(|_| control.path().to_owned());
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy();
        Ok(match &self.secured {
            Some((at, its)) => {
                let bound = std::net::TcpListener::bind(at);
                bound.map_err(|error| cannot_listen(*at, &error))?;
                format!("{} at {at} ({machine})", its.own().name())
            }
            None => format!("the one at unix:{} ({machine})", path.display()),
        })
    }

    /// Stands by until nobody leads, and leads until another one does, or it is ended.
    fn stand_and_lead(&mut self, candidate: &Candidate) -> Result<(), Failure> {
        while let Some(mut store) = self.stand_by(candidate) {
            if let Some(folder) = self.args.import.clone() {
                // It may take longer than a service manager waits for a start.
                self.manager.ready();
                let imported = self.meanwhile(|| {
                    let imported = store.import(&folder);
                    imported.inspect_err(|_| store.resign())
                });
                match imported {
                    Ok(Imported::All) => say(format_args!("{} is imported", folder.display())),
                    Ok(Imported::AllBut(why)) => say(format_args!(
                        "warning: {} is imported, but for some rows of ledgers: {why}",
                        folder.display()
                    )),
                    Ok(Imported::Nothing) => say("nothing is imported: etcd has had compositions"),
                    Err(why) => return Err(Failure::outside(why)),
                }
            }
            let store = Arc::new(store);
            let served = match self.meanwhile(|| store.load()) {
                Ok(kept) => self
                    .socket()
                    .and_then(|control| self.serve(control, &store, kept)),
                Err(why) => Ok(Ended::Deposed(why)),
            };
            self.meanwhile(|| store.resign());
            match served? {
                Ended::Stopped => return Ok(()),
                Ended::Deposed(why) => {
                    say(format_args!(
                        "warning: this coordinator leads no longer: {why}"
                    ));
                    // What another one can mend is not tried again at once.
                    if !self.pause() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The store, once this coordinator leads; `None` where it is ended.
    fn stand_by(&mut self, candidate: &Candidate) -> Option<Store> {
        let mut told = String::new();
        loop {
            let now = match self.meanwhile(|| candidate.attempt()) {
                Ok(Attempt::Leads(store)) => return Some(store),
                Ok(Attempt::StandsBy(leader)) => format!("stands by: {leader} leads"),
                Err(why) => format!("warning: can't stand by: {why}"),
            };
            // Also where etcd is silent: it has started, and goes on asking.
            self.manager.ready();
            if now != told {
                say(&now);
                told = now;
            }
            if !self.pause() {
                return None;
            }
        }
    }

    /// Does what may take long, and tells the service manager meanwhile that this process lives.
    fn meanwhile<T: Send>(&mut self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|threads| {
            let (done, is_done) = mpsc::channel::<()>();
            let working = threads.spawn(move || {
                // Also a panic ends the wait.
                let _done = done;
                work()
            });
            while is_done.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                self.look();
            }
            let joined = working.join();
            joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Waits for the next attempt; false where it is ended meanwhile.
    fn pause(&mut self) -> bool {
        for _ in 0..ATTEMPT {
            if self.signals.came() {
                return false;
            }
            std::thread::sleep(LOOK);
            self.look();
        }
        true
    }

    /// Tells the service manager that this process lives, and looks for new certificates.
    fn look(&mut self) {
        self.manager.alive();
        self.waited += 1;
        if u128::from(self.waited) * LOOK.as_millis() >= REFRESH.as_millis() {
            self.waited = 0;
            refresh(self.secured.as_ref().map(|(_, its)| its));
        }
    }

    /// Lets callers in, until it is ended or another one leads. What a term has begun is over with it.
    fn serve(
        &mut self,
        mut control: Socket,
        store: &Arc<Store>,
        kept: (u64, Vec<weir_coordinator::state::Taken>),
    ) -> Result<Ended, Failure> {
        let failed = |error: std::io::Error| Failure::outside(format!("can't serve: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let served = runtime.block_on(async {
            let mut listeners = Vec::new();
            if let Some(listener) = control.listener() {
                let listener = UnixListener::from_std(listener).map_err(failed)?;
                listeners.push(Listener::Unix(listener));
            }
            let mut shown = format!("unix:{}", control.path().display());
            if let Some((at, its)) = &self.secured {
                let bound = TcpListener::bind(at).await;
                let bound = bound.map_err(|error| cannot_listen(*at, &error))?;
                let at = bound.local_addr().map_err(failed)?;
                shown = format!("{shown} and {at}");
                listeners.push(Listener::Tcp(bound, its.clone(), |why| {
                    say(format_args!("warning: {why}"));
                }));
            }
            say(format_args!("coordinator on {shown}"));
            self.manager.ready();
            let reader = Arc::new(OfThisProgram(self.kinds.to_vec()));
            let until_told = async {
                let mut told = None;
                while !self.signals.came() {
                    tokio::time::sleep(LOOK).await;
                    self.look();
                    let trouble = store.trouble();
                    if let Some(why) = trouble.as_ref().filter(|_| trouble != told) {
                        say(format_args!(
                            "warning: not all reports of ledgers are written: {why}"
                        ));
                    }
                    told = trouble;
                }
            };
            let served = service::serve(store.clone(), listeners, reader, kept, until_told).await;
            served.map_err(Failure::outside)
        });
        runtime.shutdown_timeout(REST);
        served
    }
}

fn cannot_listen(at: SocketAddr, error: &std::io::Error) -> Failure {
    Failure::outside(format!("can't listen on {at}: {error}"))
}

/// Where peers with certificates are heard, and the certificate that they see.
fn secured(args: &Args) -> Result<Option<(SocketAddr, Credentials)>, Failure> {
    let (Some(listen), Some(folder)) = (args.listen, &args.identity) else {
        return Ok(None);
    };
    Ok(Some((listen, credentials(folder, Role::Coordinator)?)))
}
