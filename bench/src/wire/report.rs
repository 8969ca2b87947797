//! Tables and plot of the raw figures.

use serde_json::Value;

use super::arms::ARMS;
use crate::log;
use crate::plot::{Axis, Line, Plot, svg};
use crate::stats::Spread;

/// Others' share of a processor, and what the machine below took, from which on a run is not quiet.
const LOUD: f64 = 0.02;

/// One measurement in a line.
pub(super) fn short(line: &Value) -> String {
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let figures = match line["what"].as_str() {
        Some("load") => format!(
            "{:>5} flows: {:.3} Mpps, {:.3} per busy second, {:.0} ns",
            line["flows"],
            number("per_second") / 1e6,
            number("per_busy_second") / 1e6,
            number("ns_per_packet")
        ),
        Some("tcp") => format!("{:.2} Gbit/s", number("gigabits_per_s")),
        Some("rtt") => format!(
            "every {} µs: p50 {:.1}, p99 {:.1} µs, {} lost",
            line["pause_us"],
            number("p50_us"),
            number("p99_us"),
            line["lost"]
        ),
        _ => format!("{:.2} % of a processor", number("share") * 100.0),
    };
    let others = |core: &str| {
        let share = line["cores"][core]["others"].as_f64();
        share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0))
    };
    format!(
        "{} {:22} {:4} {figures}  [others {} {}]",
        line["round"],
        line["arm"].as_str().unwrap_or_default(),
        line["what"].as_str().unwrap_or_default(),
        others("forwarder"),
        others("hosts"),
    )
}

/// The values of `key` of one arm, round by round.
fn values(lines: &[Value], arm: &str, what: &str, of: (&str, u64), key: &str) -> Vec<f64> {
    lines
        .iter()
        .filter(|line| line["arm"] == arm && line["what"] == what)
        .filter(|line| of.0.is_empty() || line[of.0] == of.1)
        .filter_map(|line| line[key].as_f64())
        .collect()
}

/// Value by value: those of one arm to those of another in the same round.
fn ratios(of: &[f64], to: &[f64]) -> Spread {
    let ratios: Vec<f64> = of.iter().zip(to).map(|(of, to)| of / to).collect();
    Spread::of(&ratios)
}

fn spread(values: &[f64], digits: usize) -> String {
    let spread = Spread::of(values);
    format!(
        "{:.digits$} ({:.digits$}–{:.digits$})",
        spread.median, spread.lower_quartile, spread.upper_quartile
    )
}

/// Prints the tables as they are in docs/benchmarks.md, and writes the plot.
pub(super) fn tables(lines: &[Value]) -> Result<(), String> {
    load(lines)?;
    tcp(lines);
    rtt(lines);
    for arm in ARMS {
        for share in values(lines, arm.name, "idle", ("", 0), "share") {
            println!(
                "\nidle, {}: {:.2} % of a processor",
                arm.name,
                share * 100.0
            );
        }
    }
    quiet(lines);
    Ok(())
}

/// The arm of the kernel's that does best at 50k flows.
fn best_kernel(lines: &[Value]) -> &'static str {
    let median = |arm: &str| {
        let of = values(lines, arm, "load", ("flows", 50_000), "per_busy_second");
        Spread::of(&of).median
    };
    if median("kernel-rps") > median("kernel-thread") {
        "kernel-rps"
    } else {
        "kernel-thread"
    }
}

fn load(lines: &[Value]) -> Result<(), String> {
    let kernel = best_kernel(lines);
    let per_busy =
        |arm: &str, flows| values(lines, arm, "load", ("flows", flows), "per_busy_second");
    if !lines.iter().any(|line| line["what"] == "load") {
        return Ok(());
    }
    println!(
        "\n64 octets, million packets per busy second of the forwarder's processor: median \
         (quartiles); ratio to {kernel}\n\n\
         | arm | 1k flows | ratio | ns | 50k flows | ratio | ns | packets/s, 50k |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut plot = Plot::new(
        "64-octet packets per busy second of the forwarder's processor",
        Axis::log("flows"),
        Axis::new("million packets"),
    );
    for arm in ARMS {
        let both = [1_000, 50_000].map(|flows| per_busy(arm.name, flows));
        if both.iter().any(Vec::is_empty) {
            continue;
        }
        let mut row = format!("| {} |", arm.name);
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for (values, flows) in both.iter().zip([1_000, 50_000]) {
            let millions: Vec<f64> = values.iter().map(|value| value / 1e6).collect();
            let spread_of = Spread::of(&millions);
            let ratio = ratios(values, &per_busy(kernel, flows)).median;
            row += &format!(
                " {} | {ratio:.2} | {:.0} |",
                spread(&millions, 3),
                1e3 / spread_of.median
            );
            points.push((f64::from(flows as u32), spread_of.median));
            band.push((spread_of.lower_quartile, spread_of.upper_quartile));
        }
        let rate = values(lines, arm.name, "load", ("flows", 50_000), "per_second");
        println!("{row} {:.2} M |", Spread::of(&rate).median / 1e6);
        let line = Line::new(arm.name, points).band(band).dots();
        plot = plot.line(if arm.name.starts_with("weir") {
            line
        } else {
            line.dashed()
        });
    }
    println!();
    log::plot("wire.svg", &svg(&[plot]))
}

