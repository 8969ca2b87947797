//! What has to hold at each step of a run.

use std::collections::BTreeMap;
use std::fmt;

use weir_control::lease::Tenant;

/// What leases promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// At no time do two contenders hold the place.
    One,
    /// A tenant's generation is newer than those of all tenants before it. Voters forget when
    /// they die: it is promised as long as each majority has a voter that knows of the one before.
    Generation,
    /// A tenant's lease ends before the promises of a majority of voters.
    Promise,
    /// When faults are over, somebody has the place within a bound, and keeps it.
    Progress,
    /// Nobody takes the place from a tenant that reaches a majority.
    Undisturbed,
}

impl Rule {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::One => "one-tenant",
            Rule::Generation => "generation",
            Rule::Promise => "promise",
            Rule::Progress => "progress",
            Rule::Undisturbed => "undisturbed",
        }
    }
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    rule: Rule,
    at: u64,
    text: String,
}

impl Violation {
    pub(super) fn new(rule: Rule, at: u64, text: impl Into<String>) -> Violation {
        Violation {
            rule,
            at,
            text: text.into(),
        }
    }

    /// The rule.
    pub fn rule(&self) -> Rule {
        self.rule
    }

    /// Virtual time in ns.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// What happened.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, text) = (self.rule.name(), &self.text);
        write!(f, "{rule} at {} us: {text}", self.at / 1_000)
    }
}

/// A contender that holds the place at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) tenant: Tenant,
    /// True time of the end of its lease.
    pub(super) until: u64,
}

/// Of a voter: which of its lives it is in, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) number: u32,
    pub(super) since: u64,
    pub(super) dead: bool,
}

/// A tenant, and what is known of it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The life of each voter in which it promised it the place, last.
    promised: BTreeMap<usize, u32>,
    /// When it had the place first.
    held: Option<u64>,
}

/// What the rules need of the past.
#[derive(Clone, Debug)]
pub(super) struct Check {
    majority: usize,
    length: u64,
    /// Voters that start hear of the newest generation that a contender has held.
    told: bool,
    lives: Vec<Life>,
    /// By start and generation.
    known: BTreeMap<(u32, u16), Known>,
    last: Option<Holder>,
    /// Since when nothing fails, and by when somebody has the place.
    calm: Option<(u64, u64)>,
    /// Who must not lose the place any more, and under which rule.
    settled: Option<(Tenant, Rule)>,
    /// Since when it must not, and faults are over.
    settled_since: Option<u64>,
    /// When somebody had the place after the end of faults.
    first: Option<u64>,
    tenants: u64,
}

impl Check {
    pub(super) fn new(voters: usize, length: u64, told: bool) -> Check {
        Check {
            majority: voters / 2 + 1,
            length,
            told,
            lives: vec![
                Life {
                    number: 0,
                    since: 0,
                    dead: false,
                };
                voters
            ],
            known: BTreeMap::new(),
            last: None,
            calm: None,
            settled: None,
            settled_since: None,
            first: None,
            tenants: 0,
        }
    }

    /// A voter has died.
    pub(super) fn dies(&mut self, voter: usize) {
        if let Some(life) = self.lives.get_mut(voter) {
            life.dead = true;
        }
    }

    /// A voter has started again.
    pub(super) fn starts(&mut self, now: u64, voter: usize) {
        if let Some(life) = self.lives.get_mut(voter) {
            *life = Life {
                number: life.number + 1,
                since: now,
                dead: false,
            };
        }
    }

    /// A voter promises the place.
    pub(super) fn promises(&mut self, voter: usize, tenant: Tenant) {
        let Some(life) = self.lives.get(voter) else {
            return;
        };
        let known = self.known.entry((tenant.start, tenant.generation));
        known.or_default().promised.insert(voter, life.number);
    }

    /// Faults are over.
    pub(super) fn calm(&mut self, now: u64, patience: u64) {
        self.calm = Some((now, now + patience));
    }

    /// This one must keep the place from now on.
    pub(super) fn guard(&mut self, tenant: Tenant) {
        self.settled = Some((tenant, Rule::Undisturbed));
    }

    /// For so long somebody has kept the place that must.
    pub(super) fn is_over(&self, now: u64, after: u64) -> bool {
        self.settled_since.is_some_and(|since| now >= since + after)
    }

    /// The newest generation that a contender has held.
    pub(super) fn newest(&self) -> u16 {
        let held = self.known.iter().filter(|(_, known)| known.held.is_some());
        let newest = held.map(|((_, generation), _)| *generation).max();
        newest.unwrap_or(0)
    }

    /// Contenders that have had the place.
    pub(super) fn tenants(&self) -> u64 {
        self.tenants
    }

