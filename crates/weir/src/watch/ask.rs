//! `weir trace` and `weir tap` on a weir that runs.

use std::io::IsTerminal as _;
use std::time::Duration;

use tonic::Streaming;
use weir_api::v1;
use weir_io::live::EndSignals;

use crate::args::{Tap as TapArgs, Trace as TraceArgs};
use crate::ask::{self, Client};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

use super::captures::{read_filter, reader_closed, report_tap, report_trace, write_failure};
use super::pcapng::{TapCapture, TapPacket};
use super::print::shown;

/// `weir trace [NAME] [FILTER]`.
pub(super) fn trace(args: &TraceArgs) -> Outcome {
    let (instance, filter) = match args.words.as_slice() {
        [] => (None, ""),
        // One word is the name of a running weir, or else a filter.
        [word] => match (ask::is_instance(word), read_filter(word)) {
            (Ok(_), _) => (Some(word.as_str()), ""),
            (_, Ok(_)) => (None, word.as_str()),
            (Err(no_name), Err(no_filter)) => return Err(no_filter.or(no_name)),
        },
        [name, filter, ..] => (Some(name.as_str()), filter.as_str()),
    };
    let request = v1::TraceRequest {
        filter: filter.to_owned(),
        packets: args.packets,
        flow: args.flow,
        full: args.full,
    };
    let signals = end_signals()?;
    ask::ask(instance, async |client: Client| {
        let work = follow(client, request, args, &signals);
        match args.timeout {
            None => work.await,
            Some(most) => match tokio::time::timeout(most, work).await {
                Ok(done) => done,
                Err(_) => {
                    let seconds = most.as_secs_f64();
                    eprintln!("ended after {seconds} seconds");
                    Ok(())
                }
            },
        }
    })?;
    Ok(Exit::Done)
}

async fn follow(
    mut client: Client,
    request: v1::TraceRequest,
    args: &TraceArgs,
    signals: &EndSignals,
) -> Result<(), Failure> {
    use v1::trace_response::What;
    let answer = client.trace(request).await;
    let mut stream = answer.map_err(|status| ask::failure(&status))?.into_inner();
    let mut printed = 0;
    while let Some(message) = next(&mut stream, signals).await? {
        match message.what {
            Some(What::Packet(part)) => {
                output::line(&shown(&part, args.output, args.full, printed > 0))?;
                printed += 1;
            }
            Some(What::End(end)) => {
                report_trace(printed, end.lost);
                return Ok(());
            }
            Some(What::Armed(armed)) => {
                say_unseen(&armed.unseen);
                eprintln!("looking on; Ctrl-C ends it");
            }
            None => {}
        }
    }
    report_trace(printed, 0);
    Ok(())
}

/// `weir tap [NAME] POINT [FILTER]`.
pub(super) fn tap(args: &TapArgs) -> Outcome {
    let (instance, point, filter) = match args.words.as_slice() {
        [point] => (None, point, ""),
        // Two words: the first is the name of a running weir, or else the point.
        [name, point] if ask::is_instance(name).is_ok() => (Some(name.as_str()), point, ""),
        [point, filter] => (None, point, filter.as_str()),
        [name, point, filter] => (Some(name.as_str()), point, filter.as_str()),
        _ => return Err(Failure::usage("weir tap [NAME] POINT [FILTER]")),
    };
    if std::io::stdout().is_terminal() {
        return Err(Failure::usage(
            "a capture is nothing for a terminal: write `> FILE.pcapng`, or `| wireshark -k -i -`",
        ));
    }
    let request = v1::TapRequest {
        point: point.clone(),
        filter: filter.to_owned(),
        packets: args.packets.unwrap_or(0),
        snap_len: args.snap_len,
    };
    let signals = end_signals()?;
    ask::ask(instance, async |client: Client| {
        copy(client, request, args.snap_len, &signals).await
    })?;
    Ok(Exit::Done)
}

async fn copy(
    mut client: Client,
    request: v1::TapRequest,
    snap_len: u32,
    signals: &EndSignals,
) -> Result<(), Failure> {
    use v1::tap_response::What;
    let answer = client.tap(request).await;
    let mut stream = answer.map_err(|status| ask::failure(&status))?.into_inner();
    let mut capture = None;
    let mut lost = Vec::new();
    let mut gone = false;
    while let Some(message) = next(&mut stream, signals).await? {
        let written = match (message.what, &mut capture) {
            (Some(What::Armed(armed)), place @ None) => {
                say_unseen(&armed.unseen);
                let points = armed.points.into_iter();
                let points = points.map(|point| (point.name, point.description));
                // A reader can open the capture before its first packet.
                TapCapture::new(std::io::stdout(), points.collect(), snap_len)
                    .and_then(|mut capture| capture.flush().map(|()| *place = Some(capture)))
            }
            (Some(What::Packets(tapped)), Some(capture)) => {
                lost = tapped.lost_by_point;
                let mut packets = tapped.packets.iter();
                let written = packets.try_for_each(|packet| {
                    capture.write(&TapPacket {
                        point: packet.point as usize,
                        time_ns: packet.time_ns,
                        link_type: packet.link_type,
                        wire_len: packet.wire_len,
                        data: &packet.data,
                        comment: &packet.comment,
                    })
                });
                written.and_then(|()| capture.flush())
            }
            (Some(What::End(end)), _) => {
                lost = end.lost_by_point;
                break;
            }
            _ => Ok(()),
        };
        match written {
            Err(error) if reader_closed(&error) => {
                gone = true;
                break;
            }
            other => other.map_err(write_failure)?,
        }
    }
    let Some(capture) = capture else {
        return Ok(());
    };
    let packets = capture.packets();
    if !gone {
        match capture.finish(&lost) {
            Err(error) if reader_closed(&error) => gone = true,
            other => _ = other.map_err(write_failure)?,
        }
    }
    report_tap(packets, &lost, gone);
    Ok(())
}

fn say_unseen(stages: &[String]) {
    for stage in stages {
        eprintln!("not shown: {stage}, which is not trusted");
    }
}

/// SIGINT and SIGTERM end it in order: with what there is to say at the end.
fn end_signals() -> Result<EndSignals, Failure> {
    EndSignals::open().map_err(|error| Failure::outside(format!("can't wait for signals: {error}")))
}

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The next message; none where the stream or the user has ended it.
async fn next<T>(stream: &mut Streaming<T>, signals: &EndSignals) -> Result<Option<T>, Failure> {
    loop {
        tokio::select! {
            message = stream.message() => {
                return message.map_err(|status| ask::failure(&status));
            }
            () = tokio::time::sleep(LOOK) => {
                if signals.came() {
                    return Ok(None);
                }
            }
        }
    }
}
