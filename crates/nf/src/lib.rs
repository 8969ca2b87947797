//! The contract between a network function and weir: all that an NF author imports.
