//! Commands that ask a coordinator for its compositions.

mod apply;
mod coordinators;
mod delete;
mod files;
mod shown;

use weir_api::v1;
use weir_api::v1::coordinator_client::CoordinatorClient;
use weir_coordinator::Access;
use weir_coordinator::files::MOST_MESSAGE;

use crate::exit::Failure;

pub(crate) use apply::{apply, diff};
pub(crate) use coordinators::coordinators;
pub(crate) use delete::delete;
pub(crate) use shown::{describe, get};

type Client = CoordinatorClient<tonic::transport::Channel>;

/// Connects to a coordinator, and asks it.
///
/// # Errors
///
/// It can't be reached, or what came of asking.
pub(super) fn ask<T, F>(access: &Access, question: impl FnOnce(Client) -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    super::on_this_thread(async {
        let channel = access.connect(None).await.map_err(|why| {
            Failure::outside(format!(
                "no coordinator: {why}; name one with `--coordinator`, or start one with `weir coordinator`"
            ))
        })?;
        let client = CoordinatorClient::new(channel)
            .max_decoding_message_size(MOST_MESSAGE)
            .max_encoding_message_size(MOST_MESSAGE);
        question(client).await
    })
}

/// The failure for an error status of a coordinator.
pub(super) fn failure(status: &tonic::Status) -> Failure {
    match status.code() {
        tonic::Code::Unavailable | tonic::Code::Unknown => Failure::outside(format!(
            "the coordinator has gone, or was started anew: {}; once it is there, `weir describe` tells \
             what it has taken, and the same command may be given again",
            status.message()
        )),
        _ => Failure::outside(status.message()),
    }
}

/// How a composition stands; `None` where there is none of the name.
async fn state_of(
    client: &mut Client,
    name: &str,
) -> Result<Option<v1::CompositionState>, Failure> {
    let listed = client
        .list_compositions(v1::ListCompositionsRequest {})
        .await;
    let listed = listed.map_err(|status| failure(&status))?.into_inner();
    let mut all = listed.compositions.into_iter();
    Ok(all.find(|composition| composition.name == name))
}
