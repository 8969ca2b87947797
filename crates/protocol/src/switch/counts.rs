//! Counters of a switch.

use weir_telemetry::labels;

labels! {
    /// Events in a switch.
    pub enum SwitchCount: Counter<Times> {
        /// A unit's first view was opened.
        FirstOpened = "first_opened",
        /// A first view that nothing was let out of was opened again elsewhere.
        FirstOpenedAgain = "first_opened_again",
        /// A first view was looked at whose packets are all here, and no runtime was there
        /// to take them.
        FirstAwaits = "first_awaits",
        /// A first view after the unit was lost.
        OpenedAfterLoss = "opened_after_loss",
        /// A planned view, mode push.
        PlannedPush = "planned_push",
        /// A planned view, mode pull.
        PlannedPull = "planned_pull",
        /// A planned view, mode reprocess.
        PlannedReprocess = "planned_reprocess",
        /// An owner was asked for an early snapshot.
        Prepared = "prepared",
        /// The early snapshot did not come; the unit was moved without.
        PreparedInVain = "prepared_in_vain",
        /// A view after a failure, at the settled view's owner.
        ResumedAtOwner = "resumed_at_owner",
        /// A view after a failure, at the settled view's replica.
        ResumedAtReplica = "resumed_at_replica",
        /// A runtime gets the state of a view after a failure from a logger.
        ResumedFromLogger = "resumed_from_logger",
        /// A logger has the state of a unit, and no runtime is there to go on.
        HeirAwaited = "heir_awaited",
        /// A view that only changes the replica.
        ReplicaChanged = "replica_changed",
        /// A replica was chosen on its owner's host: there is no other.
        ReplicaOnOneHost = "replica_on_one_host",
        /// A planned view failed and was replaced.
        MoveFailed = "move_failed",
        /// A view was settled by its first entry.
        SettledByEntry = "settled_by_entry",
        /// A view was settled by `Held`.
        SettledByHeld = "settled_by_held",
        /// An entry of the current view was let out.
        LetOut = "let_out",
        /// An entry of the settled view was let out while the next one was open.
        LetOutClosing = "let_out_closing",
        /// An entry came early and waits.
        Parked = "parked",
        /// An early entry was let out in its turn.
        ParkedLetOut = "parked_let_out",
        /// An early entry's view was over when its turn came.
        ParkedRefused = "parked_refused",
        /// An entry of a clock that was let out before.
        EntryDuplicate = "entry_duplicate",
        /// An entry of a view that is not current (any more).
        EntryOldView = "entry_old_view",
        /// An entry from a runtime that does not speak for its view.
        EntryNotOwner = "entry_not_owner",
        /// An entry of a unit that is not (any more).
        EntryUnknownUnit = "entry_unknown_unit",
        /// An entry of a packet that was never sent.
        EntryNotSent = "entry_not_sent",
        /// Side frames without their closing frame.
        EntryTorn = "entry_torn",
        /// Entries that no frame was free for, or too few to let them wait for
        /// their turn: their sender repeats them.
        EntryNoFrame = "entry_no_frame",
        /// A packet was sent again.
        Repeated = "repeated",
        /// A packet is to be sent again, and no frame was free.
        RepeatOwed = "repeat_owed",
        /// A packet that could not be sent again was replaced by `Lost`.
        LostSent = "lost_sent",
        /// `Open` and `Closed` of an unsettled view were sent again.
        OpenRepeated = "open_repeated",
        /// `Forget` was sent again.
        ForgetRepeated = "forget_repeated",
        /// A runtime has forgotten what it was told to.
        ForgetAnswered = "forget_answered",
        /// A runtime asked for packets again.
        RepeatAsked = "repeat_asked",
        /// A move was put into the queue.
        MoveQueued = "move_queued",
        /// A move took the place of another in the queue.
        MoveReplaced = "move_replaced",
        /// A move could not begin: its target was gone or the owner already.
        MoveVoid = "move_void",
        /// A runtime asked for a move that is not possible.
        MoveRefused = "move_refused",
        /// A drain was taken back: no other runtime was ready.
        DrainTakenBack = "drain_taken_back",
        /// A runtime refused a view.
        ViewRefused = "view_refused",
        /// A unit was lost with all holders of its state.
        UnitLost = "unit_lost",
        /// A unit without owner was removed.
        OrphanRemoved = "orphan_removed",
        /// An end was granted.
        EndGranted = "end_granted",
        /// An end was not granted: packets are on their way, or a view.
        EndRefused = "end_refused",
        /// An end was not granted yet: a runtime has not said that it forgot an
        /// older copy.
        EndWaits = "end_waits",
        /// A tick was numbered.
        TickNumbered = "tick_numbered",
        /// A tick was not numbered: one is on its way.
        TickRefused = "tick_refused",
        /// A tick waits for room.
        TickDeferred = "tick_deferred",
        /// A packet was turned and entered again.
        Turned = "turned",
        /// A name was registered.
        AliasAdded = "alias_added",
        /// A name passed from one unit to another that asked for it.
        NameTaken = "name_taken",
        /// An entry waits until the unit that had its name has let out what was numbered.
        NameWaited = "name_waited",
        /// A name stays with a unit that waits for the one that asks for it.
        NameYielded = "name_yielded",
        /// There was no room for a name.
        AliasRefused = "alias_refused",
        /// A name went.
        AliasGone = "alias_gone",
        /// A flow ended, its names went.
        FlowEnded = "flow_ended",
        /// A port was given back to the holder of its block.
        PortFreed = "port_freed",
        /// A runtime asked about a port that has no name: it is free.
        PortUnnamed = "port_unnamed",
        /// A port was leased and got no name: its unit has it until it ends.
        PortHeld = "port_held",
        /// A block was granted.
        BlockGranted = "block_granted",
        /// A block of a runtime that is gone was granted again.
        BlockGrantedAgain = "block_granted_again",
        /// A block without a name was said again to its holder, which runs low.
        BlockSaidAgain = "block_said_again",
        /// No block was left.
        NoBlock = "no_block",
        /// A replica said up to which packet it holds the state.
        StateStored = "state_stored",
        /// A runtime was suspected.
        Suspected = "suspected",
        /// A runtime was suspected because the switch before had suspected it.
        SuspectedBefore = "suspected_before",
        /// A message from a runtime that is not (any more) one of this switch.
        MessageFromStranger = "message_from_stranger",
        /// A message about a unit that is not (any more).
        MessageUnknownUnit = "message_unknown_unit",
        /// A message from a runtime that is not what it says to be.
        MessageNotOwner = "message_not_owner",
        /// A message of a view that is not current.
        MessageOldView = "message_old_view",
        /// A message that no switch takes.
        MessageMisdirected = "message_misdirected",
        /// A claim was taken after a restart.
        Claimed = "claimed",
        /// A unit goes on after a restart of its switch.
        Recovered = "recovered",
        /// A claimed unit whose names are taken or that has none.
        ClaimRefused = "claim_refused",
        /// A claimed unit that had ended: its newest copy has no state.
        ClaimEnded = "claim_ended",
        /// Claims of another restart, or when none was asked for.
        ClaimLate = "claim_late",
        /// Claims with the number of a piece that no answer has.
        ClaimImpossible = "claim_impossible",
        /// A runtime was suspected because its answer never became complete.
        AnswerGivenUp = "answer_given_up",
    }
}

