//! Questions to an instance that may have too much to do for an answer.

use std::time::{Duration, Instant};

use tonic::{Code, Response, Status};

use crate::exit::Failure;

use super::super::{Client, failure};

/// What it says then.
const BUSY: [Code; 2] = [Code::DeadlineExceeded, Code::ResourceExhausted];
/// When it is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// Asks for so long at most where the instance has too much to do.
pub(super) async fn patiently<T>(
    client: &mut Client,
    timeout: Duration,
    mut ask: impl AsyncFnMut(&mut Client) -> Result<Response<T>, Status>,
) -> Result<T, Failure> {
    let until = Instant::now() + timeout;
    loop {
        match ask(client).await {
            Ok(answer) => return Ok(answer.into_inner()),
            Err(status) if BUSY.contains(&status.code()) && Instant::now() < until => {
                tokio::time::sleep(AGAIN).await;
            }
            Err(status) => return Err(failure(&status)),
        }
    }
}
