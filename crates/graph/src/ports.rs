//! `ports:` — where packets come in and go out.

use weir_packet::Side;

use crate::diagnostic::{Report, Span};
use crate::form::{Choice, Form as _, List, Name, Placed};
use crate::keys::Keys;
use crate::tree::Node;

/// A port that a chain names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDecl {
    /// Name, once in a chain.
    pub name: String,
    /// Side of the chain that it is on.
    pub side: Side,
}

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

/// A port as written.
#[derive(Default)]
pub(crate) struct Written {
    name: Option<(String, Span)>,
    side: Option<Side>,
}

/// Keys of a port.
pub(crate) fn keys() -> Keys<Written> {
    const SIDES: &[(&str, Side)] = &[("inside", Side::Inside), ("outside", Side::Outside)];
    let name = Placed(Name("the name of a port"));
    Keys::<Written>::new("a port like `{name: lan, side: inside}`", "")
        .key("name", "Its name.", name, |port, name| {
            port.name = Some(name)
        })
        .needed("write `name: ...`")
        .key(
            "side",
            "Its side of the chain.",
            Choice(SIDES),
            |port, side| {
                port.side = Some(side);
            },
        )
        .needed("write `side: inside` or `side: outside`")
}

/// The list of ports.
pub(crate) fn list() -> List<Keys<Written>> {
    List("a list of ports like `{name: lan, side: inside}`", keys())
}

/// Reads the list.
pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Vec<PortDecl> {
    let mut ports: Vec<PortDecl> = Vec::new();
    for written in list().read(node, report).unwrap_or_default() {
        let (Some((name, span)), Some(side)) = (written.name, written.side) else {
            continue;
        };
        if ports.iter().any(|port| port.name == name) {
            report.error_help(
                span,
                format!("the port `{name}` is here twice"),
                "give each port a name of its own",
            );
            continue;
        }
        ports.push(PortDecl { name, side });
    }
    ports
}
