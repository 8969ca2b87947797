//! `weir delete`.

use std::time::{Duration, Instant};

use serde_json::json;
use weir_api::v1;

use crate::args::{Delete, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

use super::{Client, ask, failure};

/// Interval in which hosts are looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn delete(args: &Delete) -> Outcome {
    let access = super::super::at::of(&args.at)?;
    ask(&access, async |mut client| {
        let request = v1::DeleteRequest {
            name: args.name.clone(),
        };
        let answer = client.delete(request).await;
        let answer = answer.map_err(|status| failure(&status))?.into_inner();
        let left = wait(&mut client, &args.name, args.timeout).await?;
        let absent = answer.absent.join(", ");
        if args.output == Format::Json {
            output::json(&json!({
                "composition": args.name,
                "hosts": answer.hosts,
                "absent": answer.absent,
                "left": left,
            }))?;
        } else if left.is_empty() && !args.timeout.is_zero() && !answer.hosts.is_empty() {
            output::line(&format!(
                "{} has ended on {}",
                args.name,
                answer.hosts.join(", ")
            ))?;
        }
        if !answer.absent.is_empty() && args.output == Format::Text {
            output::line(&format!(
                "not connected, and told to end it when they are: {absent}"
            ))?;
        }
        match left.is_empty() {
            true => Ok(Exit::Done),
            false if args.timeout.is_zero() => Ok(Exit::Done),
            false => Err(Failure::outside(format!(
                "{} still runs on {}",
                args.name,
                left.join(", ")
            ))),
        }
    })
}

/// Waits until no connected host has a share of it any more: those that have one yet.
async fn wait(client: &mut Client, name: &str, timeout: Duration) -> Result<Vec<String>, Failure> {
    let until = Instant::now() + timeout;
    loop {
        let listed = client.list_machines(v1::ListMachinesRequest {}).await;
        let machines = listed
            .map_err(|status| failure(&status))?
            .into_inner()
            .machines;
        let left = machines
            .into_iter()
            .filter(|machine| machine.connected && machine.runs.iter().any(|run| run == name));
        let left: Vec<String> = left.map(|machine| machine.name).collect();
        if left.is_empty() || Instant::now() >= until {
            return Ok(left);
        }
        tokio::time::sleep(LOOK).await;
    }
}
