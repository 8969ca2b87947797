//! `weir pki init`: makes the authority of a cluster.

use serde_json::json;
use weir_identity::{authority, utc};

use crate::args::{Format, PkiInit, days};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Makes it, and says where it is.
pub(super) fn init(args: &PkiInit) -> Outcome {
    let made = authority::create(&args.folder, &args.cluster, days(args.days))?;
    let expires = utc(made.expires);
    match args.output {
        Format::Json => output::json(&json!({
            "cluster": made.cluster,
            "folder": args.folder,
            "expires": expires,
        }))?,
        Format::Text => output::line(&format!(
            "authority of {} in {}, until {expires}; keep {} to yourself",
            made.cluster,
            args.folder.display(),
            args.folder.join("ca-key.pem").display(),
        ))?,
    }
    Ok(Exit::Done)
}