fn tcp(lines: &[Value]) {
    let speed = |arm: &str| values(lines, arm, "tcp", ("", 0), "gigabits_per_s");
    if !lines.iter().any(|line| line["what"] == "tcp") {
        return;
    }
    println!(
        "\none TCP connection: median (quartiles); ratio to xdp-bump\n\n\
         | arm | Gbit/s | ratio |\n|---|--:|--:|"
    );
    for arm in ARMS {
        let of = speed(arm.name);
        if !of.is_empty() {
            let ratio = ratios(&of, &speed("xdp-bump")).median;
            println!("| {} | {} | {ratio:.2} |", arm.name, spread(&of, 2));
        }
    }
}

fn rtt(lines: &[Value]) {
    if !lines.iter().any(|line| line["what"] == "rtt") {
        return;
    }
    println!(
        "\nround trips by UDP, µs: medians (quartiles) of the rounds\n\n\
         | arm | one after another: p50 | p99 | 200 µs between: p50 | p99 |\n|---|--:|--:|--:|--:|"
    );
    for arm in ARMS {
        let mut row = format!("| {} |", arm.name);
        let mut any = false;
        for (pause, key) in [
            (0, "p50_us"),
            (0, "p99_us"),
            (200, "p50_us"),
            (200, "p99_us"),
        ] {
            let of = values(lines, arm.name, "rtt", ("pause_us", pause), key);
            any |= !of.is_empty();
            row += &format!(" {} |", spread(&of, 1));
        }
        if any {
            println!("{row}");
        }
    }
}

/// Says whether others had much of the processors meanwhile.
fn quiet(lines: &[Value]) {
    let share = |core: &str, of: &str| {
        let all: Vec<f64> = lines
            .iter()
            .filter_map(|line| line["cores"][core][of].as_f64())
            .collect();
        Spread::of(&all)
    };
    let mut loud = false;
    for core in ["forwarder", "hosts"] {
        let (others, stolen) = (share(core, "others"), share(core, "stolen"));
        let is_loud = others.upper_quartile > LOUD || stolen.upper_quartile > LOUD;
        loud |= is_loud;
        println!(
            "\nthe {core}'s processor: other programs had {:.1} % of it (median; at most {:.1} %), the machine \
             below took {:.1} % (at most {:.1} %)",
            others.median * 100.0,
            others.most * 100.0,
            stolen.median * 100.0,
            stolen.most * 100.0
        );
    }
    if loud {
        println!(
            "\nTHE MACHINE WAS NOT QUIET: ratios of one run may be used with care, figures may not"
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_kernel_is_taken_at_its_best_and_ratios_are_those_of_a_round() {
        let load = |arm, round, per_busy| {
            json!({"arm": arm, "what": "load", "round": round, "flows": 50_000,
                "per_busy_second": per_busy})
        };
        let lines = [
            load("kernel-rps", 0, 1.0),
            load("kernel-thread", 0, 2.0),
            load("kernel-rps", 1, 2.0),
            load("kernel-thread", 1, 4.0),
            json!({"arm": "kernel-rps", "what": "tcp", "gigabits_per_s": 9.0}),
        ];
        assert_eq!(best_kernel(&lines), "kernel-thread");
        assert_eq!(best_kernel(&lines[..1]), "kernel-rps");
        let of = |arm| values(&lines, arm, "load", ("flows", 50_000), "per_busy_second");
        let ratios = ratios(&of("kernel-thread"), &of("kernel-rps"));
        assert_eq!((ratios.least, ratios.most), (2.0, 2.0));
        assert!(
            values(
                &lines,
                "kernel-rps",
                "load",
                ("flows", 1_000),
                "per_busy_second"
            )
            .is_empty()
        );
        assert_eq!(
            values(&lines, "kernel-rps", "tcp", ("", 0), "gigabits_per_s"),
            [9.0]
        );
    }
}
