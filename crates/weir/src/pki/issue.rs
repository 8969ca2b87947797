//! `weir pki issue`: issues a certificate, or renews one.

use serde_json::json;
use weir_identity::{authority, utc};

use crate::args::{Format, PkiIssue, days};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Issues it, and says what it is.
pub(super) fn issue(args: &PkiIssue) -> Outcome {
    let lifetime = days(args.days);
    let issued = authority::issue(&args.ca, &args.folder, args.role, &args.name, lifetime)?;
    let (peer, expires) = (&issued.peer, utc(issued.expires));
    match args.output {
        Format::Json => output::json(&json!({
            "id": peer.to_string(),
            "cluster": peer.cluster(),
            "role": peer.role().name(),
            "name": peer.name(),
            "folder": args.folder,
            "expires": expires,
            "renewed": issued.renewed,
        }))?,
        Format::Text => {
            let renewed = if issued.renewed { ", renewed" } else { "" };
            output::line(&format!(
                "{peer} in {}, until {expires}{renewed}",
                args.folder.display()
            ))?;
        }
    }
    Ok(Exit::Done)
}