    /// Time from the end of faults until somebody had the place.
    pub(super) fn waited(&self) -> u64 {
        let from = self.calm.map_or(0, |(from, _)| from);
        self.first.map_or(0, |first| first.saturating_sub(from))
    }

    /// The rules for those that hold the place now. `is_promised` says of a voter that it lives and
    /// has promised the place to a holder until its lease ends.
    pub(super) fn step(
        &mut self,
        now: u64,
        holders: &[Holder],
        is_promised: impl Fn(usize, &Holder) -> bool,
    ) -> Result<(), Violation> {
        if let [one, two, ..] = holders {
            let (one, two) = (one.tenant, two.tenant);
            return Err(Violation::new(
                Rule::One,
                now,
                format!("{} and {} hold the place", name(one), name(two)),
            ));
        }
        let holder = holders.first();
        let lasts = self.last.zip(holder.copied()).is_some_and(|(last, it)| {
            // A lease that ended between two steps was lost, though it is there again.
            last.tenant == it.tenant && last.until >= now
        });
        if let Some(holder) = holder {
            self.promise(now, holder, is_promised)?;
            if !lasts {
                self.begins(now, holder.tenant)?;
            }
        }
        self.keeps(now, holder, lasts)?;
        self.last = holder.copied();
        self.progress(now, holder, lasts)
    }

    fn promise(
        &self,
        now: u64,
        holder: &Holder,
        is_promised: impl Fn(usize, &Holder) -> bool,
    ) -> Result<(), Violation> {
        let key = (holder.tenant.start, holder.tenant.generation);
        let promised = self.known.get(&key).map(|known| &known.promised);
        let lives = self.lives.iter().enumerate();
        let count = lives.filter(|(voter, life)| {
            let number = promised.and_then(|promised| promised.get(voter));
            // One that has started since, or is dead, promises nothing for longer.
            let forgot = number.is_some_and(|number| *number < life.number || life.dead);
            forgot || is_promised(*voter, holder)
        });
        let count = count.count();
        if count >= self.majority {
            return Ok(());
        }
        let text = format!(
            "{} holds until {} us, and so long only {count} voters have promised",
            name(holder.tenant),
            holder.until / 1_000
        );
        Err(Violation::new(Rule::Promise, now, text))
    }

    /// A contender has the place, for the first time or again.
    fn begins(&mut self, now: u64, tenant: Tenant) -> Result<(), Violation> {
        for ((start, generation), known) in &self.known {
            let is_old = *start == tenant.start || *generation < tenant.generation;
            let Some(held) = known.held.filter(|_| !is_old) else {
                continue;
            };
            let lives = self.lives.iter().enumerate();
            let knows = lives.filter(|(voter, life)| {
                let promised = known.promised.get(voter) == Some(&life.number);
                !life.dead && (promised || (self.told && life.since > held))
            });
            // Each majority has one of them.
            if knows.count() + self.majority > self.lives.len() {
                let text = format!(
                    "{} has the place, and start {start} had it in generation {generation}",
                    name(tenant)
                );
                return Err(Violation::new(Rule::Generation, now, text));
            }
        }
        let key = (tenant.start, tenant.generation);
        let known = self.known.entry(key).or_default();
        if known.held.is_none() {
            known.held = Some(now);
            self.tenants += 1;
        }
        Ok(())
    }

    /// Who must keep the place has it.
    fn keeps(&self, now: u64, holder: Option<&Holder>, lasts: bool) -> Result<(), Violation> {
        let Some((tenant, rule)) = self.settled else {
            return Ok(());
        };
        if lasts && holder.is_some_and(|holder| holder.tenant == tenant) {
            return Ok(());
        }
        let now_has = holder.map_or("nobody".to_owned(), |holder| name(holder.tenant));
        let text = format!("{} lost the place; {now_has} holds it", name(tenant));
        Err(Violation::new(rule, now, text))
    }

    fn progress(
        &mut self,
        now: u64,
        holder: Option<&Holder>,
        lasts: bool,
    ) -> Result<(), Violation> {
        let Some((from, by)) = self.calm else {
            return Ok(());
        };
        let Some(holder) = holder else {
            if now >= by {
                let text = format!(
                    "nobody holds the place {} us after faults",
                    (now - from) / 1_000
                );
                return Err(Violation::new(Rule::Progress, now, text));
            }
            return Ok(());
        };
        // Promises of voters that died since count in a lease that began before.
        let anew = !lasts && now >= from + self.length + self.length / 32;
        if self.settled.is_none() && (anew || now >= by) {
            self.settled = Some((holder.tenant, Rule::Progress));
        }
        if self.settled.is_some() {
            self.settled_since.get_or_insert(now);
        }
        self.first.get_or_insert(now);
        Ok(())
    }
}

fn name(tenant: Tenant) -> String {
    let Tenant { generation, start } = tenant;
    format!("start {start} of generation {generation}")
}
