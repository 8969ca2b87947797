//! Benchmarks of weir; docs/benchmarks.md says how they measure and what came out.
//!
//! ```text
//! weir-bench [table] [ROW...]      rows of the table whose names contain a ROW; all by default
//! weir-bench idscan                the pattern scan alone
//! weir-bench list                  names of the rows
//! weir-bench count CHAIN PACKETS   sends packets through a chain untimed, for callgrind
//! weir-bench count-switch CHAIN RUNTIMES PACKETS   the same through a switch and runtimes
//! weir-bench switch                what switch, entry and gate cost on a clean path
//! weir-bench handover [quick]      flows that move in real time, under traffic
//! weir-bench graph [less-work|scale-out|sharing|parallel]   what graphs and stages gain and cost
//! weir-bench graph count FORM PACKETS      one form of less-work untimed, for callgrind
//! weir-bench ring                 frames to another process and back, against a bare ring of numbers
//! weir-bench router               the router around a chain, without one
//! weir-bench reload [quick]      changed rules under traffic: what looking open flows up again costs
//! weir-bench sets                sets of addresses: a look-up, a change, a new flow
//! weir-bench snf [quick] [seed=N] [parts=N] [PART...]   SNF's evaluation (§9) in virtual time: flowlets
//!                                  beside decisions per flow, and states by how they follow
//! weir-bench snf count bare|packets|boundaries NUMBER   flowlets untimed, for callgrind
//! weir-bench wire [quick] [WORD...] weir beside the kernel on live interfaces; needs root (docs/benchmarks.md)
//! weir-bench queues [rounds=N] [seconds=N]   two workers with a queue each beside one; needs root
//! weir-bench ledger [quick] [KEY=VALUE...]   numbered packets through weir while runtimes are killed; needs root
//! weir-bench scaling [PARTS [SEED]] runtimes added and stopped as the load rises and falls, in
//!                                  virtual time; PARTS times fewer flows (docs/scaling.md)
//! ```

mod chain;
mod clock;
mod count;
mod graph;
mod hand_over;
mod idscan;
mod ledger;
mod line;
mod log;
mod plot;
mod reload;
mod results;
mod ring;
mod router;
mod rows;
mod scaling;
mod seeded;
mod sets;
mod snf;
mod stages;
mod stats;
mod switch;
mod wire;

use std::process::ExitCode;

use results::Results;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["engine-process" | "version", ..] = args.as_slice() {
        // A process that such a weir starts, with the words of that one; or one asks what this is.
        let words = std::env::args_os().enumerate();
        let words = words.filter(|(at, word)| !(*at == 2 && word == "weir"));
        return weir::main_with_args(words.map(|(_, word)| word), &[]);
    }
    if let ["weir", ..] = args.as_slice() {
        // `weir` as it was built with this benchmark.
        return weir::main_with_args(std::env::args_os().skip(1), &[]);
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<(), String> {
    match args {
        ["list"] => {
            for row in rows::rows() {
                println!("{}", row.name);
            }
            println!("{}", idscan::NAME);
            Ok(())
        }
        ["count", chain, packets] => {
            let packets = packets
                .parse()
                .map_err(|_| format!("`{packets}` is no number of packets"))?;
            count::count(chain, packets)
        }
        ["count", ..] => Err("write `count CHAIN PACKETS`".to_owned()),
        ["count-switch", chain, runtimes, packets] => {
            let number = |text: &str| {
                text.parse::<u32>()
                    .map_err(|_| format!("`{text}` is no number"))
            };
            count::count_switch(chain, number(runtimes)?, number(packets)? as usize)
        }
        ["count-switch", ..] => Err("write `count-switch CHAIN RUNTIMES PACKETS`".to_owned()),
        ["switch"] => switch::table(),
        ["handover"] => hand_over::tables(false),
        ["handover", "quick"] => hand_over::tables(true),
        ["scaling", numbers @ ..] => {
            let number = |at: usize, default: u64| match numbers.get(at) {
                Some(text) => text
                    .parse()
                    .map_err(|_| format!("`{text}` is no number: write `scaling [PARTS [SEED]]`")),
                None => Ok(default),
            };
            let parts = u32::try_from(number(0, 1)?).ok().filter(|parts| *parts > 0);
            let parts = parts.ok_or("PARTS is 1 to 4294967295")?;
            scaling::scaling(parts, number(1, 1)?)
        }
        ["ring"] => ring::table(),
        ["router"] => router::table(),
        ["sets"] => sets::table(),
        ["reload"] => reload::table(false),
        ["reload", "quick"] => reload::table(true),
        ["ring-peer", form] => ring::peer(form),
        ["graph", what @ ..] => graph::run(what),
        ["snf", words @ ..] => snf::run(words),
        ["wire", words @ ..] => wire::run(words),
        ["queues", words @ ..] => wire::queues(words),
        ["ledger", words @ ..] => ledger::run(words),
        ["wire-bump", inside, outside] => wire::bump(inside, outside),
        ["idscan"] => table(&[idscan::NAME]),
        ["table", rows @ ..] | rows => table(rows),
    }
}

/// Measures the rows whose names contain one of `wanted`, or all.
fn table(wanted: &[&str]) -> Result<(), String> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| name.contains(w));
    let rows: Vec<_> = rows::rows()
        .into_iter()
        .filter(|row| is_wanted(&row.name))
        .collect();
    if rows.is_empty() && !is_wanted(idscan::NAME) {
        return Err(format!(
            "no row is called like `{}`; `list` names them",
            wanted.join("`, `")
        ));
    }
    let mut results = Results::create()?;
    results.head();
    for row in &rows {
        let measured = row
            .measure()
            .map_err(|error| format!("{}: {error}", row.name))?;
        results.row(row, &measured)?;
    }
    if is_wanted(idscan::NAME) {
        results.scan(&idscan::measure()?)?;
    }
    results.finish()
}
