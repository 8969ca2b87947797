//! Line plots as SVG: axes with round ticks, legend, bands of spread, panels
//! above one another.
//!
//! ```text
//! let plot = Plot::new("Moving flows", Axis::new("moves at once"), Axis::new("ms"))
//!     .line(Line::new("push", points).band(quartiles))
//!     .line(Line::new("central", others).dashed());
//! std::fs::write("moves.svg", svg(&[plot]))
//! ```

use std::fmt::Write;

/// Size of a panel, axes and captions included, in SVG's units.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
/// Room around the data: left, right, top, bottom.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 48.0;

/// Colours that people who see few colours tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// How numbers become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// In proportion; the axis begins at 0 where no number is below.
    Linear,
    /// Powers of ten; what is not above 0 is not drawn.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    label: String,
    scale: Scale,
}

impl Axis {
    /// A linear one; the label says the unit.
    pub(crate) fn new(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic one.
    pub(crate) fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
        }
    }
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    label: String,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64)>,
    dashed: bool,
    steps: bool,
    dots: bool,
}

impl Line {
    /// A line through `points` (x, y), in their order. Points that are not
    /// finite leave a gap.
    pub(crate) fn new(label: &str, points: Vec<(f64, f64)>) -> Line {
        Line {
            label: label.to_owned(),
            points,
            band: Vec::new(),
            dashed: false,
            steps: false,
            dots: false,
        }
    }

    /// The spread of each point, (lower, upper), in the points' order.
    pub(crate) fn band(mut self, band: Vec<(f64, f64)>) -> Line {
        self.band = band;
        self
    }

    /// Dashed.
    pub(crate) fn dashed(mut self) -> Line {
        self.dashed = true;
        self
    }

    /// Each value holds until the next point.
    pub(crate) fn steps(mut self) -> Line {
        self.steps = true;
        self
    }

    /// A dot at each point.
    pub(crate) fn dots(mut self) -> Line {
        self.dots = true;
        self
    }
}

/// A panel.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
}

impl Plot {
    /// An empty one.
    pub(crate) fn new(title: &str, x: Axis, y: Axis) -> Plot {
        Plot {
            title: title.to_owned(),
            x,
            y,
            lines: Vec::new(),
        }
    }

    /// With one more line.
    pub(crate) fn line(mut self, line: Line) -> Plot {
        self.lines.push(line);
        self
    }
}

