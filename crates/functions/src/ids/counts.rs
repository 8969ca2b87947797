//! Counters of the IDS.

weir_nf::labels! {
    /// Drop reasons.
    pub(super) enum Reason: Counter<Packets> {
        /// A rule with the action `drop` or `reject` matches it.
        Rule = "rule",
    }
}

weir_nf::labels! {
    /// Counters.
    pub(super) enum Count: Counter<Packets> {
        /// Alerts that were found; those that thresholds keep back are counted where events leave.
        Alerts = "alerts": Counter<Times>,
        /// Alerts that a `suppress` of a threshold file keeps back.
        Suppressed = "suppressed": Counter<Times>,
        /// Alerts that found no room to be recorded.
        AlertsLost = "alerts_lost": Counter<Times>,
        /// Bytes of streams that were not seen.
        LostBytes = "lost_bytes": Counter<Bytes>,
        /// Flows whose messages were given up: there was no memory for their parser, or another release
        /// wrote its state.
        MessagesLost = "messages_lost": Counter<Times>,
        /// Segments that no reassembly window was free for.
        NoWindow = "no_window",
        /// Partial matches that were given up for newer ones.
        WaitingDropped = "waiting_dropped": Counter<Times>,
        /// Partial matches that waited too long.
        WaitingExpired = "waiting_expired": Counter<Times>,
        /// Alerts of a stream that were not remembered and may come twice.
        AlertsForgotten = "alerts_forgotten": Counter<Times>,
        /// Searches that ended at their limit of steps.
        SearchesCut = "searches_cut": Counter<Times>,
        /// Searches of `pcre` that took too many steps, or had too many bytes to look at.
        PcreCut = "pcre_cut": Counter<Times>,
        /// Changed buffers that rules did not see: a message had more than 1 MiB of them.
        ChangesCut = "changes_cut": Counter<Times>,
        /// Records of transactions, files and anomalies.
        Records = "records": Counter<Times>,
        /// Requests that were forgotten before their responses came (more than 32, or no memory for them), and
        /// records beyond 256 of one packet.
        RecordsLost = "records_lost": Counter<Times>,
        /// Alerts without all that they tell beside their rule: it was more than there is room for.
        FieldsCut = "alert_fields_cut": Counter<Times>,
        /// Flowbits and flowints that a flow had no room for: 32 and 8 at a time.
        FlowVarsLost = "flow_vars_lost": Counter<Times>,
    }
}
