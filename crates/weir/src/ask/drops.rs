//! `weir drops`: why an instance dropped packets.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;
use weir_api::v1;

use crate::args::{Drops, Format};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::output::thousands;

pub(crate) fn drops(args: &Drops) -> Outcome {
    let over = args.over;
    let (before, now) = super::ask(args.instance.as_deref(), async |mut client| {
        let mut look = async || {
            let found = client
                .list_drop_reasons(v1::ListDropReasonsRequest {})
                .await;
            found
                .map(|answer| answer.into_inner().reasons)
                .map_err(|status| super::failure(&status))
        };
        let before = look().await?;
        match over {
            None => Ok((None, before)),
            Some(over) => {
                tokio::time::sleep(over).await;
                let now = look().await?;
                Ok((Some(before), now))
            }
        }
    })?;
    let seconds = over.map_or(1.0, |over| over.as_secs_f64().max(1e-3));
    let rate = |reason: &v1::DropReason| {
        let before = before.as_ref()?.iter();
        let mut same = before.filter(|r| r.name == reason.name && r.chain == reason.chain);
        let before = same.next().map_or(0, |reason| reason.packets);
        Some(reason.packets.saturating_sub(before) as f64 / seconds)
    };
    let mut shown: Vec<&v1::DropReason> = now
        .iter()
        .filter(|reason| args.all || reason.packets > 0)
        .collect();
    shown.sort_by_key(|reason| std::cmp::Reverse(reason.packets));
    match args.output {
        Format::Json => {
            let all = shown.iter().map(|reason| {
                let mut value = json!({
                    "reason": reason.name,
                    "chain": (!reason.chain.is_empty()).then_some(&reason.chain),
                    "packets": reason.packets,
                    "meaning": reason.meaning,
                });
                if let Some(rate) = rate(reason) {
                    value["packets_per_s"] = json!(rate);
                }
                value
            });
            output::json(&all.collect::<Vec<_>>())?;
        }
        Format::Text if shown.is_empty() => output::line("no packet was dropped")?,
        Format::Text => {
            let chains: BTreeSet<&str> = now.iter().map(|reason| &*reason.chain).collect();
            let several = chains.iter().filter(|chain| !chain.is_empty()).count() > 1;
            output::line(&to_text(&shown, several, rate))?;
        }
    }
    Ok(Exit::Done)
}

/// A line per reason, with its chain if there are several.
fn to_text(
    shown: &[&v1::DropReason],
    several: bool,
    rate: impl Fn(&v1::DropReason) -> Option<f64>,
) -> String {
    let name = |reason: &v1::DropReason| match several && !reason.chain.is_empty() {
        true => format!("{}.{}", reason.chain, reason.name),
        false => reason.name.clone(),
    };
    let width = shown.iter().map(|reason| name(reason).len()).max();
    let width = width.unwrap_or(0);
    let mut text = String::new();
    for reason in shown {
        let _ = write!(text, "{:>14}  ", thousands(reason.packets));
        if let Some(rate) = rate(reason) {
            let _ = write!(text, "{rate:>10.0}/s  ");
        }
        let _ = writeln!(text, "{:<width$}  {}", name(reason), reason.meaning);
    }
    text
}
