//! An agent's votes: for each run, which switch has its place ([`weir_control::lease`]), and what
//! switches and agents say to one another about that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_control::lease::{Ask, Tenant, Told, Voter, VoterState, Want};
use weir_packet::Time;

use super::super::clock::Clock;
use super::hello::VERSION;

/// Runs for which an agent votes at most.
const MOST_RUNS: usize = 64;

/// A switch's question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SaidAsk {
    /// Version of all that is said.
    version: u32,
    /// Name of the run.
    run: String,
    /// What switches of one run have in common.
    kind: String,
    asked: u64,
    start: u32,
    want: SaidWant,
    length: u64,
    dead: Option<u32>,
}

/// An agent's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SaidTold {
    /// Version of all that is said.
    version: u32,
    asked: u64,
    start: u32,
    want: SaidWant,
    granted: bool,
    /// Generation and start of the switch that has the place.
    by: Option<(u16, u32)>,
    free: bool,
    newest: u16,
    /// The kind of that switch.
    kind: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SaidWant {
    Look,
    Place(u16),
    Keep(u16),
    Leave(u16),
    Withdraw(u16),
}

impl SaidWant {
    fn of(want: Want) -> SaidWant {
        match want {
            Want::Look => SaidWant::Look,
            Want::Place(generation) => SaidWant::Place(generation),
            Want::Keep(generation) => SaidWant::Keep(generation),
            Want::Leave(generation) => SaidWant::Leave(generation),
            Want::Withdraw(generation) => SaidWant::Withdraw(generation),
        }
    }

    fn want(self) -> Want {
        match self {
            SaidWant::Look => Want::Look,
            SaidWant::Place(generation) => Want::Place(generation),
            SaidWant::Keep(generation) => Want::Keep(generation),
            SaidWant::Leave(generation) => Want::Leave(generation),
            SaidWant::Withdraw(generation) => Want::Withdraw(generation),
        }
    }
}

impl SaidAsk {
    /// The question as octets.
    pub(super) fn octets(ask: &Ask, run: &str, kind: &str) -> Vec<u8> {
        let said = SaidAsk {
            version: VERSION,
            run: run.to_owned(),
            kind: kind.to_owned(),
            asked: ask.asked.0,
            start: ask.start,
            want: SaidWant::of(ask.want),
            length: ask.length,
            dead: ask.dead,
        };
        // Names and numbers only: this can't fail.
        serde_json::to_vec(&said).unwrap_or_default()
    }

    fn ask(&self) -> Ask {
        Ask {
            asked: Time(self.asked),
            start: self.start,
            want: self.want.want(),
            length: self.length,
            dead: self.dead,
        }
    }
}

impl SaidTold {
    /// The answer, and the kind of the switch that has the place; `None` where the octets are none
    /// of this version.
    pub(super) fn read(octets: &[u8]) -> Option<(Told, String)> {
        let said: SaidTold = serde_json::from_slice(octets).ok()?;
        let told = Told {
            asked: Time(said.asked),
            start: said.start,
            want: said.want.want(),
            granted: said.granted,
            by: (said.by).map(|(generation, start)| Tenant { generation, start }),
            free: said.free,
            newest: said.newest,
        };
        (said.version == VERSION).then_some((told, said.kind))
    }
}

struct Vote {
    voter: Voter,
    /// The kind of the last switch that got the place.
    kind: String,
}

/// The votes of an agent that becomes another program, which goes on with them: nothing that it has
/// promised may be forgotten, or its switch would lose the place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptVotes {
    now: u64,
    born: u64,
    of_runs: Vec<KeptVote>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptVote {
    run: String,
    kind: String,
    born: u64,
    last: Option<KeptLease>,
    before: Option<KeptLease>,
    promised_before: u16,
    promised: u16,
    known: u16,
}

/// Generation and start of a tenant, and when its lease ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct KeptLease(u16, u32, u64);

impl KeptLease {
    fn of((tenant, until): (Tenant, Time)) -> KeptLease {
        KeptLease(tenant.generation, tenant.start, until.0)
    }

    fn lease(self) -> (Tenant, Time) {
        let KeptLease(generation, start, until) = self;
        (Tenant { generation, start }, Time(until))
    }
}

impl KeptVote {
    fn of(run: &str, vote: &Vote) -> KeptVote {
        let state = vote.voter.state();
        KeptVote {
            run: run.to_owned(),
            kind: vote.kind.clone(),
            born: state.born.0,
            last: state.last.map(KeptLease::of),
            before: state.before.0.map(KeptLease::of),
            promised_before: state.before.1,
            promised: state.promised,
            known: state.known,
        }
    }

    fn vote(self) -> (String, Vote) {
        let voter = Voter::resume(VoterState {
            born: Time(self.born),
            last: self.last.map(KeptLease::lease),
            before: (self.before.map(KeptLease::lease), self.promised_before),
            promised: self.promised,
            known: self.known,
        });
        let kind = self.kind;
        (self.run, Vote { voter, kind })
    }
}

/// The votes of an agent.
pub(super) struct Votes {
    clock: Clock,
    /// The time when the clock started: that of the program before goes on, but for the time of the
    /// change, by which leases end later.
    begun: u64,
    born: Time,
    of_runs: BTreeMap<String, Vote>,
}

impl Votes {
    pub(super) fn new() -> Votes {
        let clock = Clock::start();
        Votes {
            clock,
            begun: 0,
            born: clock.now(),
            of_runs: BTreeMap::new(),
        }
    }

