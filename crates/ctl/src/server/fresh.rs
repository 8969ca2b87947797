//! An answer that those who ask at once share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

/// The last answer, for as long as it is fresh.
#[derive(Debug)]
pub(super) struct Fresh<T, E> {
    most: Duration,
    /// How often what was answered was said to hold no more.
    age: AtomicU64,
    last: Mutex<Option<Last<T, E>>>,
}

#[derive(Debug)]
struct Last<T, E> {
    age: u64,
    /// When it was asked for, and when the answer was there.
    asked: Instant,
    answered: Instant,
    answer: Result<Arc<T>, E>,
}

impl<T, E: Clone> Fresh<T, E> {
    /// An answer is shared for so long after it was asked for.
    pub(super) fn new(most: Duration) -> Fresh<T, E> {
        Fresh {
            most,
            age: AtomicU64::new(0),
            last: Mutex::new(None),
        }
    }

    /// The last answer, or that of `ask`. One is asked for at a time; those who
    /// wait meanwhile share what comes of it, be it a failure: asked one after the
    /// other, a thread that does not answer would hold up each longer than the one before.
    pub(super) async fn get(&self, ask: impl Future<Output = Result<T, E>>) -> Result<Arc<T>, E> {
        let came = Instant::now();
        let age = self.age.load(Ordering::Acquire);
        let mut place = self.last.lock().await;
        if let Some(last) = &*place
            && last.age >= age
            && (last.answered > came || last.answer.is_ok() && last.asked.elapsed() < self.most)
        {
            return last.answer.clone();
        }
        let age = self.age.load(Ordering::Acquire);
        let asked = Instant::now();
        let answer = ask.await.map(Arc::new);
        *place = Some(Last {
            age,
            asked,
            answered: Instant::now(),
            answer: answer.clone(),
        });
        answer
    }

    /// Makes the stored answer stale, and the one that is being fetched.
    pub(super) fn forget(&self) {
        self.age.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn who_asks_at_once_is_given_one_answer() {
        let asked = Cell::new(0);
        let ask = || async {
            asked.set(asked.get() + 1);
            Ok::<u32, ()>(asked.get())
        };
        block_on(async {
            let fresh = Fresh::new(Duration::from_secs(3_600));
            assert_eq!(fresh.get(async { Err(()) }).await, Err(()));
            for _ in 0..10 {
                assert_eq!(fresh.get(ask()).await.as_deref(), Ok(&1));
            }
            fresh.forget();
            assert_eq!(fresh.get(ask()).await.as_deref(), Ok(&2));
            let old = Fresh::new(Duration::ZERO);
            for number in 3..6 {
                assert_eq!(old.get(ask()).await.as_deref(), Ok(&number));
            }
        });
    }

    #[test]
    fn an_answer_is_as_old_as_the_question() {
        let asked = Cell::new(0);
        let most = Duration::from_millis(50);
        block_on(async {
            let fresh = Fresh::new(most);
            for number in 1..4 {
                let slow = async {
                    asked.set(asked.get() + 1);
                    tokio::time::sleep(most).await;
                    Ok::<u32, ()>(asked.get())
                };
                assert_eq!(fresh.get(slow).await.as_deref(), Ok(&number));
            }
        });
    }

    #[test]
    fn those_who_wait_share_a_failure_and_nobody_later_does() {
        let asked = Arc::new(AtomicU64::new(0));
        let fresh = Arc::new(Fresh::<(), u64>::new(Duration::from_secs(3_600)));
        let ask = || {
            let (asked, fresh) = (asked.clone(), fresh.clone());
            tokio::spawn(async move {
                let slow = async {
                    let number = asked.fetch_add(1, Ordering::Relaxed) + 1;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Err(number)
                };
                fresh.get(slow).await
            })
        };
        block_on(async {
            // On one thread all of them have asked before the first is answered.
            let all: Vec<_> = (0..10).map(|_| ask()).collect();
            for one in all {
                assert_eq!(one.await.unwrap(), Err(1));
            }
            assert_eq!(ask().await.unwrap(), Err(2));
            // Later callers do not get a stale answer, and `forget` waits for none.
            let before = ask();
            tokio::task::yield_now().await;
            fresh.forget();
            let after = ask();
            assert_eq!(before.await.unwrap(), Err(3));
            assert_eq!(after.await.unwrap(), Err(4));
        });
    }
}
