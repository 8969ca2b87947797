//! Planted bugs: what the checkers must find.
//!
//! Each leaves out one part of the protocol. They exist so that the simulator
//! can show that it would notice; no program sets one.

/// A part of the protocol to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plant {
    /// The gate does not look at the view.
    NoViewCheck,
    /// A replica takes entries of any view into the one copy it has.
    NoFence,
    /// The gate does not ask for `n = out + 1`.
    NoOrderAtGate,
    /// The owner forgets outputs when it has sent them.
    OwnerForgets,
    /// The replica forgets outputs when it has passed them on.
    ReplicaForgets,
    /// Nothing is sent again.
    NoRepeats,
    /// The target, not the switch, tells the source to forget.
    TargetForgets,
    /// A view number is used again.
    ViewReused,
    /// One actor serves the views before and after a failure.
    SharedActor,
    /// A dropped packet makes no entry.
    DropWithoutEntry,
    /// Aliases are registered after the outputs have left.
    AliasAfterOutput,
    /// A block is leased again while an alias of it lives.
    BlockLeasedAgain,
    /// A state is taken without the outputs that went ahead of it.
    OutputsSkipped,
    /// Copies of packets and ticks may take the last frames of the switch.
    NoReserve,
    /// A tick without room is refused instead of deferred.
    TickRefused,
    /// A unit ends while runtimes have older copies of it.
    ForgetUnordered,
    /// A runtime claims only what has state.
    ClaimWithState,
    /// A flow's names go with its end, whatever is on its way.
    NamesGoAtOnce,
    /// An entry does not wait for the unit that had its name.
    NameUnawaited,
    /// Units wait for one another's names.
    NamesCrossed,
    /// Ports that were leased in a view that is given up stay leased.
    LeasesForgotten,
    /// A switch that starts again takes each port without a name for free.
    LeasesNotRestored,
    /// The switch keeps no packet that was let out for a state to come.
    PacketsNotKept,
    /// The switch takes all that was let out as held when a replica says what it
    /// has.
    HeldTooEarly,
    /// After a failure the switch lets out again what it has all packets of.
    OutGoesBack,
    /// A new owner goes on after the last packet let out, whatever its state has.
    NotAppliedAgain,
    /// A unit ends although its replica has an older state.
    EndsUnheld,
    /// The switch does not look at hosts.
    HostsIgnored,
    /// Nothing but a failure of its holders gives a unit another replica.
    NeverProtected,
    /// Silence is never suspected.
    DeathsUnseen,
    /// One move in three is taken on and forgotten.
    MoveForgotten,
    /// The end of a flow that an operator asks for is taken on and forgotten.
    EndForgotten,
    /// A switch that starts again takes no replica that is behind its owner as a
    /// holder.
    BehindNoHolder,
    /// Nobody says to a replica that goes on behind the claim of its owner what is
    /// lost.
    BehindUntold,
    /// A packet for which there is no room is dropped without a count.
    DropUncounted,
    /// A state that cannot be is met when a view is settled.
    ImpossibleMet,
    /// Names of a unit that was moved are forgotten.
    NamesForgotten,
    /// A move from a runtime to itself is taken on.
    NonsenseTaken,
    /// Without acknowledgements: a view is settled before all is here that its source
    /// put out.
    SettledBeforeOut,
    /// The same where the target dies: the source goes on at once.
    SourceNotWaitedFor,
    /// A replica makes changes in the copy of an older view, where it has one.
    DeltaOnAnyBase,
    /// A drain that is taken back goes on all the same.
    KeptDrained,
    /// A replica leaves the last of several changes out.
    ChangeLeftOut,
    /// A replica passes entries on, as if it had stored the state.
    PassedOnUnstored,
    /// An owner does not send the whole state when its replica lacks the one before.
    GapUnfilled,
    /// A logger is given units to own.
    LoggerOwns,
    /// The bytes of packets that functions made are not counted.
    BytesUncounted,
    /// A replica of a view that a settled one follows counts as waited for.
    WaitsStay,
    /// A replica takes entries, and a new owner a state, from anybody.
    SenderUnseen,
    /// The gate takes entries of a view that was closed past its end.
    ClosedGoesOn,
    /// Packets lost with their owner count as dropped by functions.
    LossMisnamed,
    /// Packets for which no place is left count as those for which no frame is, and the
    /// other way round.
    RoomMisnamed,
    /// Packets that no runtime takes count as those that came during a recovery.
    NobodyMisnamed,
    /// The gauge of units without a replica only rises.
    GaugeOnlyRises,
    /// A unit is lost with the owner of its first view, though all its packets are kept.
    FirstLost,
    /// Numbers of views have 32 bits.
    ViewsShort,
    /// Packets that were kept for a state never leave their era: the port blocks of who
    /// died in it are nobody's.
    EraStays,
    /// Moves that fail are not counted.
    FailedUncounted,
    /// A runtime that is gone still counts among those that are to forget.
    ForgetsMiscounted,
    /// A runtime takes a port that was freed for one in use.
    PortStaysKnown,
    /// Bytes are counted of packets that get no number, too.
    BytesEarly,
    /// A move takes units of whoever has them.
    SourceIgnored,
    /// A unit whose key another one has gets no name from its claim.
    HiddenNameless,
    /// A peer is suspected one beat early.
    SuspectedEarly,
    /// A peer that does not hear us is thought to.
    DeafHeard,
    /// A process that hears nothing of most peers judges them all the same.
    CutOffJudges,
    /// A process that hears nothing of most peers never judges them.
    CutOffForEver,
    /// Packets are applied however few frames are free for what they cause. Not
    /// in [`Plant::ALL`]: it needs rings, and a test has it.
    FramesUnseen,
    /// Held packets are swept also where nobody would send them again.
    HeldSwept,
    /// A pull that comes before the word that its view is over is forgotten.
    PullForgotten,
    /// What is on its way on a path that loses nothing is sent again.
    RepeatsInHaste,
    /// A copy keeps outputs that its owner, who tells its switch of them itself, has done with.
    ApartUntrimmed,
    /// A port in doubt is free, though the entry that leased it may be let out yet.
    DoubtedFree,
    /// A runtime's word that it forgot counts for a newer question, too.
    OlderForgotten,
    /// A peer that was suspected is up after half of its hold-down.
    UpTooSoon,
    /// A unit ends though packets of it are on their way.
    EndUnlooked,
    /// The number before a tick is given to nothing.
    NumberSkipped,
    /// A name stays with its owner, whether that waits or not.
    YieldedAlways,
    /// A move that fails loses its unit, though the source has it.
    HoldersIgnored,
    /// A runtime does not count that it asks for ports.
    WordUncounted,
    /// Owners look for what is due half a second late.
    DuesLate,
    /// A runtime that has no unit is not known to be drained.
    DrainedUnseen,
    /// The report names one unit without a replica too many.
    GaugeAhead,
    /// A copy that was sent ahead of a flowlet is taken whatever packet it is of.
    CopyOutdated,
    /// A flowlet that is over stays promised to its runtime.
    PromiseStays,
    /// A first view that let nothing out is lost where no runtime is there.
    FirstNotAwaited,
    /// A runtime that comes does not make units go on that wait for one.
    ComingUnseen,
}

