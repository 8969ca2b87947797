//! `weir apply`, and `weir diff` of a composition.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use weir_api::v1;
use weir_api::v1::apply_response::Takes;
use weir_nf::host::Kind;

use crate::args::{Apply, Diff, Format};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;
use crate::run::up;

use super::{Client, ask, failure, files, shown, state_of};

/// Interval in which a composition is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn apply(args: &Apply, kinds: &[Kind]) -> Outcome {
    let composed = up::load(&args.composition, 0, kinds)?;
    let access = super::super::at::of(&args.at)?;
    let request = v1::ApplyRequest {
        files: Some(files::of(&args.composition, &composed)?),
        dry_run: args.dry_run,
        anew: args.anew,
    };
    ask(&access, async |mut client| {
        let answer = client.apply(request).await;
        let answer = answer.map_err(|status| failure(&status))?.into_inner();
        if args.output == Format::Text || !answer.wrong.is_empty() {
            told(&answer, args)?;
        }
        // One that is as it was may not be well, all the same.
        let stays = answer.takes() == Takes::Nothing && !args.dry_run;
        let waits = (answer.taken || stays) && !args.timeout.is_zero();
        let stands = match waits {
            true => Some(wait(&mut client, &answer, args).await?),
            false => None,
        };
        end(&answer, stands, args)
    })
}

/// Says what would be applied.
pub(crate) fn diff(args: &Diff, composition: &std::path::Path, kinds: &[Kind]) -> Outcome {
    let args = Apply {
        composition: composition.to_owned(),
        dry_run: true,
        anew: false,
        timeout: Duration::ZERO,
        at: args.at.clone(),
        output: args.output,
        quiet: true,
    };
    apply(&args, kinds)
}

/// Says what the change takes, or why it is not taken.
fn told(answer: &v1::ApplyResponse, args: &Apply) -> Result<(), Failure> {
    if !answer.wrong.is_empty() {
        return Err(Failure::chain(answer.wrong.clone()));
    }
    let name = &answer.name;
    let would = |does: &str, would: &str| match answer.taken {
        true => does.to_owned(),
        false => would.to_owned(),
    };
    let mut text = match answer.takes() {
        Takes::Nothing | Takes::Unspecified => format!("{name}: nothing has changed"),
        Takes::Start => {
            let starts = would("its hosts start it", "its hosts would start it");
            format!("{name}: it is new, and {starts}")
        }
        Takes::Reload => {
            let reloads = would("is taken", "would be taken");
            format!("{name}: the change {reloads} under traffic, as by `weir reload`")
        }
        Takes::Anew => {
            let anew = would("begins anew", "would begin anew");
            format!("{name}: all of it {anew}, without its flows:")
        }
    };
    for reason in &answer.reasons {
        text.push_str("\n  ");
        text.push_str(&reason.trim_end().replace('\n', "\n  "));
    }
    if let Some(reload) = answer
        .reload
        .as_ref()
        .filter(|_| answer.takes() == Takes::Reload)
    {
        let changes = super::super::reload::text(reload, true);
        text.push('\n');
        text.push_str(changes.trim_end());
    }
    if needs_anew(answer, args) {
        return Err(Failure::chain(format!(
            "error: {text}\n  = help: nothing is changed; `--anew` does it"
        )));
    }
    output::line(&text)
}

/// True where it takes a word more.
fn needs_anew(answer: &v1::ApplyResponse, args: &Apply) -> bool {
    answer.takes() == Takes::Anew && !answer.taken && !args.anew
}

/// Waits until it stands as it is wanted, or can't.
async fn wait(
    client: &mut Client,
    answer: &v1::ApplyResponse,
    args: &Apply,
) -> Result<v1::CompositionState, Failure> {
    let bar = match args.quiet || args.output == Format::Json {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner(),
    };
    let until = Instant::now() + args.timeout;
    loop {
        let state = state_of(client, &answer.name).await?;
        let Some(state) = state.filter(|state| state.revision == answer.revision) else {
            bar.finish_and_clear();
            return Err(Failure::outside(format!(
                "{}: another change has come after this one",
                answer.name
            )));
        };
        let is_over = matches!(state.state.as_str(), "ready" | "failed" | "over");
        if is_over || Instant::now() >= until {
            bar.finish_and_clear();
            return Ok(state);
        }
        bar.set_message(format!("{}: {}", state.name, state.why));
        bar.tick();
        tokio::time::sleep(LOOK).await;
    }
}

/// What has become of it.
fn end(answer: &v1::ApplyResponse, stands: Option<v1::CompositionState>, args: &Apply) -> Outcome {
    let failed = stands
        .as_ref()
        .and_then(|state| match state.state.as_str() {
            "ready" | "over" => None,
            _ => Some(format!(
                "{} is not as it is wanted ({}): {}",
                state.name, state.state, state.why
            )),
        });
    if args.output == Format::Json {
        output::json(&as_json(answer, stands.as_ref()))?;
        return Ok(match (needs_anew(answer, args), failed) {
            (true, _) => Exit::Chain,
            (false, Some(_)) => Exit::Failed,
            (false, None) => Exit::Done,
        });
    }
    if let Some(why) = failed {
        return Err(Failure::outside(why));
    }
    if let Some(state) = stands {
        output::line(&format!(
            "{} is {}: revision {} runs on {}",
            state.name, state.state, state.running, state.switch
        ))?;
    }
    Ok(Exit::Done)
}

fn as_json(answer: &v1::ApplyResponse, stands: Option<&v1::CompositionState>) -> Value {
    let takes = match answer.takes() {
        Takes::Nothing | Takes::Unspecified => "nothing",
        Takes::Start => "start",
        Takes::Reload => "reload",
        Takes::Anew => "anew",
    };
    let reload = answer.reload.as_ref();
    json!({
        "composition": answer.name,
        "revision": answer.revision,
        "takes": takes,
        "taken": answer.taken,
        "reasons": answer.reasons,
        "reload": reload.map(|reload| super::super::reload::as_json(reload, true)),
        "stands": stands.map(shown::composition),
    })
}
