//! `weir events`: what has happened to runtimes and hosts of a cluster.

use std::time::Duration;

use serde_json::json;
use tonic::{Code, Status};
use weir_api::v1;
use weir_packet::Time;

use super::NO_SWITCH;
use crate::args::{Events, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::{counted, one_line};

pub(crate) fn events(args: &Events) -> Outcome {
    super::ask(args.instance.as_deref(), async |mut client| {
        let failure = |status| super::failure(&status);
        let request = v1::WatchEventsRequest {
            follow: args.follow,
            after: args.after,
        };
        let stream = client.watch_events(request).await;
        let stream = stream.map_err(|status| match status.code() {
            Code::Unimplemented => Failure::outside(NO_SWITCH),
            _ => failure(status),
        });
        let mut stream = stream?.into_inner();
        let mut last = args.after;
        let ended = || Failure::outside("the instance has ended");
        // One that is killed breaks off: of what exactly the transport says is no matter.
        let broken = |status: Status| match args.follow && status.code() == Code::Unknown {
            true => ended(),
            false => failure(status),
        };
        while let Some(event) = stream.message().await.map_err(broken)? {
            let forgotten = event.number.saturating_sub(last + 1);
            if forgotten > 0 {
                let forgotten = counted(forgotten, "older event");
                eprintln!("{forgotten}: not kept any more");
            }
            last = event.number;
            match args.output {
                Format::Json => output::line(&json(&event))?,
                Format::Text => output::line(&text(&event))?,
            }
        }
        match args.follow {
            true => Err(ended()),
            false => Ok(Exit::Done),
        }
    })
}

fn json(event: &v1::Event) -> String {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let took = event.took_ns.map(Duration::from_nanos);
    json!({
        "number": event.number,
        "time": Time(event.unix_ns).to_string(),
        "kind": event.kind,
        "runtime": (event.runtime > 0).then_some(event.runtime),
        "host": known(&event.host),
        "other": event.other,
        "units": event.units,
        "took_s": took.map(|took| took.as_secs_f64()),
        "message": event.message,
    })
    .to_string()
}

fn text(event: &v1::Event) -> String {
    let about = match (event.runtime, event.host.as_str()) {
        (0, "") => "cluster".to_owned(),
        (0, host) => format!("host {host}"),
        (runtime, host) => format!("runtime {runtime} on {host}"),
    };
    let (number, time, kind) = (event.number, Time(event.unix_ns), &event.kind);
    let message = one_line(&event.message);
    format!("{number:>5}  {time}  {kind:<14}  {about:<20}  {message}")
}