    /// What the next program goes on with.
    pub(super) fn keep(&self) -> KeptVotes {
        let votes = self.of_runs.iter();
        KeptVotes {
            now: self.now().0,
            born: self.born.0,
            of_runs: votes.map(|(run, vote)| KeptVote::of(run, vote)).collect(),
        }
    }

    /// The votes of the program before.
    pub(super) fn resume(kept: KeptVotes) -> Votes {
        Votes {
            clock: Clock::start(),
            begun: kept.now,
            born: Time(kept.born),
            of_runs: kept.of_runs.into_iter().map(KeptVote::vote).collect(),
        }
    }

    fn now(&self) -> Time {
        self.clock.now().plus(self.begun)
    }

    /// A switch of this generation of a run has a runtime here.
    pub(super) fn know(&mut self, run: &str, generation: u16) {
        if let Some(vote) = self.vote(run) {
            vote.voter.know(generation);
        }
    }

    /// The vote for a run; `None` where there are too many.
    fn vote(&mut self, run: &str) -> Option<&mut Vote> {
        let now = self.now();
        if !self.of_runs.contains_key(run) && !self.make_room(now) {
            return None;
        }
        let vote = self.of_runs.entry(run.to_owned());
        Some(vote.or_insert_with(|| Vote {
            voter: Voter::new(self.born),
            kind: String::new(),
        }))
    }

    /// Answers a question; `None` where it makes no sense, is of another version, or there are votes
    /// for too many runs.
    pub(super) fn hear(&mut self, question: &[u8]) -> Option<Vec<u8>> {
        let said: SaidAsk = serde_json::from_slice(question).ok()?;
        if said.version != VERSION {
            return None;
        }
        let now = self.now();
        let vote = self.vote(&said.run)?;
        let told = vote.voter.hear(now, &said.ask());
        if told.granted {
            vote.kind = said.kind;
        }
        let answer = SaidTold {
            version: VERSION,
            asked: told.asked.0,
            start: told.start,
            want: SaidWant::of(told.want),
            granted: told.granted,
            by: told.by.map(|by| (by.generation, by.start)),
            free: told.free,
            newest: told.newest,
            kind: vote.kind.clone(),
        };
        serde_json::to_vec(&answer).ok()
    }

    /// The generation of another switch of the run that has the place.
    pub(super) fn other(&self, run: &str, generation: u16, start: u32) -> Option<u16> {
        let tenant = self.of_runs.get(run)?.voter.tenant(self.now())?;
        (tenant != Tenant { generation, start }).then_some(tenant.generation)
    }

    /// Forgets runs whose place nobody has, where there are too many. True where there is room.
    fn make_room(&mut self, now: Time) -> bool {
        let votes = &mut self.of_runs;
        if votes.len() >= MOST_RUNS {
            votes.retain(|_, vote| vote.voter.tenant(now).is_some());
        }
        votes.len() < MOST_RUNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(run: &str, start: u32, want: Want) -> Vec<u8> {
        let ask = Ask {
            asked: Time(5),
            start,
            want,
            // The agent has only just started.
            length: 0,
            dead: None,
        };
        SaidAsk::octets(&ask, run, "kind")
    }

    fn ask(votes: &mut Votes, run: &str, start: u32, want: Want) -> (Told, String) {
        let answer = votes.hear(&question(run, start, want)).unwrap();
        SaidTold::read(&answer).unwrap()
    }

    #[test]
    fn each_run_has_a_vote_of_its_own() {
        let mut votes = Votes::new();
        let lasting = |start, want| {
            let ask = Ask {
                asked: Time(5),
                start,
                want,
                length: 60_000_000_000,
                dead: None,
            };
            SaidAsk::octets(&ask, "edge", "kind")
        };
        // It has just started, and does not know what it promised before.
        let answer = votes.hear(&lasting(1, Want::Place(1))).unwrap();
        assert!(!SaidTold::read(&answer).unwrap().0.granted);
        let (told, kind) = ask(&mut votes, "edge", 1, Want::Place(1));
        assert!(told.granted && kind == "kind");
        let answer = votes.hear(&lasting(1, Want::Place(1))).unwrap();
        assert!(SaidTold::read(&answer).unwrap().0.granted);
        assert_eq!(votes.other("edge", 2, 2), Some(1));
        assert_eq!(votes.other("edge", 1, 1), None);
        assert_eq!(votes.other("other", 2, 2), None);
        assert!(ask(&mut votes, "other", 2, Want::Place(1)).0.granted);
        assert!(!ask(&mut votes, "edge", 2, Want::Place(2)).0.granted);
    }

    #[test]
    fn a_runtime_here_of_a_newer_switch_counts() {
        let mut votes = Votes::new();
        votes.know("edge", 3);
        votes.know("edge", 2);
        votes.know("other", 9);
        let answer = votes.hear(&question("edge", 1, Want::Place(3))).unwrap();
        let (told, _) = SaidTold::read(&answer).unwrap();
        assert!(!told.granted && told.newest == 3);
        assert!(ask(&mut votes, "edge", 1, Want::Place(4)).0.granted);
    }

    #[test]
    fn nonsense_is_refused_and_runs_have_a_bound() {
        let mut votes = Votes::new();
        assert!(votes.hear(b"{}").is_none());
        for run in 0..10 * MOST_RUNS {
            ask(&mut votes, &run.to_string(), 1, Want::Look);
        }
        assert!(votes.of_runs.len() <= MOST_RUNS);
    }
}
