//! Dependencies between crates. The arrows are those of ARCHITECTURE.md; the direction of one
//! may not be turned round to make something easier.

use crate::Finding;

/// A crate and what it may depend on, outside tests.
pub(crate) struct Layer {
    /// Folder under `crates`.
    pub(crate) folder: &'static str,
    /// Crates of this workspace.
    pub(crate) own: &'static [&'static str],
    /// Crates from elsewhere. `None`: any (the drivers; `cargo deny` watches
    /// those). Below the drivers each one is named here, so that none brings a
    /// clock or a socket in unseen.
    pub(crate) others: Option<&'static [&'static str]>,
}

/// The layers, lowest first.
pub(crate) const LAYERS: [Layer; 19] = [
    // The lowest: tables of counters, which the code that counts declares.
    Layer {
        folder: "telemetry",
        own: &[],
        others: Some(&[]),
    },
    Layer {
        folder: "packet",
        own: &["weir-telemetry"],
        others: Some(&["zerocopy"]),
    },
    Layer {
        folder: "router",
        own: &["weir-telemetry", "weir-packet"],
        others: Some(&[]),
    },
    Layer {
        folder: "nf",
        own: &["weir-telemetry", "weir-packet"],
        others: Some(&["erased-serde", "schemars", "serde", "zerocopy"]),
    },
    Layer {
        folder: "signatures",
        own: &[],
        others: Some(&[
            "aho-corasick",
            "base64",
            "fancy-regex",
            "md-5",
            "memchr",
            "sha1",
            "sha2",
            "zerocopy",
        ]),
    },
    // Bytes in, messages out: it knows no packets, so that whoever has a stream can use it.
    Layer {
        folder: "dissect",
        own: &[],
        others: Some(&[
            "brotli-decompressor",
            "md-5",
            "miniz_oxide",
            "sha1",
            "sha2",
            "zerocopy",
        ]),
    },
    Layer {
        folder: "functions",
        own: &["weir-packet", "weir-nf", "weir-dissect", "weir-signatures"],
        others: Some(&[
            "aho-corasick",
            "base64",
            "lz4_flex",
            "md-5",
            "sha1",
            "sha2",
            "memchr",
            "schemars",
            "serde",
            "zerocopy",
        ]),
    },
    Layer {
        folder: "runtime",
        own: &["weir-telemetry", "weir-packet", "weir-nf"],
        others: Some(&["zerocopy"]),
    },
    Layer {
        folder: "protocol",
        own: &["weir-telemetry", "weir-packet", "weir-nf", "weir-runtime"],
        others: Some(&["siphasher", "zerocopy"]),
    },
    Layer {
        folder: "graph",
        own: &["weir-packet", "weir-nf"],
        others: Some(&[
            "erased-serde",
            "granit-parser",
            "schemars",
            "serde",
            "serde_json",
        ]),
    },
    Layer {
        folder: "io",
        own: &["weir-telemetry", "weir-packet"],
        others: None,
    },
    Layer {
        folder: "exec",
        own: &["weir-packet", "weir-io"],
        others: None,
    },
    Layer {
        folder: "control",
        own: &["weir-packet", "weir-nf", "weir-protocol"],
        others: Some(&[]),
    },
    Layer {
        folder: "sim",
        own: &[
            "weir-telemetry",
            "weir-packet",
            "weir-nf",
            "weir-functions",
            "weir-runtime",
            "weir-graph",
            "weir-protocol",
            "weir-control",
        ],
        // A function of its own has a state, whose traits zerocopy derives.
        others: Some(&["serde", "serde_json", "zerocopy"]),
    },
    // Messages and nothing else: it knows no type of the parts below, so that
    // neither binds the other.
    Layer {
        folder: "api",
        own: &[],
        others: Some(&["prost", "tonic", "tonic-prost"]),
    },
    // Certificates and connections: it knows nothing of what is said over them.
    Layer {
        folder: "identity",
        own: &["weir-packet"],
        others: None,
    },
    // What hosts have to run: its store, its service, and an agent's side of that.
    Layer {
        folder: "coordinator",
        own: &["weir-telemetry", "weir-api", "weir-identity"],
        others: None,
    },
    // Commands to threads, traces, taps, the server and the client: no driver, and no
    // function.
    Layer {
        folder: "ctl",
        own: &[
            "weir-telemetry",
            "weir-packet",
            "weir-nf",
            "weir-runtime",
            "weir-graph",
            "weir-protocol",
            "weir-io",
            "weir-exec",
            "weir-router",
            "weir-api",
        ],
        others: None,
    },
    Layer {
        folder: "weir",
        own: &[
            "weir-telemetry",
            "weir-packet",
            "weir-nf",
            "weir-functions",
            "weir-runtime",
            "weir-graph",
            "weir-protocol",
            "weir-control",
            "weir-sim",
            "weir-io",
            "weir-exec",
            "weir-router",
            "weir-api",
            "weir-coordinator",
            "weir-identity",
            "weir-ctl",
        ],
        others: None,
    },
];

