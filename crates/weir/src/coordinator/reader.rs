//! Compositions as this program reads them.

use std::collections::BTreeMap;
use std::path::Path;

use weir_coordinator::service::Reader;
use weir_coordinator::state::Facts;
use weir_graph::Composition;
use weir_io::port::PortSpec;
use weir_nf::host::Kind;

use crate::billing::message_of;
use crate::chains::From;
use crate::run::up;

/// With the functions that this program has.
pub(super) struct OfThisProgram(pub(super) Vec<Kind>);

impl Reader for OfThisProgram {
    fn read(&self, folder: &Path, file: &Path) -> Result<Facts, String> {
        // Who may apply may not read this machine's files. No seed matters: nothing of it runs here.
        let from = (&*folder.join(file), From::Inside(folder));
        let composed = up::load_from(from, 0, &self.0).map_err(|wrong| wrong.message)?;
        let composition = composed.composition;
        if !composition.has_addresses() {
            return Err(
                "error: the hosts have no addresses\n  = help: give each host the address at which the \
                 others reach it: `address: 10.0.9.1:4790`"
                    .to_owned(),
            );
        }
        captures(&composition)?;
        Ok(Facts {
            name: composition.name.clone(),
            hosts: names(&composition, |_| true),
            switches: names(&composition, |host| {
                *host == composition.switch || composition.stands_by(host)
            }),
            addresses: (composition.hosts.iter())
                .filter_map(|host| Some(host.address?.to_string()))
                .collect(),
            keys: keys(&composition),
            prices: composition.prices.as_ref().map(message_of),
        })
    }
}

/// Ports that a host could not have: the coordinator's hosts get no captures, and what one of them writes
/// would go with the next change of files.
fn captures(composition: &Composition) -> Result<(), String> {
    let ports = composition.inputs.iter().chain(&composition.outputs);
    for port in ports {
        // One that can't be read was refused when the composition was loaded.
        let Ok((_, spec)) = PortSpec::parse(&port.value) else {
            continue;
        };
        if spec.capture().is_some_and(|path| !path.is_absolute()) {
            let message =
                "hosts get no captures from a coordinator, and this path is none of theirs";
            let help = "name a file of the host by its whole path";
            return Err(weir_graph::render(&[composition.fault(
                port,
                message,
                Some(help),
            )]));
        }
    }
    Ok(())
}

fn names(composition: &Composition, which: impl Fn(&String) -> bool) -> Vec<String> {
    let names = composition.hosts.iter().map(|host| &host.name);
    names.filter(|name| which(name)).cloned().collect()
}

/// The keys of a composition, each with its value as text. A key that is left out has the value that it
/// stands for.
fn keys(composition: &Composition) -> BTreeMap<String, String> {
    let written = serde_json::to_value(composition).unwrap_or_default();
    let written = written.as_object().cloned().unwrap_or_default();
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in written {
        // As the file has them.
        let key = match key.as_str() {
            "in" | "out" => format!("ports.{key}"),
            "heartbeat_ms" => "heartbeat".to_owned(),
            _ => key,
        };
        keys.insert(key, value.to_string());
    }
    let set = composition
        .set
        .iter()
        .map(|set| format!("{}={}", set.path, set.value));
    keys.insert("set".to_owned(), set.collect::<Vec<_>>().join(" "));
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(condition: &str) -> String {
        format!("rules: 'alert http any any -> any any ({condition} sid:1;)'")
    }

    /// What an operator could send to have files of the coordinator's machine read to him.
    #[test]
    fn nothing_outside_of_the_folder_is_read() {
        let all = std::env::temp_dir().join(format!("weir-reader-{}", std::process::id()));
        let folder = all.join("sent");
        std::fs::create_dir_all(folder.join("templates")).unwrap();
        std::fs::write(all.join("secret"), "hunter2\n").unwrap();
        let secret = all.join("secret").display().to_string();
        let read = |composition: &str, chain: &str| {
            std::fs::write(folder.join("edge.yaml"), composition).unwrap();
            std::fs::write(folder.join("chain.yaml"), chain).unwrap();
            let kinds = weir_functions::kinds().to_vec();
            let read = OfThisProgram(kinds).read(&folder, Path::new("edge.yaml"));
            let why = read.map(|facts| facts.name).unwrap_err();
            assert!(!why.contains("hunter2"), "{why}");
            let is_said = why.contains("not in the folder of the composition");
            assert!(is_said || why.contains("begins with a dot"), "{why}");
        };
        let edge = |chain: &str| {
            format!(
                "composition: edge\nchain: {chain}\nswitch: a\nports: {{in: 'gen:packets=1', out: null}}\n\
                 hosts: [{{name: a, runtimes: 1, address: 10.0.0.1:4790}}]\n"
            )
        };
        let plain = "chain: c\nnfs: [nop]\n";
        for chain in ["../secret", &secret, "/dev/zero", "a/../../secret"] {
            read(&edge(chain), plain);
        }
        for templates in ["..", "/etc"] {
            read(
                &format!("{}templates: {templates}\n", edge("chain.yaml")),
                plain,
            );
        }
        for file in ["../secret", &secret, "/dev/zero"] {
            let chain = format!("sets:\n  - {{name: s, file: '{file}'}}\n{plain}");
            read(&edge("chain.yaml"), &chain);
        }
        for rules in [
            "../secret",
            &secret,
            "../*",
            "/etc/*.conf",
            ".?/secret",
            ".*/*",
            "*/../../*",
            ".[.]/*",
        ] {
            let chain = format!("chain: c\nnfs:\n  - ids: {{rule-files: ['{rules}']}}\n");
            read(&edge("chain.yaml"), &chain);
        }
        for settings in [
            rule("http.host; dataset:isset,a,type string,load ../secret;"),
            rule("http.host; dataset:isset,a,type string,load /etc/passwd;"),
            rule("filemd5:../secret;"),
            "reputation-files: [../secret], records: [http]".to_owned(),
            "reputation-categories: [../secret], records: [http]".to_owned(),
        ] {
            let chain = format!("chain: c\nnfs:\n  - ids: {{{settings}}}\n");
            read(&edge("chain.yaml"), &chain);
        }
        // A way up that stays inside is none out.
        std::fs::create_dir_all(folder.join("chains")).unwrap();
        std::fs::write(folder.join("blocked"), "192.0.2.1\n").unwrap();
        let chain = format!("sets:\n  - {{name: s, file: ../blocked}}\n{plain}");
        std::fs::write(folder.join("chains/chain.yaml"), chain).unwrap();
        let composed = edge("./chains/../chains/chain.yaml");
        std::fs::write(folder.join("edge.yaml"), composed).unwrap();
        let kinds = weir_functions::kinds().to_vec();
        let read = OfThisProgram(kinds).read(&folder, Path::new("edge.yaml"));
        assert_eq!(read.map(|facts| facts.name), Ok("edge".to_owned()));
        std::fs::remove_dir_all(&all).unwrap();
    }
}
