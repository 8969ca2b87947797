//! Which flow the next packet belongs to.

use super::random::scale;
use super::spec::Popularity;

/// Picks flows 0 to `flows` − 1. With a tag of its own it is told apart in one comparison.
#[repr(u8)]
pub(super) enum Picker {
    Uniform {
        flows: u32,
    },
    Sequential {
        flows: u32,
        next: u32,
    },
    /// The alias method (Walker 1977, tables by Vose 1991): each cell holds its own flow up to a
    /// threshold, and one other flow beyond. Constant time, one memory access.
    Alias {
        cells: Vec<Cell>,
    },
}

#[derive(Clone, Copy)]
pub(super) struct Cell {
    threshold: u32,
    other: u32,
}

impl Picker {
    pub(super) fn new(popularity: Popularity, flows: u32) -> Self {
        match popularity {
            Popularity::Uniform => Self::Uniform { flows },
            Popularity::Sequential => Self::Sequential { flows, next: 0 },
            Popularity::Zipf(exponent) => Self::Alias {
                cells: zipf(exponent, flows),
            },
        }
    }

    #[inline]
    pub(super) fn pick(&mut self, random: u64) -> u32 {
        match self {
            Self::Uniform { flows } => scale(random, *flows),
            Self::Sequential { flows, next } => {
                let flow = *next;
                *next = if flow + 1 == *flows { 0 } else { flow + 1 };
                flow
            }
            Self::Alias { cells } => {
                let index = scale(random, cells.len() as u32);
                match cells.get(index as usize) {
                    Some(cell) if random as u32 > cell.threshold => cell.other,
                    _ => index,
                }
            }
        }
    }
}

fn zipf(exponent: f64, flows: u32) -> Vec<Cell> {
    let weight = |flow: u32| (f64::from(flow) + 1.0).powf(-exponent);
    let total: f64 = (0..flows).map(weight).sum();
    let full = f64::from(flows) / total;
    let mut cells: Vec<Cell> = (0..flows)
        .map(|flow| Cell {
            threshold: u32::MAX,
            other: flow,
        })
        .collect();
    // Weights fall, so the cells that have too much are the first ones: `rich` gives what it has
    // beyond its own cell to the poor ones, and becomes poor itself at last.
    let mut rich = 0;
    let mut has = weight(0) * full;
    let poor_from = (0..flows).find(|&flow| weight(flow) * full < 1.0);
    let mut poor = poor_from.unwrap_or(flows);
    while poor < flows && rich < flows {
        let (cell, share) = if has >= 1.0 {
            let taken = (poor, weight(poor) * full);
            poor += 1;
            taken
        } else {
            let given = (rich, has);
            rich += 1;
            has = weight(rich) * full;
            if rich >= poor_from.unwrap_or(flows) {
                break;
            }
            given
        };
        if let Some(cell) = cells.get_mut(cell as usize) {
            cell.threshold = (share * f64::from(u32::MAX)) as u32;
            cell.other = rich;
        }
        has -= 1.0 - share;
    }
    cells
}