/// Dependencies of a manifest that its layer does not allow.
pub(crate) fn check(folder: &str, manifest: &str) -> Vec<Finding> {
    let path = format!("crates/{folder}/Cargo.toml");
    let finding = |line: usize, text: String| Finding {
        path: path.clone(),
        line,
        text,
    };
    let Some(layer) = LAYERS.iter().find(|layer| layer.folder == folder) else {
        return vec![finding(
            1,
            format!(
                "crate {folder} has no layer yet: give it one in xtask/src/layers.rs and ARCHITECTURE.md"
            ),
        )];
    };
    dependencies(manifest)
        .into_iter()
        .filter(|(_, name)| {
            let own = name == "weir" || name.starts_with("weir-");
            if own {
                !layer.own.contains(&name.as_str())
            } else {
                layer
                    .others
                    .is_some_and(|others| !others.contains(&name.as_str()))
            }
        })
        .map(|(line, name)| {
            finding(
                line,
                format!("{folder} may not depend on {name} (xtask/src/layers.rs says what it may)"),
            )
        })
        .collect()
}

/// Names in `[dependencies]`, `[target.….dependencies]` and
/// `[build-dependencies]`, with their lines.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']').trim();
            let (table, entry) = match section.rsplit_once('.') {
                Some((table, entry)) if is_table(table) => (table, Some(entry)),
                _ => (section, None),
            };
            inside = entry.is_none() && is_table(table);
            if let Some(entry) = entry {
                found.push((number + 1, entry.trim_matches('"').to_owned()));
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let name = line.split(['.', '=', ' ']).next().unwrap_or("");
            // `x = { package = "y" }` is y under another name.
            let renamed = line
                .split_once("package")
                .and_then(|(_, rest)| rest.split('"').nth(1));
            if line.contains('=') {
                found.push((
                    number + 1,
                    renamed.unwrap_or(name.trim_matches('"')).to_owned(),
                ));
            }
        }
    }
    found
}

fn is_table(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or("");
    last == "dependencies" || last == "build-dependencies"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &str, manifest: &str) -> Vec<usize> {
        check(folder, manifest).iter().map(|f| f.line).collect()
    }

    #[test]
    fn it_bites() {
        let head = "[package]\nname = \"x\"\n[dependencies]\n";
        for line in [
            "weir-nf.workspace = true",
            "weir-io = { path = \"../io\" }",
            "rand = \"0.9\"",
            "ok = { package = \"rand\", version = \"0.9\" }",
        ] {
            assert_eq!(lines("packet", &format!("{head}{line}\n")), [4], "{line}");
        }
        assert_eq!(
            lines("nf", "[dependencies.weir-runtime]\npath = \"x\"\n"),
            [1]
        );
        assert_eq!(
            lines("nf", "[target.'cfg(unix)'.dependencies]\nlibc = \"1\"\n"),
            [2]
        );
        assert_eq!(lines("nf", "[build-dependencies]\ncc = \"1\"\n"), [2]);
        assert_eq!(lines("new", head), [1]);
    }

    #[test]
    fn it_lets_pass_what_is_fine() {
        let manifest = "[dependencies]\n# a remark = x\nweir-packet.workspace = true\nzerocopy = { workspace = true }\n\n[dev-dependencies]\nproptest.workspace = true\nweir-runtime.workspace = true\n";
        assert_eq!(lines("nf", manifest), [0; 0]);
        assert_eq!(lines("io", "[dependencies]\nrustix = \"1\"\n"), [0; 0]);
    }

    #[test]
    fn arrows_point_down_only() {
        for (i, layer) in LAYERS.iter().enumerate() {
            for own in layer.own {
                let below = LAYERS
                    .iter()
                    .take(i)
                    .any(|l| format!("weir-{}", l.folder) == *own);
                assert!(below, "{} -> {own}", layer.folder);
            }
        }
    }
}
