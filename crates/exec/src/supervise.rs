//! Starts the threads of a run, waits until they are ready, and joins them.

use std::any::Any;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cores;
use crate::error::ExecError;
use crate::node::{Node, Round};
use crate::park::{Parker, Parks, Wakers};
use crate::worker::{self, Nodes};

/// Milliseconds to wait, after a thread gave up, for the one that made it give
/// up: a panic takes longer than the end of the queue that it causes.
const PATIENCE: u32 = 1_000;

/// A thread says by it that its memory is reserved and its nodes can work.
#[derive(Debug)]
struct Ready {
    ready: Arc<AtomicBool>,
    wakers: Wakers,
    place: usize,
}

impl Ready {
    /// Says so, and wakes all other threads.
    fn set(&self) {
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

/// Threads, each of which leaves a `T` behind.
#[derive(Debug)]
struct Threads<T> {
    wakers: Wakers,
    threads: Vec<Thread<T>>,
    /// As if the machine had no room for more.
    #[cfg(test)]
    most: usize,
}

impl<T: Send + 'static> Threads<T> {
    /// No threads yet. The calling thread has the first of the wakers.
    fn new(wakers: &Wakers) -> Threads<T> {
        Threads {
            wakers: wakers.clone(),
            threads: Vec::new(),
            #[cfg(test)]
            most: usize::MAX,
        }
    }

    /// Starts one more thread, kept on `core`, with the waker `place`. `name`
    /// is for people. Gives the thread's number, from 0.
    ///
    /// # Errors
    ///
    /// The machine has no thread left.
    fn start(
        &mut self,
        name: String,
        core: Option<usize>,
        place: usize,
        work: impl FnOnce(Ready) -> Result<T, String> + Send + 'static,
    ) -> Result<usize, ExecError> {
        #[cfg(test)]
        if self.threads.len() >= self.most {
            return Err(ExecError("can't start a thread: none is left".to_owned()));
        }
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
    fn started(&self) -> usize {
        self.threads.len()
    }

    /// True once a thread is ready. Threads that were never started are not.
    fn is_ready(&self, number: usize) -> bool {
        let thread = self.threads.get(number);
        thread.is_some_and(|thread| thread.ready.load(Ordering::Acquire))
    }

    /// True once all are ready.
    fn all_ready(&self) -> bool {
        (0..self.threads.len()).all(|number| self.is_ready(number))
    }

    /// True where all threads are joined.
    fn all_over(&self) -> bool {
        self.threads.iter().all(|thread| thread.handle.is_none())
    }

    /// Joins the threads that have ended since the last call, each for itself:
    /// gives their numbers with what they left behind, or why there is nothing.
    fn join_each(&mut self) -> Vec<(usize, Result<T, ExecError>)> {
        let mut ended = Vec::new();
        for (number, thread) in self.threads.iter_mut().enumerate() {
            if thread.handle.as_ref().is_some_and(JoinHandle::is_finished)
                && let Some(handle) = thread.handle.take()
            {
                ended.push((number, left_by(&thread.name, handle)));
            }
        }
        ended
    }

    /// Joins the threads that have ended since the last call; gives their
    /// numbers with what they left behind.
    ///
    /// # Errors
    ///
    /// A thread that panicked, or gave up.
    fn join_ended(&mut self) -> Result<Vec<(usize, T)>, ExecError> {
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

/// Makes a node, on its thread.
type Make<N> = Box<dyn FnOnce() -> Result<N, String> + Send>;

/// A thread of a team, and its nodes by their numbers.
struct Placed<N: Node> {
    /// Number of the thread in the placement.
    thread: usize,
    core: Option<usize>,
    name: String,
    nodes: Vec<usize>,
    /// Until it is started.
    make: Vec<Make<N>>,
}

/// All nodes of one kind of a run, on the threads that a placement gives them.
/// Those of thread 0 are stepped by the calling thread ([`Team::round`]).
pub struct Team<N: Node> {
    threads: Threads<Vec<N::Report>>,
    /// Started threads, in the order of `threads`; then those to be started.
    placed: Vec<Placed<N>>,
    local: Option<Nodes<N>>,
    local_nodes: Vec<usize>,
    /// Nodes so far.
    count: usize,
}

impl<N: Node> fmt::Debug for Team<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("nodes", &self.count)
            .finish_non_exhaustive()
    }
}

impl<N> Team<N>
where
    N: Node + 'static,
    N::Report: Send,
{
    /// Without nodes.
    pub fn new(wakers: &Wakers) -> Team<N> {
        Team {
            threads: Threads::new(wakers),
            placed: Vec::new(),
            local: None,
            local_nodes: Vec::new(),
            count: 0,
        }
    }

    /// Places a node on a thread that is not started yet. The thread has the name
    /// of its first node. Gives the node's number, from 0.
    pub fn place(
        &mut self,
        thread: usize,
        core: Option<usize>,
        name: String,
        make: impl FnOnce() -> Result<N, String> + Send + 'static,
    ) -> usize {
        let number = self.count;
        self.count += 1;
        let started = self.threads.started();
        let waiting = self.placed.iter_mut().skip(started);
        let mut waiting = waiting.filter(|placed| placed.thread == thread);
        if let Some(placed) = waiting.next() {
            placed.nodes.push(number);
            placed.make.push(Box::new(make));
            return number;
        }
        self.placed.push(Placed {
            thread,
            core,
            name,
            nodes: vec![number],
            make: vec![Box::new(make)],
        });
        number
    }

    /// Starts the threads whose nodes were placed since the last call. `park`
    /// gives each its parker.
    ///
    /// # Errors
    ///
    /// A node of the calling thread that can't be made; the machine has no thread
    /// left. Nodes that were placed and did not start are forgotten ([`Team::has`]).
    pub fn start(&mut self, park: impl Fn(usize) -> Parker) -> Result<(), ExecError> {
        let result = self.start_placed(park);
        // Started threads and `placed` go side by side.
        self.placed.truncate(self.threads.started());
        result
    }

    fn start_placed(&mut self, park: impl Fn(usize) -> Parker) -> Result<(), ExecError> {
        let started = self.threads.started();
        if let Some(at) = self.placed.iter().position(|placed| placed.thread == 0) {
            let placed = self.placed.remove(at);
            let nodes = placed.make.into_iter().map(|make| make());
            let nodes: Result<Vec<N>, String> = nodes.collect();
            self.local = Some(Nodes::new(nodes.map_err(ExecError)?));
            self.local_nodes = placed.nodes;
        }
        for placed in self.placed.iter_mut().skip(started) {
            let make = std::mem::take(&mut placed.make);
            let park = park(placed.thread);
            let work = move |ready: Ready| {
                let nodes = make.into_iter().map(|make| make());
                let nodes: Result<Vec<N>, String> = nodes.collect();
                let nodes = nodes?;
                ready.set();
                worker::run(nodes, park)
            };
            self.threads
                .start(placed.name.clone(), placed.core, placed.thread, work)?;
        }
        Ok(())
    }

    /// True where the node was started, or is to be by the next [`Team::start`]; it may be
    /// over.
    pub fn has(&self, node: usize) -> bool {
        let mut placed = self.placed.iter();
        self.local_nodes.contains(&node) || placed.any(|placed| placed.nodes.contains(&node))
    }

    /// True once the thread of a node is ready.
    pub fn is_ready(&self, node: usize) -> bool {
        if self.local_nodes.contains(&node) {
            return true;
        }
        let mut placed = self.placed.iter();
        let at = placed.position(|placed| placed.nodes.contains(&node));
        at.is_some_and(|at| self.threads.is_ready(at))
    }

    /// True once all threads are ready.
    pub fn all_ready(&self) -> bool {
        self.threads.all_ready()
    }

    /// Steps the nodes of the calling thread.
    ///
    /// # Errors
    ///
    /// One of them can't go on.
    pub fn round(&mut self) -> Result<Round, ExecError> {
        let Some(local) = &mut self.local else {
            return Ok(Round::default());
        };
        let round = local.round().map_err(ExecError)?;
        Ok(round.unwrap_or_default())
    }

    /// True while a thread of others is not joined: frames are to be kept for it.
    pub fn has_threads(&self) -> bool {
        !self.threads.all_over()
    }

    /// True where all nodes are over and their reports were given.
    pub fn all_over(&self) -> bool {
        self.local.is_none() && self.threads.all_over()
    }

    /// The nodes whose threads have ended since the last call, by their numbers,
    /// each with its report, or why there is none: for a run that goes on without
    /// it.
    pub fn join_each(&mut self) -> Vec<(usize, Result<N::Report, ExecError>)> {
        let mut ended = Vec::new();
        for (node, report) in self.join_local() {
            ended.push((node, Ok(report)));
        }
        for (thread, left) in self.threads.join_each() {
            let Some(placed) = self.placed.get(thread) else {
                continue;
            };
            let nodes = placed.nodes.iter().copied();
            match left {
                Ok(reports) => ended.extend(nodes.zip(reports.into_iter().map(Ok))),
                Err(why) => ended.extend(nodes.map(|node| (node, Err(why.clone())))),
            }
        }
        ended
    }

    /// The reports of the calling thread's nodes, once all of them are over.
    fn join_local(&mut self) -> Vec<(usize, N::Report)> {
        if self.local.as_ref().is_some_and(Nodes::all_over)
            && let Some(local) = self.local.take()
        {
            let nodes = self.local_nodes.iter().copied();
            return nodes.zip(local.into_reports()).collect();
        }
        Vec::new()
    }

    /// The reports of the nodes whose threads have ended since the last call,
    /// with the nodes' numbers.
    ///
    /// # Errors
    ///
    /// A thread that panicked, or gave up.
    pub fn join_ended(&mut self) -> Result<Vec<(usize, N::Report)>, ExecError> {
        let mut ended = self.join_local();
        for (thread, reports) in self.threads.join_ended()? {
            let nodes = self.placed.get(thread).map(|placed| &placed.nodes);
            ended.extend(nodes.into_iter().flatten().copied().zip(reports));
        }
        Ok(ended)
    }
}

/// The inputs that the nodes of the calling thread read.
impl<N: Node> Parks for Team<N> {
    fn prepare_park(&mut self) -> bool {
        self.local.as_mut().is_none_or(Parks::prepare_park)
    }

    fn unpark(&mut self) {
        if let Some(local) = &mut self.local {
            local.unpark();
        }
    }

    fn descriptors<'a>(&'a self, into: &mut Vec<BorrowedFd<'a>>) {
        if let Some(local) = &self.local {
            local.descriptors(into);
        }
    }

    fn longest(&self) -> Duration {
        let local = self.local.as_ref();
        local.map_or(Duration::MAX, Parks::longest)
    }
}

/// Result of a thread that is over.
fn left_by<T>(name: &str, handle: JoinHandle<Result<T, String>>) -> Result<T, ExecError> {
    match handle.join() {
        Ok(left) => left.map_err(|why| ExecError(format!("{name}: {why}"))),
        Err(panic) => {
            let cause = cause_of(panic.as_ref());
            Err(ExecError(format!("{name} has died of a bug: {cause}")))
        }
    }
}

/// Message of a thread that panicked.
pub fn cause_of(panic: &(dyn Any + Send)) -> String {
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
        let gives_up = |_| Err("the next stage has ended".to_owned());
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

    /// Adds what it is told to, twice.
    struct Twice {
        number: u32,
        left: u32,
    }

    impl Node for Twice {
        type Report = (u32, std::thread::ThreadId);

        fn step(&mut self) -> Result<Round, String> {
            self.left -= 1;
            Ok(Round {
                worked: true,
                over: self.left == 0,
                ..Round::default()
            })
        }

        fn finish(self) -> Result<Self::Report, String> {
            Ok((2 * self.number, std::thread::current().id()))
        }
    }

    #[test]
    fn the_nodes_of_a_team_run_where_they_were_placed() {
        let wakers = Wakers::new(2).unwrap();
        let mut team = Team::new(&wakers);
        for (number, thread) in [1, 0, 2, 1, 0].into_iter().enumerate() {
            let number = number as u32;
            let make = move || Ok(Twice { number, left: 3 });
            team.place(thread, None, format!("node {number}"), make);
        }
        let policy = weir_io::IdlePolicy::default();
        team.start(|thread| Parker::new(&wakers, thread, policy))
            .unwrap();
        let mut ended = Vec::new();
        while !team.all_over() {
            team.round().unwrap();
            ended.extend(team.join_ended().unwrap());
        }
        ended.sort_by_key(|(number, _)| *number);
        let reports: Vec<u32> = ended.iter().map(|(_, (twice, _))| *twice).collect();
        assert_eq!(reports, [0, 2, 4, 6, 8]);
        let thread = |node: usize| ended[node].1.1;
        assert_eq!(thread(0), thread(3));
        assert_eq!(thread(1), std::thread::current().id());
        assert_eq!(thread(1), thread(4));
        assert!(thread(2) != thread(0) && thread(2) != thread(1));
    }

    /// What is placed later starts as if the failed ones had never been placed.
    #[test]
    fn nodes_whose_thread_does_not_start_are_forgotten() {
        let wakers = Wakers::new(3).unwrap();
        let policy = weir_io::IdlePolicy::default();
        let park = |thread| Parker::new(&wakers, thread, policy);
        let mut team = Team::new(&wakers);
        let place = |team: &mut Team<Twice>, thread, number| {
            let make = move || Ok(Twice { number, left: 3 });
            team.place(thread, None, format!("node {number}"), make)
        };
        let nodes = [1, 2, 3].map(|thread| place(&mut team, thread, thread as u32));
        team.threads.most = 1;
        let error = team.start(park).unwrap_err();
        assert_eq!(error.0, "can't start a thread: none is left");
        assert_eq!(nodes.map(|node| team.has(node)), [true, false, false]);

        team.threads.most = 2;
        let again = place(&mut team, 2, 7);
        team.start(park).unwrap();
        assert!(team.has(again));
        let mut ended = Vec::new();
        while !team.all_over() {
            ended.extend(team.join_each());
        }
        let mut reports: Vec<(usize, u32)> = ended
            .into_iter()
            .map(|(node, report)| (node, report.unwrap().0))
            .collect();
        reports.sort_unstable();
        assert_eq!(reports, [(nodes[0], 2), (again, 14)]);
        assert!(team.is_ready(again) && !team.is_ready(nodes[1]));
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
