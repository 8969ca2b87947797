//! The calls of the service.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use weir_api::v1;
use weir_api::v1::coordinator_server::Coordinator;

use super::agents::Told;
use super::caller::{Caller, Need};
use super::shared::{MOST_WAITING, Shared};

/// The service of a coordinator.
pub(super) struct Service(pub(super) Arc<Shared>);

#[tonic::async_trait]
impl Coordinator for Service {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        Caller::of(&request, Need::Change)?;
        let applied = self.0.clone().apply(request.into_inner());
        to_its_end(applied).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        Caller::of(&request, Need::Change)?;
        let deleted = self.0.clone().delete(request.into_inner().name);
        to_its_end(deleted).await
    }

    async fn list_compositions(
        &self,
        request: Request<v1::ListCompositionsRequest>,
    ) -> Result<Response<v1::ListCompositionsResponse>, Status> {
        Caller::of(&request, Need::View)?;
        let compositions = self.0.state().compositions(self.0.now());
        Ok(Response::new(v1::ListCompositionsResponse { compositions }))
    }

    async fn get_files(
        &self,
        request: Request<v1::GetFilesRequest>,
    ) -> Result<Response<v1::GetFilesResponse>, Status> {
        Caller::of(&request, Need::View)?;
        let name = request.into_inner().name;
        let state = self.0.state();
        let taken = state.taken(&name);
        let taken =
            taken.ok_or_else(|| Status::not_found(format!("there is no composition `{name}`")))?;
        Ok(Response::new(v1::GetFilesResponse {
            revision: taken.revision,
            files: Some(taken.wanted.files.clone()),
        }))
    }

    async fn list_machines(
        &self,
        request: Request<v1::ListMachinesRequest>,
    ) -> Result<Response<v1::ListMachinesResponse>, Status> {
        Caller::of(&request, Need::View)?;
        let machines = self.0.state().machines(self.0.now());
        Ok(Response::new(v1::ListMachinesResponse { machines }))
    }

    type WatchChangesStream = Told<v1::Change>;

    async fn watch_changes(
        &self,
        request: Request<v1::WatchChangesRequest>,
    ) -> Result<Response<Told<v1::Change>>, Status> {
        Caller::of(&request, Need::View)?;
        let v1::WatchChangesRequest {
            mut after,
            follow,
            composition,
        } = request.into_inner();
        let (sender, changes) = mpsc::channel(MOST_WAITING);
        let (shared, mut noted) = (self.0.clone(), self.0.noted.subscribe());
        tokio::spawn(async move {
            loop {
                let list = shared.state().changes(after, &composition);
                for change in list {
                    after = change.number;
                    if sender.send(Ok(change)).await.is_err() {
                        return;
                    }
                }
                if !follow {
                    return;
                }
                let more = tokio::select! {
                    changed = noted.changed() => changed.is_ok(),
                    () = sender.closed() => false,
                };
                if !more {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(changes)))
    }

    async fn get_bill(
        &self,
        request: Request<v1::GetBillRequest>,
    ) -> Result<Response<v1::GetBillResponse>, Status> {
        Caller::of(&request, Need::View)?;
        let bill = self.0.clone().bill(request.into_inner()).await?;
        Ok(Response::new(bill))
    }

    type AttendStream = Told<v1::HostTold>;

    async fn attend(
        &self,
        request: Request<Streaming<v1::HostSaid>>,
    ) -> Result<Response<Told<v1::HostTold>>, Status> {
        self.0.clone().attend(request).await
    }

    type CarryStream = Told<v1::Carried>;

    async fn carry(
        &self,
        request: Request<Streaming<v1::Carried>>,
    ) -> Result<Response<Told<v1::Carried>>, Status> {
        self.0.clone().carried(request).await
    }
}

/// Carries a change out also where the client goes: none is left half done.
async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<Response<T>, Status> {
    match tokio::spawn(change).await {
        Ok(answer) => answer.map(Response::new),
        Err(_) => Err(Status::internal("the change failed")),
    }
}