/// All of them, with their names on a command line.
const NAMES: [(Plant, &str); 87] = [
    (Plant::NoViewCheck, "no-view-check"),
    (Plant::NoFence, "no-fence"),
    (Plant::NoOrderAtGate, "no-order-at-gate"),
    (Plant::OwnerForgets, "owner-forgets"),
    (Plant::ReplicaForgets, "replica-forgets"),
    (Plant::NoRepeats, "no-repeats"),
    (Plant::TargetForgets, "target-forgets"),
    (Plant::ViewReused, "view-reused"),
    (Plant::SharedActor, "shared-actor"),
    (Plant::DropWithoutEntry, "drop-without-entry"),
    (Plant::AliasAfterOutput, "alias-after-output"),
    (Plant::BlockLeasedAgain, "block-leased-again"),
    (Plant::OutputsSkipped, "outputs-skipped"),
    (Plant::NoReserve, "no-reserve"),
    (Plant::TickRefused, "tick-refused"),
    (Plant::ForgetUnordered, "forget-unordered"),
    (Plant::ClaimWithState, "claim-with-state"),
    (Plant::NamesGoAtOnce, "names-go-at-once"),
    (Plant::NameUnawaited, "name-unawaited"),
    (Plant::NamesCrossed, "names-crossed"),
    (Plant::LeasesForgotten, "leases-forgotten"),
    (Plant::LeasesNotRestored, "leases-not-restored"),
    (Plant::PacketsNotKept, "packets-not-kept"),
    (Plant::HeldTooEarly, "held-too-early"),
    (Plant::OutGoesBack, "out-goes-back"),
    (Plant::NotAppliedAgain, "not-applied-again"),
    (Plant::EndsUnheld, "ends-unheld"),
    (Plant::HostsIgnored, "hosts-ignored"),
    (Plant::NeverProtected, "never-protected"),
    (Plant::DeathsUnseen, "deaths-unseen"),
    (Plant::MoveForgotten, "move-forgotten"),
    (Plant::EndForgotten, "end-forgotten"),
    (Plant::BehindNoHolder, "behind-no-holder"),
    (Plant::BehindUntold, "behind-untold"),
    (Plant::DropUncounted, "drop-uncounted"),
    (Plant::ImpossibleMet, "impossible-met"),
    (Plant::NamesForgotten, "names-forgotten"),
    (Plant::NonsenseTaken, "nonsense-taken"),
    (Plant::SettledBeforeOut, "settled-before-out"),
    (Plant::SourceNotWaitedFor, "source-not-waited-for"),
    (Plant::DeltaOnAnyBase, "delta-on-any-base"),
    (Plant::KeptDrained, "kept-drained"),
    (Plant::ChangeLeftOut, "change-left-out"),
    (Plant::PassedOnUnstored, "passed-on-unstored"),
    (Plant::GapUnfilled, "gap-unfilled"),
    (Plant::LoggerOwns, "logger-owns"),
    (Plant::BytesUncounted, "bytes-uncounted"),
    (Plant::WaitsStay, "waits-stay"),
    (Plant::SenderUnseen, "sender-unseen"),
    (Plant::ClosedGoesOn, "closed-goes-on"),
    (Plant::LossMisnamed, "loss-misnamed"),
    (Plant::RoomMisnamed, "room-misnamed"),
    (Plant::NobodyMisnamed, "nobody-misnamed"),
    (Plant::GaugeOnlyRises, "gauge-only-rises"),
    (Plant::FirstLost, "first-lost"),
    (Plant::ViewsShort, "views-short"),
    (Plant::EraStays, "era-stays"),
    (Plant::FailedUncounted, "failed-uncounted"),
    (Plant::ForgetsMiscounted, "forgets-miscounted"),
    (Plant::PortStaysKnown, "port-stays-known"),
    (Plant::BytesEarly, "bytes-early"),
    (Plant::SourceIgnored, "source-ignored"),
    (Plant::HiddenNameless, "hidden-nameless"),
    (Plant::SuspectedEarly, "suspected-early"),
    (Plant::DeafHeard, "deaf-heard"),
    (Plant::CutOffJudges, "cut-off-judges"),
    (Plant::CutOffForEver, "cut-off-for-ever"),
    (Plant::FramesUnseen, "frames-unseen"),
    (Plant::HeldSwept, "held-swept"),
    (Plant::PullForgotten, "pull-forgotten"),
    (Plant::RepeatsInHaste, "repeats-in-haste"),
    (Plant::ApartUntrimmed, "apart-untrimmed"),
    (Plant::DoubtedFree, "doubted-free"),
    (Plant::OlderForgotten, "older-forgotten"),
    (Plant::UpTooSoon, "up-too-soon"),
    (Plant::EndUnlooked, "end-unlooked"),
    (Plant::NumberSkipped, "number-skipped"),
    (Plant::YieldedAlways, "yielded-always"),
    (Plant::HoldersIgnored, "holders-ignored"),
    (Plant::WordUncounted, "word-uncounted"),
    (Plant::DuesLate, "dues-late"),
    (Plant::DrainedUnseen, "drained-unseen"),
    (Plant::GaugeAhead, "gauge-ahead"),
    (Plant::CopyOutdated, "copy-outdated"),
    (Plant::PromiseStays, "promise-stays"),
    (Plant::FirstNotAwaited, "first-not-awaited"),
    (Plant::ComingUnseen, "coming-unseen"),
];

impl Plant {
    /// Bugs that the simulator finds, in the order of the documentation.
    pub const ALL: [Plant; NAMES.len() - 1] = {
        let mut all = [Plant::NoViewCheck; NAMES.len() - 1];
        let (mut number, mut count) = (0, 0);
        while number < NAMES.len() {
            let (plant, _) = NAMES[number];
            assert!(plant as usize == number, "as they are declared");
            if !matches!(plant, Plant::FramesUnseen) {
                all[count] = plant;
                count += 1;
            }
            number += 1;
        }
        all
    };

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}
