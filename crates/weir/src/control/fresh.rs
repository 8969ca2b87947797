//! An answer that those who ask at once share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// The last answer, for as long as it is fresh.
#[derive(Debug)]
pub(super) struct Fresh<T> {
    most: Duration,
    last: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Fresh<T> {
    /// An answer is shared for so long.
    pub(super) fn new(most: Duration) -> Fresh<T> {
        Fresh {
            most,
            last: Mutex::new(None),
        }
    }

    /// The last answer, or that of `ask`. One is asked for at a time.
    pub(super) async fn get<E>(
        &self,
        ask: impl Future<Output = Result<T, E>>,
    ) -> Result<Arc<T>, E> {
        let mut last = self.last.lock().await;
        if let Some((when, answer)) = &*last
            && when.elapsed() < self.most
        {
            return Ok(Arc::clone(answer));
        }
        let answer = Arc::new(ask.await?);
        *last = Some((Instant::now(), Arc::clone(&answer)));
        Ok(answer)
    }

    /// What was answered holds no more.
    pub(super) async fn forget(&self) {
        *self.last.lock().await = None;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn who_asks_at_once_is_given_one_answer() {
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            Ok::<u32, ()>(asked.get())
        };
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        runtime.block_on(async {
            let fresh = Fresh::new(Duration::from_secs(3_600));
            assert_eq!(fresh.get(async { Err(()) }).await, Err(()));
            for _ in 0..10 {
                assert_eq!(fresh.get(ask()).await.as_deref(), Ok(&1));
            }
            fresh.forget().await;
            assert_eq!(fresh.get(ask()).await.as_deref(), Ok(&2));
            let old = Fresh::new(Duration::ZERO);
            for number in 3..6 {
                assert_eq!(old.get(ask()).await.as_deref(), Ok(&number));
            }
        });
    }
}
