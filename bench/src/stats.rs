//! Medians and spread.

/// Order statistics of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of `samples`, which may be in any order; all zero where there are none.
    pub(crate) fn of(samples: &[f64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // Between two samples in proportion, as most tools do it.
        let at = |share: f64| {
            let place = share * sorted.len().saturating_sub(1) as f64;
            let low = sorted.get(place.floor() as usize).copied().unwrap_or(0.0);
            let high = sorted.get(place.ceil() as usize).copied().unwrap_or(low);
            low + (high - low) * place.fract()
        };
        Spread {
            least: at(0.0),
            lower_quartile: at(0.25),
            median: at(0.5),
            upper_quartile: at(0.75),
            most: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_samples() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            spread,
            Spread {
                least: 1.0,
                lower_quartile: 1.75,
                median: 2.5,
                upper_quartile: 3.25,
                most: 4.0
            }
        );
        assert_eq!(Spread::of(&[]).median, 0.0);
        assert_eq!(Spread::of(&[7.0]).upper_quartile, 7.0);
    }
}
