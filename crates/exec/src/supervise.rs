//! Starts the threads of a run, waits until they are ready, and joins them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::node::Node;
use crate::park::{Parker, Wakers};
use crate::{cores, worker};

/// Milliseconds to wait, after a thread gave up, for the one that made it give
/// up: a panic takes longer than the end of the queue that it causes.
const PATIENCE: u32 = 100;

/// Why what runs can't go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError(pub String);

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ExecError {}

/// A thread says by it that its memory is reserved and its nodes can work.
#[derive(Debug)]
pub struct Ready {
    ready: Arc<AtomicBool>,
    wakers: Wakers,
    place: usize,
}

impl Ready {
    /// Says so, and wakes all other threads.
    pub fn set(&self) {
        self.ready.store(true, Ordering::Release);
        self.wakers.wake_others(self.place);
    }
}

/// Wakes the other threads when a thread ends, also by a panic.
struct WakeAtEnd(Wakers, usize);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake_others(self.1);
    }
}

#[derive(Debug)]
struct Thread<T> {
    name: String,
    ready: Arc<AtomicBool>,
    /// Until it was joined.
    handle: Option<JoinHandle<Result<T, String>>>,
}

/// The threads of a run. Each leaves a `T` behind.
#[derive(Debug)]
pub struct Threads<T> {
    wakers: Wakers,
    threads: Vec<Thread<T>>,
}

impl<T: Send + 'static> Threads<T> {
    /// No threads yet. The calling thread has the first of the wakers.
    pub fn new(wakers: &Wakers) -> Threads<T> {
        Threads {
            wakers: wakers.clone(),
            threads: Vec::new(),
        }
    }

    /// Starts one more thread, kept on `core`, with the waker `place`. `name`
    /// is for people. Gives the thread's number, from 0.
    ///
    /// # Errors
    ///
    /// The machine has no thread left.
    pub fn start(
        &mut self,
        name: String,
        core: Option<usize>,
        place: usize,
        work: impl FnOnce(Ready) -> Result<T, String> + Send + 'static,
    ) -> Result<usize, ExecError> {
        let ready = Arc::new(AtomicBool::new(false));
        let says = Ready {
            ready: Arc::clone(&ready),
            wakers: self.wakers.clone(),
            place,
        };
        let at_end = WakeAtEnd(self.wakers.clone(), place);
        let run = move || {
            let _at_end = at_end;
            if let Some(core) = core {
                cores::pin(core)?;
            }
            work(says)
        };
        let handle = std::thread::Builder::new()
            .name(name.clone())
            .spawn(run)
            .map_err(|error| ExecError(format!("can't start a thread: {error}")))?;
        self.threads.push(Thread {
            name,
            ready,
            handle: Some(handle),
        });
        Ok(self.threads.len() - 1)
    }

    /// How many were started.
    pub fn started(&self) -> usize {
        self.threads.len()
    }

    /// True once a thread is ready. Threads that were never started are not.
    pub fn is_ready(&self, number: usize) -> bool {
        let thread = self.threads.get(number);
        thread.is_some_and(|thread| thread.ready.load(Ordering::Acquire))
    }

    /// True once all are ready.
    pub fn all_ready(&self) -> bool {
        (0..self.threads.len()).all(|number| self.is_ready(number))
    }

    /// True while a thread was started and is not joined.
    pub fn runs(&self, number: usize) -> bool {
        let thread = self.threads.get(number);
        thread.is_some_and(|thread| thread.handle.is_some())
    }

    /// True where all threads are joined.
    pub fn all_over(&self) -> bool {
        self.threads.iter().all(|thread| thread.handle.is_none())
    }

    /// Joins the threads that have ended since the last call; gives their
    /// numbers with what they left behind.
    ///
    /// # Errors
    ///
    /// A thread that panicked, or gave up.
    pub fn join_ended(&mut self) -> Result<Vec<(usize, T)>, ExecError> {
        let mut ended = Vec::new();
        let Some(gave_up) = self.join_some(&mut ended)? else {
            return Ok(ended);
        };
        // A thread gives up where the one behind it is gone, which may be about
        // to panic: that is the cause.
        for _ in 0..PATIENCE {
            if self.all_over() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
            self.join_some(&mut ended)?;
        }
        Err(gave_up)
    }

    /// Gives the first that gave up.
    fn join_some(&mut self, ended: &mut Vec<(usize, T)>) -> Result<Option<ExecError>, ExecError> {
        let mut gave_up = None;
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if !thread.handle.as_ref().is_some_and(JoinHandle::is_finished) {
                continue;
            }
            let Some(handle) = thread.handle.take() else {
                continue;
            };
            let name = &thread.name;
            match handle.join() {
                Ok(Ok(left)) => ended.push((number, left)),
                Ok(Err(why)) => {
                    gave_up = gave_up.or(Some(ExecError(format!("{name}: {why}"))));
                }
                Err(panic) => {
                    let cause = cause_of(panic.as_ref());
                    return Err(ExecError(format!("{name} has died of a bug: {cause}")));
                }
            }
        }
        Ok(gave_up)
    }
}

