//! The coordinator's side of an agent, on a thread of its own: nothing that runs waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tonic::Code;
use weir_api::v1;
use weir_coordinator::host::{Latest, Reports};
use weir_coordinator::{Access, Address, host};
use weir_ctl::client;
use weir_graph::load_composition;

use crate::coordinator::refresh;
use crate::say::say;

use super::event::{Answer, Event};
use super::folder::{Folder, ShareFolder};
use super::share::Reload;

/// Shortest and longest time between two attempts to reach the coordinator.
const SOONEST: Duration = Duration::from_millis(200);
const LATEST: Duration = Duration::from_secs(5);

/// What the thread that looks after processes hears, and what it asks for.
type Ways = (Sender<Event>, UnboundedReceiver<Reload>);

/// Starts the thread, which ends with the program.
pub(super) fn start(
    access: Access,
    host: &str,
    reports: Reports,
    (events, mut reloads): Ways,
    folder: &Folder,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("can't start the coordinator's thread: {error}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let hello = v1::HostHello {
        host: host.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let work = Arc::new(OfHost {
        events: events.clone(),
        root: folder.path().to_owned(),
    });
    let serve = async move {
        let asked = async {
            while let Some(reload) = reloads.recv().await {
                let events = events.clone();
                tokio::spawn(async move {
                    let answer = take(&reload.composition).await;
                    // The other thread lives as long as the program.
                    let _ = events.send(Event::Reloaded {
                        composition: reload.composition,
                        revision: reload.revision,
                        answer,
                    });
                });
            }
        };
        tokio::join!(asked, attend(access, hello, reports, work));
    };
    let thread = std::thread::Builder::new().name("coordinator".to_owned());
    thread
        .spawn(move || runtime.block_on(serve))
        .map(drop)
        .map_err(failed)
}

/// Attends the coordinator for as long as the program runs.
async fn attend(access: Access, hello: v1::HostHello, reports: Reports, work: Arc<OfHost>) {
    let mut pause = SOONEST;
    let mut told = String::new();
    let mut latest = Latest::default();
    loop {
        refresh(access.credentials.as_ref());
        let mut stood = false;
        let connected = |address: &Address| {
            stood = true;
            say(format_args!("connected to the coordinator at {address}"));
        };
        let attended = host::attend(
            &access,
            hello.clone(),
            reports.clone(),
            (work.clone(), &mut latest),
            connected,
        )
        .await;
        let why = attended.err().unwrap_or_default();
        if stood {
            (pause, told) = (SOONEST, String::new());
        }
        if why != told {
            say(format_args!(
                "warning: no coordinator: {why}; what runs here goes on"
            ));
            told = why;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LATEST);
    }
}

/// The instances of this host, as the coordinator asks for them.
struct OfHost {
    events: Sender<Event>,
    root: PathBuf,
}

impl host::Work for OfHost {
    fn run(&self, shares: v1::Shares) {
        // The other thread lives as long as the program.
        let _ = self.events.send(Event::Run(shares));
    }

    async fn try_reload(&self, what: v1::TryReload) -> v1::HostTried {
        let id = what.id;
        let (reload, failed) = match self.tried(what).await {
            Ok(reload) => (Some(reload), String::new()),
            Err(failed) => (None, failed),
        };
        v1::HostTried { id, reload, failed }
    }

    fn socket_of(&self, composition: &str) -> Option<PathBuf> {
        client::of_instance(composition).ok()
    }
}

impl OfHost {
    async fn tried(&self, what: v1::TryReload) -> Result<v1::ReloadResponse, String> {
        let v1::TryReload {
            id,
            composition,
            files,
        } = what;
        weir_identity::check_name(&composition).map_err(|why| why.to_string())?;
        let files = files.unwrap_or_default();
        let folder = Folder::of_path(&self.root, &composition);
        let chain = chain_of(&folder, id, &files);
        let (aside, chain) = chain.map_err(|error| format!("can't put the files down: {error}"))?;
        let request = v1::ReloadRequest {
            dry_run: true,
            file: chain.display().to_string(),
        };
        let answer = reload(&composition, request).await;
        // The next agent removes what is left.
        let _ = std::fs::remove_dir_all(&aside);
        let shown = format!("{}/", aside.display());
        answer.map(|answer| v1::ReloadResponse {
            wrong: answer.wrong.replace(&shown, ""),
            ..answer
        })
    }
}

/// Puts files down beside those that run: their folder, and the chain file.
fn chain_of(
    folder: &ShareFolder,
    id: u64,
    files: &v1::Files,
) -> std::io::Result<(PathBuf, PathBuf)> {
    let aside = folder.put_aside(id, files)?;
    let composition = aside.join(&files.composition);
    let text = std::fs::read_to_string(&composition)?;
    let read = load_composition(&files.composition, &text);
    let read = read.map_err(|_| std::io::Error::other("this host can't read the composition"))?;
    let chain = composition
        .parent()
        .unwrap_or(&aside)
        .join(&read.chain.value);
    Ok((aside, chain))
}

/// Has the instance that runs here take its changed files.
async fn take(composition: &str) -> Answer {
    match reload(composition, v1::ReloadRequest::default()).await {
        Err(why) => Answer::Unasked(why),
        Ok(answer) if !answer.wrong.is_empty() => Answer::Refused(answer.wrong),
        Ok(answer) if !answer.refused.is_empty() => Answer::Refused(answer.refused.join("; ")),
        Ok(_) => Answer::Taken,
    }
}

async fn reload(
    composition: &str,
    request: v1::ReloadRequest,
) -> Result<v1::ReloadResponse, String> {
    let socket = client::of_instance(composition).map_err(|why| why.to_string())?;
    let mut client = client::connect(&socket).await?;
    let answer = client.reload(request).await;
    answer
        .map(tonic::Response::into_inner)
        .or_else(|status| match status.code() {
            // An instance that runs in a way that takes no other file.
            Code::Unimplemented | Code::FailedPrecondition => Ok(v1::ReloadResponse {
                refused: vec![status.message().to_owned()],
                ..v1::ReloadResponse::default()
            }),
            _ => Err(status.message().to_owned()),
        })
}
