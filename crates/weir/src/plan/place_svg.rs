//! A placement as a picture: a frame per process, a box per thread, a line per
//! node.

use std::fmt::Write as _;

use weir_exec::Placement;
use weir_exec::placement::Node;

/// Sizes in pixels.
const WIDTH: usize = 360;
const LINE: usize = 20;
const GAP: usize = 16;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A node's line: its name and functions, and what it gives packets to.
fn draw_node(body: &mut String, placement: &Placement, node: &Node, y: usize) {
    let functions = match node.functions.as_slice() {
        [] => String::new(),
        names => format!(": {}", names.join(", ")),
    };
    let title = escaped(&format!("{}{functions}", node.name));
    let why = escaped(&node.why);
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{y}\">{title}<title>{why}</title></text>",
        3 * GAP
    );
    let gives = placement
        .edges
        .iter()
        .filter(|(from, _)| *from == node.name);
    let gives = gives.map(|(from, to)| {
        let kind = placement.edge(from, to);
        kind.map_or_else(|| to.clone(), |kind| format!("{to} ({kind})"))
    });
    let gives = escaped(&gives.collect::<Vec<_>>().join(", "));
    let _ = writeln!(
        body,
        "<text x=\"{}\" y=\"{y}\" fill=\"#666\">→ {gives}</text>",
        WIDTH + GAP
    );
}

/// Draws it, processes and threads below one another, with what each node gives
/// packets to.
pub(super) fn draw(placement: &Placement) -> String {
    let (mut body, mut y) = (String::new(), GAP);
    // Writing to a `String` can't fail.
    for process in &placement.processes {
        let top = y;
        y += LINE;
        let name = escaped(&process.name);
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{y}\" font-weight=\"bold\">process {name}</text>",
            2 * GAP
        );
        y += GAP / 2;
        for (number, thread) in process.threads.iter().enumerate() {
            let height = (thread.nodes.len() + 1) * LINE + GAP / 2;
            let _ = writeln!(
                body,
                "<rect x=\"{}\" y=\"{y}\" width=\"{}\" height=\"{height}\" fill=\"#eef4fb\" stroke=\"#4a78a8\"/>",
                2 * GAP,
                2 * WIDTH - 2 * GAP
            );
            let core = thread
                .core
                .map_or(String::new(), |core| format!(", core {core}"));
            let _ = writeln!(
                body,
                "<text x=\"{}\" y=\"{}\" fill=\"#4a78a8\">thread {number}{core}</text>",
                3 * GAP,
                y + LINE - 4
            );
            for (at, node) in thread.nodes.iter().enumerate() {
                draw_node(&mut body, placement, node, y + (at + 2) * LINE - 4);
            }
            y += height + GAP / 2;
        }
        let _ = writeln!(
            body,
            "<rect x=\"{GAP}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#444\"/>",
            2 * WIDTH,
            y - top
        );
        y += GAP;
    }
    let width = 2 * WIDTH + 2 * GAP;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" font-family=\"sans-serif\" font-size=\"13\">\n{body}</svg>"
    )
}
