//! A plan as a picture: the chain as written above, what runs below, packets
//! from left to right.

use core::fmt::Write;

use weir_nf::host::Target;

use super::text::about;
use super::{joined_links, same_as, stages, target_node};
use crate::compile::{Graph, Plan};

/// Sizes, in SVG's units.
const BOX_HEIGHT: f64 = 40.0;
const COLUMN_GAP: f64 = 64.0;
const ROW_GAP: f64 = 30.0;
const MARGIN: f64 = 24.0;
const TITLE: f64 = 44.0;
/// Width of a letter of 13 units, nearly.
const LETTER: f64 = 7.4;

/// Colours by instance, light enough for black text.
const FILLS: [&str; 8] = [
    "#cfe3f3", "#f9ddc7", "#cdeadf", "#f1dcea", "#f8ecc4", "#dcf0fb", "#e4e4e4", "#e3dcf5",
];

/// The picture as a document of its own.
pub fn svg(plan: &Plan) -> String {
    let before = Layout::of(&plan.written, None);
    let after = Layout::of(&plan.graph, Some(plan));
    let width = before.width.max(after.width) + 2.0 * MARGIN;
    let height = before.height + after.height + 2.0 * TITLE + 2.0 * MARGIN;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">"
    );
    let _ = writeln!(
        out,
        "<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<defs>\
         <marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#444\"/></marker></defs>",
        escaped(&plan.chain)
    );
    let mut instances: Vec<&str> = Vec::new();
    for node in &plan.written.nodes {
        if !instances.contains(&node.instance.as_str()) {
            instances.push(&node.instance);
        }
    }
    let top = MARGIN + TITLE;
    title(&mut out, MARGIN + 16.0, "as written");
    before.draw(&mut out, &plan.written, &instances, MARGIN, top);
    let below = top + before.height;
    title(&mut out, below + 20.0, "as it runs");
    after.draw_stages(&mut out, plan, MARGIN, below + TITLE);
    after.draw(&mut out, &plan.graph, &instances, MARGIN, below + TITLE);
    out.push_str("</svg>\n");
    out
}

fn title(out: &mut String, y: f64, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN:.0}\" y=\"{y:.0}\" font-weight=\"bold\">{text}</text>"
    );
}

/// Places of the boxes.
struct Layout {
    /// Left, top, width of each box.
    boxes: Vec<(f64, f64, f64)>,
    /// Centre of `out`, and of `drop`.
    out: (f64, f64),
    drop: (f64, f64),
    out_used: bool,
    drop_used: bool,
    width: f64,
    height: f64,
}

impl Layout {
    /// Columns by the longest way from the start, so that every link leads to
    /// the right; a stage begins a column of its own.
    fn of(graph: &Graph, plan: Option<&Plan>) -> Layout {
        let n = graph.nodes.len();
        let mut column = vec![0usize; n];
        let starts: Vec<(usize, usize)> = plan
            .map(|plan| {
                stages(plan)
                    .iter()
                    .map(|(_, stage)| (stage.nodes.start, stage.nodes.end))
                    .collect()
            })
            .unwrap_or_default();
        for number in 0..n {
            // Stages stand one behind the other, branches below one another.
            if let Some(&(start, _)) = starts.iter().find(|(s, e)| (*s..*e).contains(&number)) {
                let parallel = plan.is_some_and(|plan| is_further_branch(plan, start));
                let before = column.iter().take(start).copied().max();
                if let Some(before) = before
                    && !parallel
                {
                    column[number] = column[number].max(before + 1);
                }
            }
            for (_, target) in joined_links(graph, number) {
                if let Some(other) = target_node(target) {
                    column[other] = column[other].max(column[number] + 1);
                }
            }
        }
        let columns = column.iter().copied().max().map_or(0, |last| last + 1);
        let mut widths = vec![0.0f64; columns];
        for (node, &c) in graph.nodes.iter().zip(&column) {
            let letters = node.name.chars().count().max(node.kind.chars().count());
            if let Some(width) = widths.get_mut(c) {
                *width = width.max(letters as f64 * LETTER + 20.0);
            }
        }
        let mut left = Vec::with_capacity(columns);
        let mut x = 0.0;
        for width in &widths {
            left.push(x);
            x += width + COLUMN_GAP;
        }
        let mut rows = vec![0usize; columns];
        let mut boxes = Vec::with_capacity(n);
        for &c in &column {
            let top = rows[c] as f64 * (BOX_HEIGHT + ROW_GAP) + ROW_GAP;
            boxes.push((left[c], top, widths[c]));
            rows[c] += 1;
        }
        let deepest = rows.iter().copied().max().unwrap_or(1).max(2);
        let height = deepest as f64 * (BOX_HEIGHT + ROW_GAP) + 2.0 * ROW_GAP;
        let links = |number| joined_links(graph, number);
        let is_used = |end: Target| (0..n).any(|i| links(i).iter().any(|(_, to)| *to == end));
        let first = ROW_GAP + BOX_HEIGHT / 2.0;
        Layout {
            boxes,
            out: (x + 8.0, first),
            drop: (x + 8.0, first + BOX_HEIGHT + ROW_GAP),
            out_used: is_used(Target::Out),
            drop_used: is_used(Target::Drop),
            width: x + 60.0,
            height,
        }
    }

