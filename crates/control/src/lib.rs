//! Decisions about a whole cluster: when to add runtimes, what to move, whom to
//! stop. Pure functions and state machines: load reports in, actions out.
