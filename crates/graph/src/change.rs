//! The differences between two versions of a chain file, and which of them need a restart
//! (docs/reload.md).

use weir_nf::host::{NewFunction, SharedProcessor};

use crate::compile::Processor;
use crate::load::{Chain, ChainFile, NamedText};
use crate::network::Network;
use crate::sets::{self, SetChange};
use crate::setting_change::{self, SettingChange};

/// A function whose settings have changed, or a text that they name.
#[derive(Clone, Debug)]
pub struct Change {
    /// Number of its chain in the file.
    pub chain: usize,
    /// Its kind.
    pub kind: String,
    /// Its settings that have changed.
    pub settings: Vec<SettingChange>,
    /// Names of texts that have other content, are new or are no longer read.
    pub texts: Vec<String>,
    /// The function as it is from now on, by its name.
    pub new: NewFunction,
}

/// The functions that differ, in the order of the file; none where nothing changes.
///
/// # Errors
///
/// What has changed and can't while packets flow: all of it, each in a sentence that says where.
pub fn changes(before: &ChainFile, after: &ChainFile) -> Result<Vec<Change>, Vec<String>> {
    let mut refused = Vec::new();
    let mut changes = Vec::new();
    let names = |file: &ChainFile| -> Vec<String> {
        let chains = file.chains.iter();
        chains.map(|chain| chain.stage.chain.clone()).collect()
    };
    if names(before) != names(after) {
        return Err(vec![format!(
            "`chains`: there were {}, and are {} now: that takes a restart",
            listed(&names(before)),
            listed(&names(after))
        )]);
    }
    for (what, same) in [
        ("network", before.network == after.network),
        ("threads", before.threads == after.threads),
        ("placement", before.placement == after.placement),
    ] {
        if !same {
            refused.push(format!("`{what}` has changed: that takes a restart"));
        }
    }
    if let Err(why) = sets::changes(&before.sets, &after.sets) {
        refused.push(why);
    }
    let routes = matches!(after.network, Network::Router(_));
    let chains = before.chains.iter().zip(&after.chains);
    for (number, (before, after)) in chains.enumerate() {
        chain(number, (before, after), routes, &mut changes, &mut refused);
    }
    match refused.is_empty() {
        true => Ok(changes),
        false => Err(refused),
    }
}

/// The sets whose entries or time-outs differ; those of a file that [`changes`] takes.
pub fn set_changes(before: &ChainFile, after: &ChainFile) -> Vec<SetChange> {
    sets::changes(&before.sets, &after.sets).unwrap_or_default()
}

fn listed(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn chain(
    number: usize,
    (before, after): (&Chain, &Chain),
    routes: bool,
    changes: &mut Vec<Change>,
    refused: &mut Vec<String>,
) {
    let name = &after.stage.chain;
    for (what, same) in [
        ("flows", before.stage.flows == after.stage.flows),
        ("ports", before.ports == after.ports),
        ("match", before.selector == after.selector),
        ("plan", before.plan == after.plan),
        ("tenant", before.tenant == after.tenant),
    ] {
        if !same {
            refused.push(format!(
                "chain `{name}`: `{what}` has changed: that takes a restart"
            ));
        }
    }
    let (olds, news) = (&before.graph.nodes, &after.graph.nodes);
    let shape = |node: &Processor| (node.name.clone(), node.kind.clone(), node.next.clone());
    if olds.iter().map(shape).ne(news.iter().map(shape)) {
        refused.push(format!(
            "chain `{name}`: its functions, their names or links have changed ({} before, {} now): \
             that takes a restart",
            listed(
                &olds
                    .iter()
                    .map(|node| node.name.clone())
                    .collect::<Vec<_>>()
            ),
            listed(
                &news
                    .iter()
                    .map(|node| node.name.clone())
                    .collect::<Vec<_>>()
            )
        ));
        return;
    }
    let known = (changes.len(), refused.len());
    let functions = before.stage.nodes.iter().zip(&after.stage.nodes);
    for ((old, new), (was, is)) in olds.iter().zip(news).zip(functions) {
        let settings = setting_change::changes(&old.settings, &new.settings);
        let texts = texts(&new.name, &before.texts, &after.texts);
        if settings.is_empty() && texts.is_empty() {
            continue;
        }
        if let Err(why) = may_replace(&was.processor, &is.processor, routes) {
            refused.push(format!("chain `{name}`, function `{}`: {why}", new.name));
        }
        changes.push(Change {
            chain: number,
            kind: new.kind.clone(),
            settings,
            texts,
            new: NewFunction::of(is),
        });
    }
    if before.stage.pools != after.stage.pools && refused.len() == known.1 {
        let changed = changes.get(known.0..).unwrap_or(&[]);
        let names: Vec<String> = changed.iter().map(|c| c.new.name.clone()).collect();
        refused.push(format!(
            "chain `{name}`, function {}: the addresses or ports that it leases have changed: \
             that takes a restart",
            listed(&names)
        ));
    }
}

/// Why a function can't take the place of another one of its kind.
fn may_replace(
    before: &SharedProcessor,
    after: &SharedProcessor,
    routes: bool,
) -> Result<(), String> {
    if before.scope() != after.scope() {
        return Err(format!(
            "it kept its state per {}, and would keep it per {}: that takes a restart",
            before.scope().describe(),
            after.scope().describe()
        ));
    }
    if routes && before.owns() != after.owns() {
        return Err(
            "the addresses that it stands for have changed, and the router answers for them: \
             that takes a restart"
                .to_owned(),
        );
    }
    after.replaces(&**before).map_err(|errors| {
        let errors = errors.each().map(|error| match error.path.as_str() {
            "" => error.message.clone(),
            path => format!("`{path}`: {}", error.message),
        });
        errors.collect::<Vec<_>>().join("; ")
    })
}

/// Names of the texts of a function that differ.
fn texts(function: &str, before: &[NamedText], after: &[NamedText]) -> Vec<String> {
    let alone = |list: &[NamedText], other: &[NamedText]| -> Vec<String> {
        let of = list.iter().filter(|text| text.function == function);
        let alone = of.filter(|text| !other.contains(text));
        alone.map(|text| text.name.clone()).collect()
    };
    let mut names = alone(before, after);
    names.extend(alone(after, before));
    names.sort();
    names.dedup();
    names
}
