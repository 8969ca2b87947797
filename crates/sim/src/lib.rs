//! The cluster under virtual time: the same switch, actors and streams as the
//! program's, with hosts, links and faults driven by one seed.

pub mod scaling;