labels! {
    /// Why a switch itself drops packets.
    pub enum SwitchDrop: Counter<Packets> {
        /// Functions dropped it: counted by the runtime under its reason.
        Functions = "functions",
        /// All places for packets to repeat were used: dropped before it was
        /// numbered.
        UnackedFull = "unacked_full",
        /// No frame was free for a copy to repeat, beside those that entries need: dropped before
        /// it was numbered.
        FramesShort = "frames_short",
        /// No runtime takes units.
        NoRuntime = "no_runtime",
        /// All who had the unit's state are gone.
        OwnerLost = "owner_lost",
        /// It was lost on the way and no copy was kept.
        Lost = "lost",
        /// It came while a restarted switch gathered claims, and too many did.
        RecoveryFull = "recovery_full",
        /// The unit's clock is at its last number.
        ClockUsedUp = "clock_used_up",
        /// The switch has used up its generation's views.
        ViewsUsedUp = "views_used_up",
        /// A function would have made it: the runtime had no frame, the packet that caused it
        /// had made as many as it may, or its entry was too long for a message.
        EmitsLost = "emits_lost",
        /// The switch was stopped while it was on its way.
        Unfinished = "unfinished",
        /// Its tenant sends more than it may.
        OverQuota = "over_quota",
        /// Its tenant has more packets on their way than its part, and room is short.
        OverShare = "over_share",
    }
}
