//! A traced packet as it is printed.

use weir_api::v1;

use super::{json, text};
use crate::args::Format;

/// A traced packet, or a part of one; `more` where it is not the first.
pub(super) fn shown(part: &v1::PacketTrace, format: Format, full: bool, more: bool) -> String {
    match format {
        Format::Json => json::line(part),
        Format::Text if more => format!("\n{}", text::packet(part, full)),
        Format::Text => text::packet(part, full),
    }
}
