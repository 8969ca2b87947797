//! Conditions on the application protocol of a flow: a rule's header (`alert http ...`) and
//! `app-layer-protocol`.

use crate::app_protocol::{AppProtocol, AppProtocols};
use crate::error::{Fault, Span};
use crate::view::Application;

/// A condition on the application protocol of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppTest {
    /// The protocol; `None` is `failed`: none that the parsers know.
    pub protocol: Option<AppProtocol>,
    /// It must be another one.
    pub negated: bool,
    /// It is that of the rule's header.
    pub of_header: bool,
}

impl AppTest {
    /// True if the condition holds; false as long as nobody knows what the flow speaks.
    #[inline]
    pub(crate) fn holds(self, application: Application) -> bool {
        let known = match application {
            Application::Undecided => return false,
            Application::Known(protocol) => Some(protocol),
            Application::Other => None,
        };
        (known == self.protocol) != self.negated
    }
}

/// True if `app-layer-protocol` names a protocol that a parser knows.
pub(crate) fn is_known(value: &str, protocols: AppProtocols) -> bool {
    match split(value) {
        Some((_, "failed")) => true,
        Some((_, name)) => AppProtocol::named(name).is_some_and(|known| protocols.contains(known)),
        // A direction behind the name.
        None if value.contains(',') => false,
        // The fault is told when the rule is built.
        None => true,
    }
}

/// Whether it is negated, and the name. The second word, a direction, is not among them.
fn split(value: &str) -> Option<(bool, &str)> {
    let value = value.trim();
    let (negated, name) = match value.strip_prefix('!') {
        Some(name) => (true, name.trim_start()),
        None => (false, value),
    };
    (!name.is_empty() && !name.contains(',')).then_some((negated, name))
}

/// Reads the value of `app-layer-protocol`.
pub(crate) fn parse(text: &str, value: Span) -> Result<AppTest, Fault> {
    let fault = || {
        let message = format!(
            "`{}` is not a protocol of `app-layer-protocol`",
            value.of(text)
        );
        let names = AppProtocol::ALL.map(AppProtocol::name).join(", ");
        Fault::new(value, message).help(format!("protocols are {names} and failed"))
    };
    let (negated, name) = split(value.of(text)).ok_or_else(fault)?;
    let protocol = match name {
        "failed" => None,
        name => Some(AppProtocol::named(name).ok_or_else(fault)?),
    };
    Ok(AppTest {
        protocol,
        negated,
        of_header: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_knows_before_it_is_decided() {
        let (http, dns) = (AppProtocol::Http, AppProtocol::Dns);
        for (protocol, negated, expected) in [
            (Some(http), false, [false, true, false, false]),
            (Some(http), true, [false, false, true, true]),
            (None, false, [false, false, false, true]),
            (None, true, [false, true, true, false]),
        ] {
            let test = AppTest {
                protocol,
                negated,
                of_header: false,
            };
            let all = [
                Application::Undecided,
                Application::Known(http),
                Application::Known(dns),
                Application::Other,
            ];
            assert_eq!(
                all.map(|application| test.holds(application)),
                expected,
                "{test:?}"
            );
        }
    }

    #[test]
    fn values_are_read() {
        let read = |value: &str| parse(value, Span::new(0, value.len()));
        assert_eq!(
            read("!ssl").unwrap(),
            AppTest {
                protocol: Some(AppProtocol::Tls),
                negated: true,
                of_header: false,
            }
        );
        assert_eq!(read("failed").unwrap().protocol, None);
        for wrong in ["", "!", "smb", "http,to_server"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(!is_known("smb", AppProtocols::NONE) && is_known("!failed", AppProtocols::NONE));
    }
}
