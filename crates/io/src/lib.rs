//! Ports of weir: capture files, traffic generator, memory.
