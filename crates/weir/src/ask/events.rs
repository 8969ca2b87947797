//! `weir events`: what has happened to runtimes and hosts of a cluster.

use std::time::Duration;

use serde_json::json;
use weir_api::v1;
use weir_packet::Time;

use super::NO_SWITCH;
use crate::args::{Events, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::output::counted;

pub(crate) fn events(args: &Events) -> Outcome {
    super::ask(args.instance.as_deref(), async |mut client| {
        let failure = |status| super::failure(&status);
        let stats = client.get_stats(v1::GetStatsRequest {}).await;
        let stats = stats.map_err(failure)?.into_inner();
        if stats.switches.is_empty() {
            return Err(Failure::outside(NO_SWITCH));
        }
        let request = v1::WatchEventsRequest {
            follow: args.follow,
            after: args.after,
        };
        let stream = client.watch_events(request).await;
        let mut stream = stream.map_err(failure)?.into_inner();
        let mut last = args.after;
        while let Some(event) = stream.message().await.map_err(failure)? {
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
        Ok(Exit::Done)
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
    let (time, kind) = (Time(event.unix_ns), &event.kind);
    format!("{time}  {kind:<14}  {about:<20}  {}", event.message)
}
