//! All shares of this host.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;
use weir_api::v1;
use weir_coordinator::files;
use weir_identity::check_name;

use crate::say::say;

use super::event::Event;
use super::folder::Folder;
use super::share::{Reload, Share};

/// The shares of a host, by composition.
pub(super) struct Shares<'a> {
    folder: &'a Folder,
    host: String,
    all: BTreeMap<String, Share>,
    reload: UnboundedSender<Reload>,
    /// Of what was said once: names of compositions that belong to another coordinator.
    told: Vec<String>,
}

impl Shares<'_> {
    /// Those that an agent before this one had, with their processes.
    pub(super) fn adopt<'a>(
        folder: &'a Folder,
        host: &str,
        reload: UnboundedSender<Reload>,
    ) -> Result<Shares<'a>, String> {
        let failed =
            |why: std::io::Error| format!("can't go on with {}: {why}", folder.path().display());
        let mut all = BTreeMap::new();
        for its in folder.all().map_err(failed)? {
            match Share::adopt(host, its.clone()).map_err(failed)? {
                Some(share) => {
                    let name = share.name().to_owned();
                    all.insert(name, share);
                }
                // An agent was ended before it had kept all of it.
                None => its.remove().map_err(failed)?,
            }
        }
        Ok(Shares {
            folder,
            host: host.to_owned(),
            all,
            reload,
            told: Vec::new(),
        })
    }

    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Run(shares) => self.run(&shares),
            Event::Reloaded {
                composition,
                revision,
                refusal,
            } => {
                if let Some(share) = self.all.get_mut(&composition) {
                    share.reloaded(revision, refusal);
                }
            }
        }
    }

    /// Runs this, and nothing else of this coordinator.
    fn run(&mut self, shares: &v1::Shares) {
        let store = &shares.store;
        let wanted = |name: &str| shares.shares.iter().any(|share| share.composition == *name);
        for (name, share) in &mut self.all {
            if !wanted(name) && !share.is_of_another(store) {
                share.drop_it();
            }
        }
        for told in &shares.shares {
            let name = &told.composition;
            if let Err(why) = check(told) {
                say(format_args!(
                    "error: the coordinator's `{name}` is refused: {why}"
                ));
                continue;
            }
            let (folder, host) = (self.folder, &self.host);
            let share = self.all.entry(name.clone());
            let share = share.or_insert_with(|| Share::new(name, host, folder.of(name)));
            if share.is_of_another(store) {
                if !self.told.contains(name) {
                    self.told.push(name.clone());
                    say(format_args!(
                        "error: `{name}` runs here for another coordinator, and stays: end it there, or \
                         remove {} once its process has ended",
                        folder.path().join(name).display()
                    ));
                }
                continue;
            }
            share.want(told, store);
        }
    }

    /// Looks after all processes.
    pub(super) fn attend(&mut self) {
        for share in self.all.values_mut() {
            if let Some(reload) = share.attend() {
                // Its thread lives as long as this one.
                let _ = self.reload.send(reload);
            }
        }
        let gone: Vec<String> = (self.all.iter())
            .filter(|(_, share)| share.is_gone())
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            let share = self.all.remove(&name);
            if let Some(Err(error)) = share.map(|share| share.remove()) {
                say(format_args!(
                    "warning: {name}: can't remove its folder: {error}"
                ));
            }
        }
    }

    pub(super) fn report(&self) -> v1::HostReport {
        v1::HostReport {
            shares: self.all.values().map(Share::report).collect(),
        }
    }
}

/// What this host takes from a coordinator.
fn check(share: &v1::Share) -> Result<(), String> {
    check_name(&share.composition).map_err(|why| why.to_string())?;
    if share.key.len() != 16 {
        return Err("its key has not 16 octets".to_owned());
    }
    files::check(&share.files.clone().unwrap_or_default())
}
