//! Why the threads around the engine drop packets.

weir_telemetry::labels! {
    /// A reason that is no port's, engine's or function's.
    pub enum DriverDrop: Counter<Packets> {
        /// No chain of the file takes it (`match:`).
        NoChain = "no_chain",
        /// A stage in a process of its own died, or was ended, while it had it.
        StageDied = "stage_died",
        /// It was for a stage that is not trusted (`untrusted`), which did not keep up.
        TenantStalled = "tenant_stalled",
        /// It was for a stage that is not trusted and has died: it is being started again, or died too often for that.
        TenantGone = "tenant_gone",
        /// A stage that is not trusted gave it back as it must not; it was ended for that.
        TenantRefused = "tenant_refused",
        /// A stage that is not trusted did not give it back, and named no reason that it has.
        TenantDropped = "tenant_dropped",
        /// A function of a runtime dropped it that has died (of a bug, or killed), for a reason that died with it.
        RuntimeDied = "runtime_died",
        /// It was queued for a worker that failed before it took it.
        WorkerFailed = "worker_failed",
    }
}
