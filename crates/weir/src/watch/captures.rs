//! `weir trace` and `weir tap` on captures: a run of its own, whose packets go
//! nowhere.

use std::ffi::OsString;
use std::io::Write;

use clap::Parser as _;
use weir_io::capture::CaptureError;
use weir_nf::host::Kind;
use weir_packet::filter::Filter;
use weir_runtime::RunAtStart;

use crate::args::{Args, Captures, Command, Format, Run, Tap as TapArgs, Trace as TraceArgs};
use crate::exit::{Exit, Failure};
use crate::run::Onlooker;
use crate::{Outcome, chains, output, run, seed};

use super::pcapng::{TapCapture, TapPacket, names_of};
use super::tap::{LONGEST, TapSpec, Taps};
use super::told;
use super::trace::{TraceSpec, Traces};

/// `weir trace CHAIN --in …`.
pub(super) fn trace(args: &TraceArgs, kinds: &[Kind]) -> Outcome {
    let (chain, filter) = match args.words.as_slice() {
        [chain] => (chain, ""),
        [chain, filter] => (chain, filter.as_str()),
        _ => return Err(Failure::usage("with --in: weir trace CHAIN [FILTER]")),
    };
    let filter = read_filter(filter)?;
    let seed = args.captures.seed.unwrap_or_else(seed::random);
    let run = as_run(chain, &args.captures, seed)?;
    let file = chains::load(&run.chain, &run.templates, &run.set, seed, kinds)?;
    let mut traces = Traces::new(TraceSpec {
        filter,
        packets: args.packets.into(),
        flow: args.flow,
        full: args.full,
    });
    let arm = traces.arm(0);
    let arm = RunAtStart::of(move |runtime| arm.apply(runtime));
    let mut onlooker = TraceOnlooker {
        ports: run::input_names(&run, &file)?,
        format: args.output,
        full: args.full,
        waits: 0,
        told: 0,
        traces: &mut traces,
    };
    run::run_watched(&run, kinds, arm, &mut onlooker)?;
    let told = onlooker.told;
    say_told(told, traces.lost());
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
    let run = as_run(chain, &args.captures, seed)?;
    let file = chains::load(&run.chain, &run.templates, &run.set, seed, kinds)?;
    let places = run::places(&run, &file)?;
    let points = places.parse(point).map_err(Failure::usage)?;
    let mut taps = Taps::new(TapSpec {
        points: points.iter().map(|point| point.point.clone()).collect(),
        filter,
        packets: args.packets.unwrap_or(0),
        snap_len: args.snap_len,
    });
    let arm = taps.arm(0);
    let arm = RunAtStart::of(move |runtime| arm.apply(runtime));
    let capture = TapCapture::new(
        std::io::stdout(),
        names_of(&points),
        args.snap_len.min(LONGEST),
    )
    .map_err(unwritten)?;
    let mut onlooker = TapOnlooker {
        taps: &mut taps,
        capture,
    };
    run::run_watched(&run, kinds, arm, &mut onlooker)?;
    let TapOnlooker { capture, .. } = onlooker;
    let packets = capture.packets();
    let lost = taps.lost();
    let gone = match capture.finish(&lost) {
        Err(error) if !is_gone(&error) => return Err(unwritten(error)),
        finished => finished.is_err(),
    };
    say_end(packets, &lost, gone);
    Ok(Exit::Done)
}

/// What a trace came to, on standard error, where it is not plain to see.
pub(super) fn say_told(told: u64, lost: u64) {
    if lost > 0 {
        eprintln!(
            "warning: {lost} parts of traces were lost: they came faster than they were told"
        );
    }
    if told == 0 {
        eprintln!("no packet has matched");
    }
}

/// What a tap came to, on standard error.
pub(super) fn say_end(packets: u64, lost: &[u64], gone: bool) {
    let lost: u64 = lost.iter().sum();
    let mut text = format!("{packets} packets tapped");
    if lost > 0 {
        text.push_str(&format!(", {lost} lost: the reader was too slow"));
    }
    if gone {
        text.push_str("; the reader has gone");
    }
    eprintln!("{text}");
}

/// A filter as somebody wrote it.
pub(super) fn read_filter(text: &str) -> Result<Filter, Failure> {
    match text.trim() {
        "" => Ok(Filter::all()),
        text => text
            .parse()
            .map_err(|error: weir_packet::filter::FilterError| Failure::usage(error.to_string())),
    }
}

/// Standard output that can't be written.
pub(super) fn unwritten(error: CaptureError) -> Failure {
    Failure::outside(format!("can't write the capture: {error}"))
}

/// Whoever read the capture has ended.
pub(super) fn is_gone(error: &CaptureError) -> bool {
    matches!(error, CaptureError::Write { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The run that the packets are taken through.
fn as_run(chain: &str, captures: &Captures, seed: u64) -> Result<Run, Failure> {
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
        Ok(_) => Err(Failure::usage("the options make no run")),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            // What follows tells of `weir run`.
            let text = text.split("\n\nUsage:").next().unwrap_or(text);
            Err(Failure::usage(text.trim()))
        }
    }
}

/// Prints traces while packets go by.
struct TraceOnlooker<'a> {
    traces: &'a mut Traces,
    ports: Vec<String>,
    format: Format,
    full: bool,
    /// Parts of packets that are told.
    told: u64,
    /// Packets that wait or go on elsewhere.
    waits: i64,
}

impl Onlooker for TraceOnlooker<'_> {
    fn look(&mut self) -> Result<bool, Failure> {
        let mut parts = Vec::new();
        self.traces.take(&self.ports, |part| parts.push(part));
        for part in parts {
            self.waits += super::waits(&part);
            output::line(&told(&part, self.format, self.full, self.told > 0))?;
            self.told += 1;
        }
        // Those that wait may still have something to tell.
        Ok(!self.traces.is_full() || self.waits > 0)
    }
}

/// Writes what is tapped while packets go by.
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
            Some(error) if is_gone(&error) => Ok(false),
            Some(error) => Err(unwritten(error)),
            None => Ok(!self.taps.is_full()),
        }
    }
}
