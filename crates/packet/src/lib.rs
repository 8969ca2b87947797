//! Packets for weir: frames in packet memory, header formats, checksums, flow keys.
