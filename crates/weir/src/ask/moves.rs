//! `weir move`: units from one runtime to another.

use serde_json::json;
use weir_api::v1;

use crate::args::{Format, Move, MoveBy};
use crate::exit::{Exit, Outcome};
use crate::output;
use crate::output::counted;

/// The same word of the control API.
pub(super) fn mode_of(mode: MoveBy) -> v1::MoveMode {
    match mode {
        MoveBy::Push => v1::MoveMode::Push,
        MoveBy::Pull => v1::MoveMode::Pull,
        MoveBy::Reprocess => v1::MoveMode::Reprocess,
    }
}

pub(crate) fn move_units(args: &Move) -> Outcome {
    let request = v1::MoveUnitsRequest {
        from: args.from,
        to: args.to,
        count: args.count.unwrap_or(0),
        mode: mode_of(args.mode).into(),
    };
    let moving = super::ask(args.instance.as_deref(), async |mut client| {
        let answer = client.move_units(request).await;
        answer
            .map(|answer| answer.into_inner().moving)
            .map_err(|status| super::failure(&status))
    })?;
    match args.output {
        Format::Json => output::json(&json!({
            "from": args.from,
            "to": args.to,
            "moving": moving,
        }))?,
        Format::Text => output::line(&format!(
            "{} on the way from runtime {} to runtime {}",
            counted(moving, "unit"),
            args.from,
            args.to
        ))?,
    }
    Ok(Exit::Done)
}
