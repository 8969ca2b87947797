//! Conditions on numbers in messages (`dns.opcode`, `tls.version`, ...).

use crate::app_protocol::AppProtocol;
use crate::compare::Compare;
use crate::error::Fault;
use crate::raw_option::RawOption;

/// A number in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AppNumber {
    /// Operation code of a DNS message.
    DnsOpcode,
    /// Response code of a DNS message, without that of EDNS.
    DnsRcode,
    /// Type of a DNS question; one number for each.
    DnsRrtype,
    /// TLS version that was agreed on, or offered: 0x0303 is TLS 1.2.
    TlsVersion,
    /// Certificates in a TLS server's chain.
    TlsChainLength,
    /// Bytes of a file in HTTP, known at its end.
    FileSize,
}

impl AppNumber {
    /// All of them.
    pub const ALL: [AppNumber; 6] = [
        AppNumber::DnsOpcode,
        AppNumber::DnsRcode,
        AppNumber::DnsRrtype,
        AppNumber::TlsVersion,
        AppNumber::TlsChainLength,
        AppNumber::FileSize,
    ];

    /// The keyword that asks for it.
    pub fn name(self) -> &'static str {
        match self {
            AppNumber::DnsOpcode => "dns.opcode",
            AppNumber::DnsRcode => "dns.rcode",
            AppNumber::DnsRrtype => "dns.rrtype",
            AppNumber::TlsVersion => "tls.version",
            AppNumber::TlsChainLength => "tls.cert_chain_len",
            AppNumber::FileSize => "filesize",
        }
    }

    /// The number of a keyword; `ssl_version` is another one of `tls.version`.
    pub fn named(keyword: &str) -> Option<Self> {
        match keyword {
            "ssl_version" => Some(AppNumber::TlsVersion),
            keyword => Self::ALL.into_iter().find(|known| known.name() == keyword),
        }
    }

    /// True of a number of files, which several protocols have.
    pub(crate) fn is_of_files(self) -> bool {
        self == AppNumber::FileSize
    }

    /// The protocol of the messages that may have it; of a file's number that of most files.
    pub fn protocol(self) -> AppProtocol {
        match self {
            AppNumber::DnsOpcode | AppNumber::DnsRcode | AppNumber::DnsRrtype => AppProtocol::Dns,
            AppNumber::TlsVersion | AppNumber::TlsChainLength => AppProtocol::Tls,
            AppNumber::FileSize => AppProtocol::Http,
        }
    }

    /// The largest value.
    fn most(self) -> u32 {
        match self {
            AppNumber::DnsOpcode | AppNumber::DnsRcode => 15,
            AppNumber::DnsRrtype | AppNumber::TlsVersion => 0xffff,
            AppNumber::TlsChainLength | AppNumber::FileSize => u32::MAX,
        }
    }
}

/// A condition on a number of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberTest {
    /// The number.
    pub number: AppNumber,
    /// One of these holds for one of the message's numbers of this name.
    pub any: Vec<Compare>,
}

impl NumberTest {
    /// Reads an option whose keyword is that of a number.
    pub(crate) fn parse(
        text: &str,
        option: &RawOption,
        number: AppNumber,
    ) -> Result<NumberTest, Fault> {
        let value = option.value.of(text);
        let fault = |why: String| {
            let message = format!("the value of `{}`: {why}", option.keyword);
            Fault::new(option.value, message)
        };
        let any = match number {
            AppNumber::TlsVersion => value.split(',').map(version).collect(),
            number => Compare::parse(value, number.most()).map(|compare| vec![compare]),
        };
        Ok(NumberTest {
            number,
            any: any.map_err(fault)?,
        })
    }

    /// True if the condition holds for one of these numbers.
    pub(crate) fn holds(&self, numbers: &[(AppNumber, u32)]) -> bool {
        let mut own = numbers.iter().filter(|(name, _)| *name == self.number);
        own.any(|&(_, value)| self.any.iter().any(|compare| compare.holds(value)))
    }
}

/// A version of TLS, as `tls.version` or `ssl_version` write it.
fn version(word: &str) -> Result<Compare, String> {
    let word = word.trim();
    let (negated, name) = match word.strip_prefix('!') {
        Some(name) => (true, name.trim_start()),
        None => (false, word),
    };
    let code = match name {
        "sslv3" => 0x0300,
        "1.0" | "tls1.0" => 0x0301,
        "1.1" | "tls1.1" => 0x0302,
        "1.2" | "tls1.2" => 0x0303,
        "1.3" | "tls1.3" => 0x0304,
        _ => return Err(format!("`{name}` is not sslv3, 1.0, 1.1, 1.2 or 1.3")),
    };
    Ok(match negated {
        true => Compare::NotEqual(code),
        false => Compare::Equal(code),
    })
}
