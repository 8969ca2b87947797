//! All shares of this host.

use std::collections::BTreeMap;

use tokio::sync::mpsc::UnboundedSender;
use weir_api::v1;
use weir_coordinator::files;
use weir_coordinator::state::FAILED;
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
    /// Compositions of another coordinator that a line was said of.
    told: Vec<String>,
    /// What is said of those that this host does not take.
    refused: Vec<v1::ShareReport>,
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
            let adopted = Share::adopt(host, its).unwrap_or_else(|why| {
                say(format_args!("error: {}", failed(why)));
                None
            });
            // A folder without one is that of an agent that was ended before it had kept it.
            if let Some(share) = adopted {
                all.insert(share.name().to_owned(), share);
            }
        }
        Ok(Shares {
            folder,
            host: host.to_owned(),
            all,
            reload,
            told: Vec::new(),
            refused: Vec::new(),
        })
    }

    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Run(shares) => self.run(shares),
            Event::Reloaded {
                composition,
                revision,
                answer,
            } => {
                if let Some(share) = self.all.get_mut(&composition) {
                    share.reloaded(revision, answer);
                }
            }
        }
    }

    /// Runs this, and nothing else of this coordinator.
    fn run(&mut self, v1::Shares { shares, store, .. }: v1::Shares) {
        let store = store.as_slice();
        let wanted = |name: &str| shares.iter().any(|share| share.composition == *name);
        for (name, share) in &mut self.all {
            if !wanted(name) && !share.is_of_another(store) {
                share.drop_it();
            }
        }
        self.refused.clear();
        for told in shares {
            let name = told.composition.clone();
            if let Err(why) = check(&told) {
                say(format_args!(
                    "error: the coordinator's `{name}` is refused: {why}"
                ));
                self.refused.push(refused(&told, store, why));
                continue;
            }
            let (folder, host) = (self.folder, &self.host);
            let share = self.all.entry(name.clone());
            let share = share.or_insert_with(|| Share::new(&name, host, folder.of(&name)));
            if share.is_of_another(store) {
                if !self.told.contains(&name) {
                    say(format_args!(
                        "error: `{name}` runs here for another coordinator, and stays: end it there, or \
                         remove {} once its process has ended",
                        folder.path().join(&name).display()
                    ));
                    self.told.push(name);
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
            shares: (self.all.values().map(Share::report))
                .chain(self.refused.iter().cloned())
                .collect(),
        }
    }
}

/// The report of a share that this host does not take.
fn refused(share: &v1::Share, store: &[u8], why: String) -> v1::ShareReport {
    v1::ShareReport {
        composition: share.composition.clone(),
        state: FAILED.to_owned(),
        why,
        wanted: share.revision,
        store: store.to_vec(),
        ..v1::ShareReport::default()
    }
}

/// What this host takes from a coordinator.
fn check(share: &v1::Share) -> Result<(), String> {
    check_name(&share.composition).map_err(|why| why.to_string())?;
    if share.key.len() != 16 {
        return Err("its key has not 16 octets".to_owned());
    }
    // Files that this host has said that it holds are not sent again.
    share.files.as_ref().map_or(Ok(()), files::check)
}
