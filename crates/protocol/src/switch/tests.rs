//! Tests of the switch's own parts.
