//! Named counters of a runtime's actors.

use weir_telemetry::labels;

labels! {
    /// One thing that is counted.
    pub enum ActorCount: Counter<Times> {
        // ---- packets
        /// A first view began with its first packet.
        Fresh = "actor_fresh",
        /// A packet that was applied before came again.
        Duplicate = "duplicate",
        /// A packet came before the one it follows.
        Gap = "gap",
        /// A packet was held until the state of its view is here.
        HeldForState = "held_for_state",
        /// A packet was held because nothing was known of its view yet.
        HeldEarly = "held_early",
        /// Packets whose turn it was stayed held until frames are free for what
        /// they cause.
        HeldForFrames = "held_for_frames",
        /// The hold buffer was full: a copy went.
        HoldOverflow = "hold_overflow",
        /// A held packet's view was never opened here, or was over.
        HoldDropped = "hold_dropped",
        /// A packet of a view that is over was dropped.
        StalePacket = "stale_packet",
        /// A packet that makes no sense was dropped.
        PacketRefused = "packet_refused",
        /// The switch was asked to repeat what is missing.
        RepeatAsked = "repeat_asked",
        /// Outputs were sent once more.
        SaidAgain = "outputs_said_again",
        /// Outputs need not be kept any longer: the switch has let them out.
        OutputsDone = "outputs_done",
        // ---- messages
        /// A message that makes no sense, or of a sender that may not say
        /// that, was not acted on.
        MessageRefused = "message_refused",
        /// A message came too late to matter.
        MessageStale = "message_stale",
        // ---- planned views
        /// A view without a state before it was opened by a message.
        OpenedEmpty = "view_opened_empty",
        /// A view was opened here that gets its state from its source.
        OpenedPlanned = "view_opened_planned",
        /// A view after a failure was opened here that gets its state from a logger.
        OpenedFromLogger = "view_opened_from_logger",
        /// A logger was asked for a state and sent it.
        LoggerAnswered = "logger_answered",
        /// A logger was asked for a state that it does not have (any more).
        LoggerLacks = "logger_lacks",
        /// The state was here already, as a replica's copy.
        PullSpared = "pull_spared",
        /// A copy of a quiet unit's state was sent ahead of its next flowlet.
        AheadSent = "ahead_sent",
        /// No copy was sent ahead: the unit has gone on, or is not here.
        AheadLate = "ahead_late",
        /// No copy was sent ahead: the state is too long for that.
        AheadTooLong = "ahead_too_long",
        /// A copy came ahead and is kept.
        AheadKept = "ahead_kept",
        /// The state was here already: it was sent ahead.
        AheadUsed = "ahead_used",
        /// A copy that was sent ahead is of another packet or view than the one needed.
        AheadStale = "ahead_stale",
        /// Copies that were sent ahead were forgotten without a use.
        AheadVain = "ahead_vain",
        /// The source was asked for the state.
        PullSent = "pull_sent",
        /// It was asked again.
        PullRepeated = "pull_repeated",
        /// A target asked for a state and got it.
        PullAnswered = "pull_answered",
        /// A target asked for a state before the switch said that its view
        /// ends: it will ask again.
        PullEarly = "pull_early",
        /// A view ends after a packet that is still to come.
        Closing = "closing",
        /// The source has applied the last packet of its view.
        Closed = "closed",
        /// A state left, unasked or asked for.
        StateSent = "state_sent",
        /// A state, or the end of its copies, came before its view was open.
        StateAhead = "state_ahead",
        /// A state was installed.
        StateInstalled = "state_installed",
        /// "No state" was installed.
        NothingInstalled = "nothing_installed",
        /// A state did not fit in here.
        RefusedFull = "refused_full",
        /// A state of another layout was refused.
        RefusedLayout = "refused_layout",
        /// A damaged state was refused.
        RefusedCorrupt = "refused_corrupt",
        /// A view could not go on here: the state that it needs is not here.
        RefusedNoState = "refused_no_state",
        /// The source of a view could not send its state: it is too long.
        RefusedTooLong = "refused_too_long",
        /// A state was too long for a message: it stays where it is.
        StateTooLong = "state_too_long",
        /// Outputs went ahead of their state: all are too long for one message.
        OutputsAhead = "outputs_ahead",
        /// Outputs have come ahead of their state.
        OutputsStaged = "outputs_staged",
        /// A state came, and some of the outputs that went ahead of it did not.
        OutputsMissing = "outputs_missing",
        /// A packet's emitted packets were too long for a message: dropped.
        EmittedTooLong = "emitted_too_long",
        /// The switch was told that a new view's state is held.
        Held = "held",
        // ---- reprocessing
        /// An early state left, copies follow.
        CopyingStarted = "copying_started",
        /// The chain can't apply packets twice: moved in one step.
        CopyingImpossible = "copying_impossible",
        /// A packet that changed the state was copied.
        CopySent = "copy_sent",
        /// No move came: copies are no longer sent.
        CopyingGivenUp = "copying_given_up",
        /// An early state was installed.
        EarlyInstalled = "early_installed",
        /// A copy was applied without output.
        CopyApplied = "copy_applied",
        /// A copy was missing: the state is asked for.
        CopiesLost = "copies_lost",
        /// A view began with a state brought up to date by copies.
        Reprocessed = "reprocessed",
        /// An early state was given up: its move never came.
        EarlyGivenUp = "early_given_up",
        // ---- replication
        /// A replica was told of packets.
        Replicated = "replicated",
        /// A replica was told the whole state.
        ReplicatedWhole = "replicated_whole",
        /// A replica was sent the state because so many packets were applied.
        StateInTurn = "state_in_turn",
        /// ... because one was owed for a while.
        StateInTime = "state_in_time",
        /// ... because the view closes.
        StateAtClose = "state_at_close",
        /// ... because the last one was not confirmed.
        StateAgain = "state_again",
        /// A replica was told of changes only.
        ReplicatedDelta = "replicated_delta",
        /// Octets of states, changes and times that were sent to replicas.
        ReplicaOctets = "replica_octets",
        /// Octets that changes were shorter than their states.
        ReplicaOctetsSpared = "replica_octets_spared",
        /// A new copy began.
        ReplicaBegun = "replica_begun",
        /// A copy was brought up to date.
        ReplicaStored = "replica_stored",
        /// A replica was asked whether its copy is what it was sent.
        CompareAsked = "compare_asked",
        /// A copy was what its owner had sent.
        CompareEqual = "compare_equal",
        /// A copy was something else: the state was sent whole.
        CompareDiffers = "compare_differs",
        /// Twice a copy was of another clock: the state was sent whole.
        CompareBehind = "compare_behind",
        /// Twice the asked replica had no copy: the state was sent whole.
        CompareMissing = "compare_missing",
        /// A unit has no copy, or nothing of it was sent yet: there is nothing to compare.
        CompareSkipped = "compare_skipped",
        /// Entries of an older view were refused.
        EntriesFenced = "entries_fenced",
        /// Entries that do not follow those before were refused.
        EntriesGap = "entries_gap",
        /// A packet that went astray had begun an actor of another's view.
        Astray = "astray",
        // ---- failure
        /// The owner goes on under another view after a failure.
        ResumedOwner = "resumed_owner",
        /// A replica, or an older copy, became the owner after a failure.
        ResumedCopy = "resumed_copy",
        /// A unit's state was behind what was let out: packets are applied again.
        AppliesAgain = "applies_again",
        /// A packet was applied again, without output.
        AppliedAgain = "applied_again",
        /// A unit starts from no state: all its holders were lost.
        AfterLoss = "after_loss",
        /// A live actor made room for another view.
        Retired = "retired",
        /// An ended unit made room for another one in its place.
        Superseded = "superseded",
        // ---- ends
        /// The switch was asked for a tick.
        TickAsked = "tick_asked",
        /// The switch was asked to end a unit.
        EndAsked = "end_asked",
        /// It was asked again.
        EndRepeated = "end_repeated",
        /// Older views of a unit were forgotten.
        Forgotten = "forgotten",
        /// A unit has ended.
        Ended = "ended",
        // ---- the switch's restart
        /// A switch of a higher generation has taken over.
        Fenced = "generation_fenced",
        /// A unit was claimed.
        Claimed = "claimed",
        /// A unit that has no state any more was claimed: it is over.
        ClaimedEnded = "claimed_ended",
        /// A packet was applied, and the switch was not known to have let out what
        /// it put out when it died: that is lost, at most.
        SwitchRestart = "switch_restart",
        // ---- leases and the rest
        /// Ports were asked for.
        LeaseWanted = "lease_wanted",
        /// A block was granted.
        LeaseGranted = "lease_granted",
        /// A block was claimed after the switch's restart.
        LeaseClaimed = "lease_claimed",
        /// A port is free again.
        PortFreed = "port_freed",
        /// A port is in doubt: the view in which it was leased is over.
        PortDoubted = "port_doubted",
        /// A port in doubt is free.
        PortReturned = "port_returned",
        /// A function wants its flows elsewhere.
        MovePreferred = "move_preferred",
        /// The load was asked for.
        WorkloadTold = "workload_told",
        /// The set of runtimes has changed.
        ClusterTold = "cluster_told",
    }
}
