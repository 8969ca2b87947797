//! How packets are read and told apart: fixed for the life of a runtime.

use weir_nf::host::{FlowOptions, StageLayout};
use weir_packet::{KeyOptions, ParseOptions};

/// Most cache lines of a block that are fetched before it is used.
const MOST_LINES: usize = 4;

/// How packets are read, and their flows kept.
pub(crate) struct Reading {
    parse: Option<ParseOptions>,
    key: KeyOptions,
    options: FlowOptions,
    block_lines: usize,
}

impl Reading {
    pub(crate) fn new(
        parse: Option<ParseOptions>,
        key: KeyOptions,
        options: FlowOptions,
        layout: &StageLayout,
    ) -> Reading {
        Reading {
            parse,
            key,
            options,
            block_lines: match layout.is_bare() {
                true => 2,
                false => layout.lines().min(MOST_LINES),
            },
        }
    }

    /// How deep to parse; `None` leaves packets unread.
    #[inline]
    pub(crate) fn parse(&self) -> Option<&ParseOptions> {
        self.parse.as_ref()
    }

    /// The options that flow keys are made with.
    #[inline]
    pub(crate) fn key(&self) -> &KeyOptions {
        &self.key
    }

    /// The chain's options for flows.
    #[inline]
    pub(crate) fn options(&self) -> &FlowOptions {
        &self.options
    }

    /// Cache lines of a flow's block to fetch.
    #[inline]
    pub(crate) fn block_lines(&self) -> usize {
        self.block_lines
    }
}
