//! `weir pki show`: what is in a folder of certificates.

use serde_json::{Value, json};
use weir_identity::authority::{self, Authority, Described};
use weir_identity::utc;

use crate::args::{Format, PkiShow};
use crate::exit::{Exit, Outcome};
use crate::output;

/// Shows it; fails where it is not fit for use.
pub(super) fn show(args: &PkiShow) -> Outcome {
    let described = authority::describe(&args.folder)?;
    match args.output {
        Format::Json => output::json(&value(&described))?,
        Format::Text => output::line(&text(&described))?,
    }
    Ok(match described.problem {
        None => Exit::Done,
        Some(_) => Exit::Failed,
    })
}

fn value(described: &Described) -> Value {
    let certificate = described.certificate.as_ref().map(|(peer, from, expires)| {
        json!({
            "id": peer.to_string(),
            "cluster": peer.cluster(),
            "role": peer.role().name(),
            "name": peer.name(),
            "from": utc(*from),
            "expires": utc(*expires),
        })
    });
    let authorities = described.authorities.iter().map(|authority| {
        json!({
            "cluster": authority.cluster,
            "from": utc(authority.from),
            "expires": utc(authority.expires),
            "sha256": authority.fingerprint,
        })
    });
    json!({
        "certificate": certificate,
        "authorities": authorities.collect::<Vec<_>>(),
        "is_authority": described.is_authority,
        "problem": described.problem.as_ref().map(ToString::to_string),
    })
}

fn text(described: &Described) -> String {
    let mut text = String::new();
    if let Some((peer, from, expires)) = &described.certificate {
        text += &format!(
            "certificate  {peer} ({}), from {} until {}\n",
            peer.role().meaning(),
            utc(*from),
            utc(*expires)
        );
    }
    if described.is_authority {
        text += "key          that of an authority is here\n";
    }
    for authority in &described.authorities {
        text += &line(authority);
    }
    if let Some(problem) = &described.problem {
        text += &format!("problem      {problem}\n");
    }
    text
}

fn line(authority: &Authority) -> String {
    let of = authority.cluster.as_deref().unwrap_or("no named cluster");
    format!(
        "authority    of {of}, from {} until {}, SHA-256 {}\n",
        utc(authority.from),
        utc(authority.expires),
        authority.fingerprint
    )
}