impl<R: Send + 'static> Threads<Vec<R>> {
    /// Starts a worker: its nodes are made on its thread, so that their memory
    /// is reserved there.
    ///
    /// # Errors
    ///
    /// As [`Threads::start`].
    pub fn start_worker<N: Node<Report = R>>(
        &mut self,
        name: String,
        core: Option<usize>,
        park: Parker,
        make: impl FnOnce() -> Result<Vec<N>, String> + Send + 'static,
    ) -> Result<usize, ExecError> {
        let place = park.place();
        self.start(name, core, place, move |ready| {
            let nodes = make()?;
            ready.set();
            worker::run(nodes, park)
        })
    }
}

/// What a thread that panicked said.
fn cause_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it did not say what").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(threads: &mut Threads<u32>) -> Result<Vec<(usize, u32)>, ExecError> {
        let mut all = Vec::new();
        while !threads.all_over() {
            all.extend(threads.join_ended()?);
            std::thread::sleep(Duration::from_millis(1));
        }
        all.sort_unstable();
        Ok(all)
    }

    #[test]
    fn threads_are_ready_when_they_say_so_and_leave_their_reports() {
        let wakers = Wakers::new(2).unwrap();
        let mut threads = Threads::new(&wakers);
        let (go, wait_for) = std::sync::mpsc::channel::<()>();
        let work = move |ready: Ready| {
            ready.set();
            wait_for.recv().map_err(|e| e.to_string())?;
            Ok(7)
        };
        threads.start("a".to_owned(), None, 1, work).unwrap();
        threads.start("b".to_owned(), None, 2, |_| Ok(8)).unwrap();
        while !threads.is_ready(0) {
            std::thread::yield_now();
        }
        assert!(!threads.all_ready(), "b never says so");
        go.send(()).unwrap();
        assert_eq!(wait(&mut threads), Ok(vec![(0, 7), (1, 8)]));
    }

    /// The one that gave up is joined first: the other sleeps before it panics.
    #[test]
    fn a_panic_is_told_before_what_it_caused() {
        let wakers = Wakers::new(2).unwrap();
        let mut threads = Threads::<u32>::new(&wakers);
        let gives_up = |_| Err("the stage behind it is gone".to_owned());
        threads
            .start("first".to_owned(), None, 1, gives_up)
            .unwrap();
        let panics = |_| {
            std::thread::sleep(Duration::from_millis(20));
            panic!("a planted bug");
        };
        threads.start("second".to_owned(), None, 2, panics).unwrap();
        let error = wait(&mut threads).unwrap_err();
        assert_eq!(error.0, "second has died of a bug: a planted bug");
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error_of_the_thread() {
        let wakers = Wakers::new(1).unwrap();
        let mut threads = Threads::new(&wakers);
        let core = Some(1_000_000);
        threads.start("a".to_owned(), core, 1, |_| Ok(1)).unwrap();
        let error = wait(&mut threads).unwrap_err();
        assert!(error.0.contains("core 1000000"), "{error}");
    }
}
