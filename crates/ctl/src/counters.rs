//! Counters of the engine and the ports in the messages of the control interface.
//!
//! A message has a field for each counter of the type that it carries. The list of
//! fields comes from the declaration: a counter without a field does not compile.

use weir_api::v1;
use weir_io::port::PortCounters;
use weir_runtime::{FlowReport, FunctionReport, Report};
use weir_telemetry::{Counters, Entry};

/// A message that carries the counters of a type.
pub trait Carries: Default {
    /// The type that declares the counters.
    type Counters: Counters;

    /// A message with these counters, and nothing else.
    fn of(counters: &Self::Counters) -> Self;

    /// The counters in it.
    fn counters(&self) -> impl Iterator<Item = (&'static Entry, u64)>;
}

macro_rules! carries {
    ($message:ty, $counters:ty; $($field:ident)+) => {
        impl Carries for $message {
            type Counters = $counters;

            fn of(counters: &$counters) -> $message {
                let mut message = <$message>::default();
                $(message.$field = counters.$field;)+
                message
            }

            fn counters(&self) -> impl Iterator<Item = (&'static Entry, u64)> {
                <$counters>::TABLE.iter().zip([$(self.$field),+])
            }
        }
    };
}

weir_runtime::chain_counters!(carries { v1::ChainStats, Report });
weir_runtime::flow_counters!(carries { v1::FlowStats, FlowReport });
weir_runtime::function_counters!(carries { v1::FunctionStats, FunctionReport });
weir_io::port_counters!(carries { v1::PortStats, PortCounters });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_brings_each_counter_to_its_name() {
        let mut report = Report::default();
        for (place, value) in report.values_mut().into_iter().enumerate() {
            *value = 1 << place;
        }
        let message = v1::ChainStats::of(&report);
        assert_eq!(
            (message.packets_in, message.held),
            (report.packets_in, report.held)
        );
        assert!(message.counters().eq(report.entries()));
    }
}
