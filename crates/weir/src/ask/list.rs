//! `weir list`: the instances that run.

use serde_json::json;
use weir_api::v1;
use weir_ctl::client;

use crate::args::Format;
use crate::exit::{Exit, Outcome};
use crate::output;

pub(crate) fn list(format: Format) -> Outcome {
    let mut found = Vec::new();
    for (name, path) in client::instances()? {
        let path = path.display().to_string();
        let info = super::ask(Some(&path), async |mut client| {
            let info = client.get_info(v1::GetInfoRequest {}).await;
            info.map(tonic::Response::into_inner)
                .map_err(|status| super::failure(&status))
        });
        // One that ends meanwhile is none.
        if let Ok(info) = info {
            found.push((name, path, info));
        }
    }
    match format {
        Format::Json => {
            let all: Vec<_> = found
                .iter()
                .map(|(name, path, info)| {
                    json!({
                        "name": name,
                        "pid": info.pid,
                        "version": info.version,
                        "mode": info.mode,
                        "chain_file": info.chain_file,
                        "socket": path,
                        "started_unix_ns": info.started_unix_ns,
                    })
                })
                .collect();
            output::json(&all)?;
        }
        Format::Text if found.is_empty() => output::line("no weir runs that can be asked")?,
        Format::Text => {
            let mut text = format!("{:<20} {:>8}  {:<9} {}\n", "NAME", "PID", "MODE", "CHAIN");
            for (name, _, info) in &found {
                text.push_str(&format!(
                    "{name:<20} {:>8}  {:<9} {}\n",
                    info.pid, info.mode, info.chain_file
                ));
            }
            output::line(&text)?;
        }
    }
    Ok(Exit::Done)
}
