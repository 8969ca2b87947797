//! Commands that ask an instance that runs, over its control socket.

pub(crate) mod at;
mod bill;
mod compositions;
mod drops;
mod either;
mod events;
mod flows;
mod get;
mod list;
mod moves;
mod rates;
mod reload;
mod resize;
mod set;
mod stats;
mod table;
#[cfg(feature = "terminal")]
mod top;
mod upgrade;
mod verify;

use std::future::Future;
use std::path::PathBuf;

use tonic::{Code, Status};
use weir_coordinator::Access;
use weir_ctl::client;
pub(crate) use weir_ctl::client::Client;

use crate::exit::Failure;

pub(crate) use bill::bill;
pub(crate) use compositions::{apply, delete, describe};
pub(crate) use drops::drops;
pub(crate) use either::{diff, get};
pub(crate) use events::events;
pub(crate) use flows::flows;
pub(crate) use list::list;
pub(crate) use moves::move_units;
pub(crate) use reload::reload;
pub(crate) use resize::{drain, scale};
pub(crate) use set::set;
pub(crate) use stats::stats;
#[cfg(feature = "terminal")]
pub(crate) use top::top;
pub(crate) use upgrade::upgrade;
pub(crate) use verify::verify;

/// Why an instance has no runtimes that could be told of.
const NO_SWITCH: &str =
    "this instance has no runtimes behind a switch: `weir up` and `weir run --runtimes` have";

/// The instance that is meant, as it was given: its name, and its socket.
///
/// # Errors
///
/// There is none, or several, or none of the name; says which there are.
pub(crate) fn find(instance: Option<&str>) -> Result<(String, PathBuf), Failure> {
    if let Some(path) = instance.filter(|text| text.contains('/')) {
        let path = PathBuf::from(path);
        if !path.exists() {
            return Err(Failure::outside(format!(
                "there is no socket {}; `weir list` shows the instances that run",
                path.display()
            )));
        }
        let name = path.file_stem().unwrap_or_default();
        return Ok((name.to_string_lossy().into_owned(), path));
    }
    let there = client::instances()?;
    let names = || {
        let names: Vec<&str> = there.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    match (instance, there.as_slice()) {
        (None, [only]) => Ok(only.clone()),
        (_, []) => {
            let folder = client::folder()?;
            Err(Failure::outside(format!(
                "no weir runs that can be asked (there is no control socket in {}): start one \
                 with `weir run`, or give the path of its socket, as it was given with --control",
                folder.display()
            )))
        }
        (None, _) => Err(Failure::usage(format!(
            "several instances run: name one of {}",
            names()
        ))),
        (Some(name), _) => {
            let found = there.iter().find(|(other, _)| other == name).cloned();
            found.ok_or_else(|| {
                Failure::outside(format!(
                    "no instance is called {name}; there are {}",
                    names()
                ))
            })
        }
    }
}

/// The instance that is asked through a coordinator: `NAME@COORDINATOR`, or, where the environment names
/// a coordinator, a name. A path is a socket of this host.
fn through(instance: Option<&str>) -> Result<Option<(String, Access)>, Failure> {
    if let Some((name, address)) = instance.and_then(|text| text.split_once('@')) {
        return Ok(Some((name.to_owned(), at::access(address, None)?)));
    }
    match instance.filter(|text| !text.contains('/')) {
        Some(name) => Ok(at::named()?.map(|access| (name.to_owned(), access))),
        None => Ok(None),
    }
}

/// True of a word that names an instance, of this host or, with `@`, of a coordinator.
///
/// # Errors
///
/// There is none of that name: says which there are.
pub(crate) fn is_instance(word: &str) -> Result<(), Failure> {
    match word.contains('@') {
        true => through(Some(word)).map(drop),
        false => find(Some(word)).map(drop),
    }
}

/// Runs what waits for answers.
fn on_this_thread<T>(asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::outside(format!("can't ask: {error}")))?;
    runtime.block_on(asking)
}

/// Connects to an instance, and asks it.
///
/// # Errors
///
/// There is no such instance, or what came of asking.
pub(crate) fn ask<T, F>(
    instance: Option<&str>,
    question: impl FnOnce(Client) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let through = through(instance)?;
    if let Some((name, access)) = through {
        return on_this_thread(async {
            let channel = access
                .connect(Some(&name))
                .await
                .map_err(Failure::outside)?;
            question(client::through(channel)).await
        });
    }
    let (_, path) = find(instance)?;
    on_this_thread(async {
        let client = client::connect(&path).await.map_err(|why| {
            Failure::outside(format!(
                "can't ask the instance at {}: {why}; `weir list` shows those that run",
                path.display()
            ))
        })?;
        question(client).await
    })
}

/// The failure for an error status of an instance: it refused, or it is gone.
pub(crate) fn failure(status: &Status) -> Failure {
    match status.code() {
        Code::InvalidArgument => Failure::usage(status.message()),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal => {
            Failure::outside(format!(
                "the instance has ended, or does not answer: {}",
                status.message()
            ))
        }
        _ => Failure::outside(status.message()),
    }
}