    fn draw(&self, out: &mut String, graph: &Graph, instances: &[&str], dx: f64, dy: f64) {
        for (number, &(x, y, width)) in self.boxes.iter().enumerate() {
            let from = (dx + x + width, dy + y + BOX_HEIGHT / 2.0);
            for (label, target) in joined_links(graph, number) {
                let to = match (target_node(target), target) {
                    (Some(other), _) => {
                        let (x, y, _) = self.boxes[other];
                        (dx + x, dy + y + BOX_HEIGHT / 2.0)
                    }
                    (None, Target::Drop) => (dx + self.drop.0, dy + self.drop.1),
                    (None, _) => (dx + self.out.0, dy + self.out.1),
                };
                arrow(out, from, to, &label);
            }
        }
        for (number, (node, &(x, y, width))) in graph.nodes.iter().zip(&self.boxes).enumerate() {
            let (x, y) = (dx + x, dy + y);
            let fill = instances
                .iter()
                .position(|instance| *instance == node.instance)
                .and_then(|at| FILLS.get(at % FILLS.len()))
                .unwrap_or(&FILLS[6]);
            let same = same_as(graph, number);
            let dash = if same.is_some() {
                " stroke-dasharray=\"4 3\" fill-opacity=\"0.35\""
            } else {
                ""
            };
            let second = match same {
                Some(earlier) => format!("= {earlier}"),
                None => node.kind.clone(),
            };
            let _ = writeln!(
                out,
                "<g><title>{}</title><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" \
                 height=\"{BOX_HEIGHT:.0}\" rx=\"6\" fill=\"{fill}\" stroke=\"#444\"{dash}/>\
                 <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
                 <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"11\" \
                 fill=\"#444\">{}</text></g>",
                escaped(&node.settings),
                x + width / 2.0,
                y + 17.0,
                escaped(&node.name),
                x + width / 2.0,
                y + 32.0,
                escaped(&second),
            );
        }
        let ends = [
            ("out", self.out, self.out_used),
            ("drop", self.drop, self.drop_used),
        ];
        for (name, (x, y), used) in ends {
            if used {
                let _ = writeln!(
                    out,
                    "<text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
                    dx + x + 6.0,
                    dy + y + 4.0
                );
            }
        }
    }

    /// Frames around the processors of each stage.
    fn draw_stages(&self, out: &mut String, plan: &Plan, dx: f64, dy: f64) {
        let pad = 10.0;
        for (name, stage) in stages(plan) {
            let boxes = &self.boxes[stage.nodes.clone()];
            let ends = |f: fn(&(f64, f64, f64)) -> f64, pick: fn(f64, f64) -> f64| {
                boxes.iter().map(f).reduce(pick)
            };
            let (Some(left), Some(right), Some(top), Some(bottom)) = (
                ends(|b| b.0, f64::min),
                ends(|b| b.0 + b.2, f64::max),
                ends(|b| b.1, f64::min),
                ends(|b| b.1 + BOX_HEIGHT, f64::max),
            ) else {
                continue;
            };
            let _ = writeln!(
                out,
                "<rect x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\" \
                 fill=\"none\" stroke=\"#888\" stroke-dasharray=\"6 4\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\" font-size=\"11\" fill=\"#666\">stage {name}{}</text>",
                dx + left - pad,
                dy + top - pad,
                right - left + 2.0 * pad,
                bottom - top + 2.0 * pad,
                dx + left - pad,
                dy + top - pad - 4.0,
                escaped(&about(stage))
            );
        }
    }
}

/// True where the stage that begins with node `start` stands beside another
/// one and is not the first of them.
fn is_further_branch(plan: &Plan, start: usize) -> bool {
    plan.steps.iter().any(|step| match step {
        crate::compile::Step::Parallel(branches) => {
            branches.iter().skip(1).any(|b| b.nodes.start == start)
        }
        crate::compile::Step::Stage(_) => false,
    })
}

fn arrow(out: &mut String, from: (f64, f64), to: (f64, f64), label: &str) {
    let middle = (from.0 + to.0) / 2.0;
    // A long link bows, so as not to run through the boxes between.
    let far = to.0 - from.0 > COLUMN_GAP + 1.0 && (to.1 - from.1).abs() < 1.0;
    let bow = if far {
        BOX_HEIGHT / 2.0 + ROW_GAP / 2.0
    } else {
        0.0
    };
    let _ = writeln!(
        out,
        "<path d=\"M{:.0} {:.0}C{middle:.0} {:.0} {middle:.0} {:.0} {:.0} {:.0}\" fill=\"none\" \
         stroke=\"#444\" marker-end=\"url(#tip)\"/>",
        from.0,
        from.1,
        from.1 + bow * 1.8,
        to.1 + bow * 1.8,
        to.0,
        to.1
    );
    if label != "pass" {
        let _ = writeln!(
            out,
            "<text x=\"{middle:.0}\" y=\"{:.0}\" font-size=\"11\" text-anchor=\"middle\" \
             fill=\"#444\">{}</text>",
            (from.1 + to.1) / 2.0 + bow * 1.4 - 4.0,
            escaped(&short(label))
        );
    }
}

/// The first of several labels, so that they fit between boxes.
fn short(labels: &str) -> String {
    match labels.split_once(", ") {
        Some((first, _)) => format!("{first} …"),
        None => labels.to_owned(),
    }
}

/// Text as XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML 1.0 has no form for these.
            c if (c as u32) < 0x20 && !matches!(c, '\n' | '\t' | '\r') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