/// An SVG document with these panels, the first on top.
pub(crate) fn svg(plots: &[Plot]) -> String {
    let mut text = String::new();
    let height = HEIGHT * plots.len().max(1) as f64;
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    );
    for (number, plot) in plots.iter().enumerate() {
        let _ = writeln!(
            text,
            "<g transform=\"translate(0 {})\">",
            HEIGHT * number as f64
        );
        panel(&mut text, plot);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

/// Maps an axis' numbers to places.
struct Map {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    scale: Scale,
    ticks: Vec<f64>,
}

impl Map {
    /// For `values` on places `from` to `to`, with about `wanted` ticks.
    fn new(
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
        scale: Scale,
        wanted: usize,
    ) -> Map {
        let usable = |v: &f64| v.is_finite() && (scale == Scale::Linear || *v > 0.0);
        let (mut low, mut high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        if low > high {
            (low, high) = (if scale == Scale::Log { 1.0 } else { 0.0 }, 1.0);
        }
        let ticks = match scale {
            Scale::Linear => {
                low = low.min(0.0);
                if high <= low {
                    high = low + 1.0;
                }
                let step = round_step((high - low) / wanted as f64);
                low = (low / step).floor() * step;
                // A line that ends within a hair of a tick ends at it.
                high = (high / step - 1e-9).ceil() * step;
                let count = ((high - low) / step).round() as usize;
                (0..=count).map(|n| low + step * n as f64).collect()
            }
            Scale::Log => {
                let (first, mut last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                if last <= first {
                    last = first + 1;
                }
                (low, high) = (10f64.powi(first), 10f64.powi(last));
                let every = usize::try_from(last - first).map_or(1, |n| n.div_ceil(wanted).max(1));
                (first..=last)
                    .step_by(every)
                    .map(|n| 10f64.powi(n))
                    .collect()
            }
        };
        Map {
            low,
            high,
            from,
            to,
            scale,
            ticks,
        }
    }

    /// The place of a number; `None` where it has none.
    fn at(&self, value: f64) -> Option<f64> {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        (share.is_finite()).then_some(self.from + share * (self.to - self.from))
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = least / power;
    let round = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|round| factor <= round + 1e-9)
        .unwrap_or(10.0);
    round * power
}

/// A number as at a tick: 1,000 as 1k, and no more digits than it has.
fn tick_text(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{unit}", if text == "-0" { "0" } else { text })
}

fn panel(text: &mut String, plot: &Plot) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    let xs = plot.lines.iter().flat_map(|l| &l.points).map(|p| p.0);
    let ys = plot.lines.iter().flat_map(|l| {
        let spread = l.band.iter().flat_map(|&(low, high)| [low, high]);
        l.points.iter().map(|p| p.1).chain(spread)
    });
    let mut x = Map::new(xs.clone(), (LEFT, right), plot.x.scale, 8);
    if plot.x.scale == Scale::Linear {
        // Along x a plot ends where its data ends.
        let end = xs
            .filter(|v| v.is_finite())
            .fold(f64::NEG_INFINITY, f64::max);
        if end > x.low {
            x.high = end;
            x.ticks.retain(|tick| *tick <= end * (1.0 + 1e-9));
        }
    }
    let y = Map::new(ys, (bottom, TOP), plot.y.scale, 5);
    for tick in &x.ticks {
        if let Some(place) = x.at(*tick) {
            let _ = writeln!(
                text,
                "<path d=\"M{place:.1} {bottom}V{TOP}\" stroke=\"#eee\"/>\
                 <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                tick_text(*tick)
            );
        }
    }
    for tick in &y.ticks {
        if let Some(place) = y.at(*tick) {
            let _ = writeln!(
                text,
                "<path d=\"M{LEFT} {place:.1}H{right}\" stroke=\"#eee\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                place + 4.0,
                tick_text(*tick)
            );
        }
    }
    let _ = writeln!(
        text,
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#333\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(&plot.title),
        (LEFT + right) / 2.0,
        HEIGHT - 12.0,
        escape(&plot.x.label),
        (TOP + bottom) / 2.0,
        escape(&plot.y.label),
    );
    for (number, line) in plot.lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        draw_line(text, line, &x, &y, colour);
        legend(text, line, colour, number);
    }
}

fn draw_line(text: &mut String, line: &Line, x: &Map, y: &Map, colour: &str) {
    let place = |(a, b): (f64, f64)| Some((x.at(a)?, y.at(b)?));
    let spread = || line.points.iter().zip(&line.band);
    let upper = spread().filter_map(|(p, band)| place((p.0, band.1)));
    let lower = spread().rev().filter_map(|(p, band)| place((p.0, band.0)));
    let outline: Vec<String> = upper
        .chain(lower)
        .map(|(a, b)| format!("{a:.1},{b:.1}"))
        .collect();
    if !outline.is_empty() {
        let _ = writeln!(
            text,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>",
            outline.join(" ")
        );
    }
    let mut path = String::new();
    let mut pen_down = false;
    for point in &line.points {
        let Some((a, b)) = place(*point) else {
            pen_down = false;
            continue;
        };
        let _ = match (pen_down, line.steps) {
            (false, _) => write!(path, "M{a:.1} {b:.1}"),
            (true, false) => write!(path, "L{a:.1} {b:.1}"),
            (true, true) => write!(path, "H{a:.1}V{b:.1}"),
        };
        pen_down = true;
        if line.dots {
            let _ = writeln!(
                text,
                "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }
    let _ = writeln!(
        text,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"{}/>",
        dashes(line)
    );
}

fn legend(text: &mut String, line: &Line, colour: &str, number: usize) {
    let (left, top) = (WIDTH - RIGHT + 14.0, TOP + 12.0 + 18.0 * number as f64);
    let _ = writeln!(
        text,
        "<path d=\"M{left} {top}h24\" stroke=\"{colour}\" stroke-width=\"2.5\"{}/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        dashes(line),
        left + 30.0,
        top + 4.0,
        escape(&line.label)
    );
}

fn dashes(line: &Line) -> &'static str {
    if line.dashed {
        " stroke-dasharray=\"6 4\""
    } else {
        ""
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(values: &[f64], scale: Scale) -> Map {
        Map::new(values.iter().copied(), (0.0, 100.0), scale, 5)
    }

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        assert_eq!(
            map(&[3.0, 47.0], Scale::Linear).ticks,
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
        );
        assert_eq!(
            map(&[-4.0, 4.0], Scale::Linear).ticks,
            [-4.0, -2.0, 0.0, 2.0, 4.0]
        );
        assert_eq!(
            map(&[3.0, 470.0], Scale::Log).ticks,
            [1.0, 10.0, 100.0, 1000.0]
        );
        assert_eq!(map(&[], Scale::Linear).ticks.last(), Some(&1.0));
        assert_eq!(map(&[5.0, 5.0], Scale::Log).ticks, [1.0, 10.0]);
        assert_eq!(map(&[0.0], Scale::Linear).at(0.5), Some(50.0));
    }

    #[test]
    fn places_follow_the_scale() {
        let linear = map(&[0.0, 50.0], Scale::Linear);
        assert_eq!(linear.at(25.0), Some(50.0));
        assert_eq!(linear.at(f64::NAN), None);
        let log = map(&[1.0, 10_000.0], Scale::Log);
        assert!((log.at(100.0).unwrap() - 50.0).abs() < 1e-9);
        assert_eq!(log.at(0.0), None);
    }

    #[test]
    fn tick_texts_are_short() {
        let texts: Vec<_> = [0.0, 0.25, 1500.0, 20_000.0, 2.5e6, -3.0, 1e9]
            .map(tick_text)
            .into();
        assert_eq!(texts, ["0", "0.25", "1500", "20k", "2.5M", "-3", "1G"]);
    }

    #[test]
    fn a_gap_lifts_the_pen_and_steps_have_corners() {
        let points = vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (3.0, 0.0)];
        let axis = Axis::new;
        let plot = Plot::new("a < b", axis("x"), axis("y")).line(Line::new("l&m", points).steps());
        let text = svg(&[plot.clone(), plot]);
        assert_eq!(text.matches("<g ").count(), 2);
        assert!(text.contains("a &lt; b") && text.contains("l&amp;m"));
        let path = text
            .lines()
            .find(|l| l.contains("stroke-width=\"1.8\""))
            .unwrap();
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert_eq!(path.matches('H').count(), 1, "{path}");
        // From x = 0 at the left edge to x = 3 at the right one.
        assert!(
            path.contains("M78.0 34.0") && path.contains("H590.0V252.0"),
            "{path}"
        );
    }

    #[test]
    fn a_band_goes_up_and_comes_back() {
        let line = Line::new("l", vec![(0.0, 2.0), (4.0, 2.0)]).band(vec![(1.0, 3.0), (0.0, 4.0)]);
        let text = svg(&[Plot::new("", Axis::new(""), Axis::new("")).line(line)]);
        let polygon = text.lines().find(|l| l.contains("<polygon")).unwrap();
        assert_eq!(polygon.matches(',').count(), 4);
        // Upper left, upper right, lower right, lower left.
        assert!(
            polygon.contains("points=\"78.0,88.5 590.0,34.0 590.0,252.0 78.0,197.5\""),
            "{polygon}"
        );
    }
}
