//! `ports:` — where packets come in and go out.

use weir_packet::Side;

use crate::diagnostic::Report;
use crate::read;
use crate::tree::Node;

/// A port that a chain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDecl {
    /// Name, once in a chain.
    pub name: String,
    /// Side of the chain that it is on.
    pub side: Side,
}

/// Keys of a port.
pub(crate) const KEYS: [&str; 2] = ["name", "side"];

/// The ports of a chain that names none: `inside` and `outside`.
pub(crate) fn default() -> Vec<PortDecl> {
    [Side::Inside, Side::Outside]
        .into_iter()
        .map(|side| PortDecl {
            name: side.name().to_owned(),
            side,
        })
        .collect()
}

/// Reads the list.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Vec<PortDecl> {
    let mut ports: Vec<PortDecl> = Vec::new();
    let what = "a list of ports like `{name: lan, side: inside}`";
    for item in read::list(node, what, report).unwrap_or(&[]) {
        let Some(entries) = read::map(item, "a port like `{name: lan, side: inside}`", report)
        else {
            continue;
        };
        let (mut name, mut side) = (None, None);
        for (key, value) in entries {
            match key.text().unwrap_or("") {
                "name" => name = read::name(value, "the name of a port", report),
                "side" => {
                    let sides = [("inside", Side::Inside), ("outside", Side::Outside)];
                    side = read::choice(value, &sides, report);
                }
                _ => report.unknown_key(key, &KEYS),
            }
        }
        for key in KEYS {
            if item.get(key).is_none() {
                let help = if key == "side" {
                    "write `side: inside` or `side: outside`"
                } else {
                    "write `name: ...`"
                };
                report.error_help(item.span, format!("the key `{key}` is missing"), help);
            }
        }
        let (Some(name), Some(side)) = (name, side) else {
            continue;
        };
        if ports.iter().any(|port| port.name == name) {
            let span = item.get("name").map_or(item.span, |node| node.span);
            report.error_help(
                span,
                format!("the port `{name}` is here twice"),
                "give each port a name of its own",
            );
            continue;
        }
        ports.push(PortDecl {
            name: name.to_owned(),
            side,
        });
    }
    ports
}
