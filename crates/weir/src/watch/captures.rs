//! `weir trace --in` and `weir tap --in`: run a chain over capture files and print
//! or save what is observed. The output packets are discarded.

use std::ffi::OsString;
use std::io::Write;

use clap::Parser as _;
use weir_ctl::observe::{Arm, LONGEST, TapSpec, Taps, TraceSpec, Traces, unfinished};
use weir_io::capture::CaptureError;
use weir_nf::host::Kind;
use weir_packet::filter::Filter;
use weir_runtime::RunAtStart;

use crate::args::{Args, Captures, Command, Format, Run, Tap as TapArgs, Trace as TraceArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::run::Onlooker;
use crate::{chains, output, run, seed};

use super::pcapng::{TapCapture, TapPacket, names_of};
use super::print::shown;

/// `weir trace CHAIN --in …`.
pub(super) fn trace(args: &TraceArgs, kinds: &[Kind]) -> Outcome {
    let (chain, filter) = match args.words.as_slice() {
        [chain] => (chain, ""),
        [chain, filter] => (chain, filter.as_str()),
        _ => return Err(Failure::usage("with --in: weir trace CHAIN [FILTER]")),
    };
    let filter = read_filter(filter)?;
    let seed = args.captures.seed.unwrap_or_else(seed::random);
    let run = run_args(chain, &args.captures, seed)?;
    let file = chains::load(&run.chain, &run.templates, &run.set, seed, kinds)?;
    let mut traces = Traces::new(TraceSpec {
        filter,
        packets: args.packets.into(),
        flow: args.flow,
        full: args.full,
    });
    let arm = Arm::Trace(0, traces.arm());
    let arm = RunAtStart::of(move |runtime| arm.apply(runtime));
    let mut onlooker = TraceOnlooker {
        ports: run::input_names(&run, &file)?,
        format: args.output,
        full: args.full,
        unfinished: 0,
        printed: 0,
        traces: &mut traces,
    };
    run::run_watched(&run, kinds, arm, &mut onlooker)?;
    let printed = onlooker.printed;
    report_trace(printed, traces.lost());
    Ok(Exit::Done)
}

/// `weir tap CHAIN POINT --in …`.
pub(super) fn tap(args: &TapArgs, kinds: &[Kind]) -> Outcome {
    let (chain, point, filter) = match args.words.as_slice() {
        [chain, point] => (chain, point, ""),
        [chain, point, filter] => (chain, point, filter.as_str()),
        _ => return Err(Failure::usage("with --in: weir tap CHAIN POINT [FILTER]")),
    };
    let filter = read_filter(filter)?;
    let seed = args.captures.seed.unwrap_or_else(seed::random);
    let run = run_args(chain, &args.captures, seed)?;
    let file = chains::load(&run.chain, &run.templates, &run.set, seed, kinds)?;
    let places = run::places(&run, &file)?;
    let points = places.parse(point).map_err(Failure::usage)?;
    let mut taps = Taps::new(TapSpec {
        points: points.iter().map(|point| point.point.clone()).collect(),
        filter,
        packets: args.packets.unwrap_or(0), // 0: no limit
        snap_len: args.snap_len,
    });
    let arm = Arm::Tap(0, taps.arm());
    let arm = RunAtStart::of(move |runtime| arm.apply(runtime));
    let capture = TapCapture::new(
        std::io::stdout(),
        names_of(&points),
        args.snap_len.min(LONGEST),
    )
    .map_err(write_failure)?;
    let mut onlooker = TapOnlooker {
        taps: &mut taps,
        capture,
    };
    run::run_watched(&run, kinds, arm, &mut onlooker)?;
    let TapOnlooker { capture, .. } = onlooker;
    let packets = capture.packets();
    let lost = taps.lost();
    let gone = match capture.finish(&lost) {
        Err(error) if !reader_closed(&error) => return Err(write_failure(error)),
        finished => finished.is_err(),
    };
    report_tap(packets, &lost, gone);
    Ok(Exit::Done)
}

/// Warns on standard error if trace entries were lost or no packet matched.
pub(super) fn report_trace(printed: u64, lost: u64) {
    if lost > 0 {
        eprintln!("warning: {lost} trace entries lost: the trace ring was full");
    }
    if printed == 0 && lost == 0 {
        eprintln!("no packet matched");
    }
}

/// Prints a tap's totals on standard error. `gone`: the reader closed the pipe.
pub(super) fn report_tap(packets: u64, lost: &[u64], gone: bool) {
    let lost: u64 = lost.iter().sum();
    let mut text = format!("{packets} packets tapped");
    if lost > 0 {
        text.push_str(&format!(", {lost} lost: the reader was too slow"));
    }
    if gone {
        text.push_str("; the reader closed the pipe");
    }
    eprintln!("{text}");
}

/// Parses a filter. An empty one matches all packets.
pub(super) fn read_filter(text: &str) -> Result<Filter, Failure> {
    match text.trim() {
        "" => Ok(Filter::all()),
        text => text
            .parse()
            .map_err(|error: weir_packet::filter::FilterError| Failure::usage(error.to_string())),
    }
}

/// The failure of a command that can't write its capture to standard output.
pub(super) fn write_failure(error: CaptureError) -> Failure {
    Failure::outside(format!("can't write the capture: {error}"))
}

/// True if the write failed because the reader closed the pipe (`EPIPE`).
pub(super) fn reader_closed(error: &CaptureError) -> bool {
    matches!(error, CaptureError::Write { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The `weir run --quiet` with the same options. Built as a command line and
/// parsed, so that defaults and checks are those of `weir run`.
fn run_args(chain: &str, captures: &Captures, seed: u64) -> Result<Run, Failure> {
    let mut words: Vec<OsString> = ["weir", "run", chain, "--quiet"].map(OsString::from).into();
    let mut option = |name: &str, value: OsString| {
        words.push(format!("--{name}").into());
        words.push(value);
    };
    option("seed", seed.to_string().into());
    for port in &captures.input {
        option("in", port.into());
    }
    for setting in &captures.set {
        option("set", setting.into());
    }
    for folder in &captures.templates {
        option("templates", folder.into());
    }
    for (name, value) in [
        ("plan", &captures.plan),
        ("passes", &captures.passes),
        ("runtimes", &captures.runtimes),
        ("workers", &captures.workers),
    ] {
        if let Some(value) = value {
            option(name, value.into());
        }
    }
    match Args::try_parse_from(words) {
        Ok(Args {
            command: Command::Run(run),
        }) => Ok(*run),
        Ok(_) => Err(Failure::usage(
            "internal error: these options are not parsed as `weir run`",
        )),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // Cut clap's usage text: it is that of `weir run`, not of this command.
            let text = text.split("\n\nUsage:").next().unwrap_or(text);
            Err(Failure::usage(text.trim()))
        }
    }
}

/// Prints trace entries during the run.
struct TraceOnlooker<'a> {
    traces: &'a mut Traces,
    ports: Vec<String>,
    format: Format,
    full: bool,
    /// Trace entries printed. A packet that is held, turned or goes on to a later
    /// stage has several.
    printed: u64,
    /// Traced packets with more entries to come: held, turned, or in a later stage.
    unfinished: i64,
}

impl Onlooker for TraceOnlooker<'_> {
    fn look(&mut self) -> Result<bool, Failure> {
        let mut parts = Vec::new();
        self.traces.take(&self.ports, |part| parts.push(part));
        for part in parts {
            self.unfinished += unfinished(&part);
            output::line(&shown(&part, self.format, self.full, self.printed > 0))?;
            self.printed += 1;
        }
        // After the packet limit, go on until the started traces are complete.
        Ok(!self.traces.is_full() || self.unfinished > 0)
    }
}

/// Writes tapped packets to the pcapng stream during the run.
struct TapOnlooker<'a, W: Write> {
    taps: &'a mut Taps,
    capture: TapCapture<W>,
}

impl<W: Write> Onlooker for TapOnlooker<'_, W> {
    fn look(&mut self) -> Result<bool, Failure> {
        let (capture, mut failed) = (&mut self.capture, None);
        self.taps.take(|copy| {
            if failed.is_none() {
                let packet = TapPacket {
                    point: copy.point,
                    time_ns: copy.time_ns,
                    link_type: copy.link_type,
                    wire_len: copy.wire_len,
                    data: &copy.data,
                    comment: &copy.comment,
                };
                failed = capture.write(&packet).err();
            }
            failed.is_none()
        });
        match failed {
            Some(error) if reader_closed(&error) => Ok(false),
            Some(error) => Err(write_failure(error)),
            None => Ok(!self.taps.is_full()),
        }
    }
}
