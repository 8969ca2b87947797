//! From text to operations: recursive descent, bounded in depth.

use core::str::FromStr;

use super::{End, Filter, FilterError, MOST_DEPTH, MOST_OPERATIONS, MOST_TEXT, Operation};
use crate::Prefix;
use crate::protocol::ip;

/// Phases of a connection, as `weir_nf::Phase` names them.
pub const PHASES: [&str; 5] = ["open", "answered", "established", "closing", "closed"];

/// A word of the text and where it stands.
type Word<'a> = (usize, &'a str);

struct Reader<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    end: usize,
    depth: usize,
    operations: Vec<Operation>,
}

impl FromStr for Filter {
    type Err = FilterError;

    /// Reads a filter; an empty text is [`Filter::all`].
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        if text.len() > MOST_TEXT {
            return Err(FilterError {
                at: MOST_TEXT,
                message: format!("a filter has at most {MOST_TEXT} octets"),
            });
        }
        let mut reader = Reader {
            words: words(text),
            next: 0,
            end: text.len(),
            depth: 0,
            operations: Vec::new(),
        };
        if reader.words.is_empty() {
            return Ok(Filter::all());
        }
        reader.either()?;
        if let Some((at, word)) = reader.peek() {
            return Err(error(
                at,
                format!("`{}` closes nothing: take it out", shown(word)),
            ));
        }
        Ok(Filter {
            operations: reader.operations,
            text: text.trim().to_owned(),
        })
    }
}

/// Words; parentheses and `!` are words of their own, `&&` and `||` are as
/// they stand.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let alone = matches!(c, '(' | ')' | '!');
        if (alone || c.is_whitespace())
            && let Some(from) = start.take()
        {
            words.push((from, &text[from..at]));
        }
        if alone {
            words.push((at, &text[at..at + 1]));
        } else if !c.is_whitespace() && start.is_none() {
            start = Some(at);
        }
    }
    if let Some(from) = start {
        words.push((from, &text[from..]));
    }
    words
}

fn error(at: usize, message: String) -> FilterError {
    FilterError { at, message }
}

/// A word as it may stand in a message.
fn shown(word: &str) -> String {
    let mut text: String = word.chars().take(40).flat_map(char::escape_debug).collect();
    if word.chars().count() > 40 {
        text.push('…');
    }
    text
}

const EXPECTED: &str = "a word such as `host`, `net`, `port`, `tcp`, `udp`, `icmp`, `ip6`, `vlan`, \
                        `chain`, `phase`, `id`, `not` or `(`";

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Word<'a>> {
        let word = self.peek();
        self.next += 1;
        word
    }

    fn push(&mut self, at: usize, operation: Operation) -> Result<(), FilterError> {
        if self.operations.len() == MOST_OPERATIONS {
            return Err(error(
                at,
                format!("a filter has at most {MOST_OPERATIONS} words"),
            ));
        }
        self.operations.push(operation);
        Ok(())
    }

    /// The word behind another that needs one.
    fn value(&mut self, behind: Word<'_>, what: &str) -> Result<Word<'a>, FilterError> {
        match self.take() {
            Some((at, "(" | ")" | "!" | "and" | "or" | "not" | "&&" | "||")) => Err(error(
                at,
                format!("`{}` needs {what} behind it", shown(behind.1)),
            )),
            Some(word) => Ok(word),
            None => Err(error(
                self.end,
                format!("`{}` needs {what} behind it", shown(behind.1)),
            )),
        }
    }

    fn either(&mut self) -> Result<(), FilterError> {
        self.both()?;
        while let Some((at, "or" | "||")) = self.peek() {
            self.take();
            self.both()?;
            self.push(at, Operation::Or)?;
        }
        Ok(())
    }

    fn both(&mut self) -> Result<(), FilterError> {
        self.one()?;
        loop {
            match self.peek() {
                None | Some((_, ")" | "or" | "||")) => return Ok(()),
                Some((at, "and" | "&&")) => {
                    self.take();
                    self.one()?;
                    self.push(at, Operation::And)?;
                }
                // Side by side is `and`, as in `tcp port 80`.
                Some((at, _)) => {
                    self.one()?;
                    self.push(at, Operation::And)?;
                }
            }
        }
    }

    fn one(&mut self) -> Result<(), FilterError> {
        let Some((at, word)) = self.take() else {
            return Err(error(self.end, format!("here must be {EXPECTED}")));
        };
        match word {
            "not" | "!" => {
                self.deeper(at)?;
                self.one()?;
                self.depth -= 1;
                self.push(at, Operation::Not)
            }
            "(" => {
                self.deeper(at)?;
                self.either()?;
                self.depth -= 1;
                match self.take() {
                    Some((_, ")")) => Ok(()),
                    _ => Err(error(at, "this `(` is not closed: add a `)`".to_owned())),
                }
            }
            _ => {
                let operation = self.word((at, word))?;
                self.push(at, operation)
            }
        }
    }

    fn deeper(&mut self, at: usize) -> Result<(), FilterError> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(error(
                at,
                format!("more than {MOST_DEPTH} `(` and `not` inside one another"),
            ));
        }
        Ok(())
    }

    fn word(&mut self, (at, word): Word<'a>) -> Result<Operation, FilterError> {
        let end = match word {
            "src" => End::Source,
            "dst" => End::Destination,
            "client" => End::Client,
            "server" => End::Server,
            _ => return self.plain((at, word), End::Either),
        };
        // `src 10.0.0.1` is `src host 10.0.0.1`, as in pcap's.
        let next = self.value((at, word), "`host`, `net` or `port`")?;
        match next.1 {
            "host" | "net" | "port" => self.plain(next, end),
            _ => host(next, end),
        }
    }

    fn plain(&mut self, (at, word): Word<'a>, end: End) -> Result<Operation, FilterError> {
        Ok(match word {
            "host" => {
                let value = self.value((at, word), "an address")?;
                return host(value, end);
            }
            "net" => {
                let value = self.value((at, word), "a prefix like `10.0.0.0/8`")?;
                return host(value, end);
            }
            "port" => {
                let value = self.value((at, word), "a port like `80`, or `80,8000-8080`")?;
                Operation::Port(end, ports(value)?)
            }
            "all" | "any" => Operation::All,
            "ip" | "ip4" | "ipv4" => Operation::Ipv4,
            "ip6" | "ipv6" => Operation::Ipv6,
            "arp" => Operation::Arp,
            "icmp6" => Operation::Protocol(ip::ICMPV6),
            "proto" => {
                let (at, text) = self.value((at, word), "a number from 0 to 255")?;
                let named = ip::NAMES.into_iter().find(|(name, _)| *name == text);
                let number = match named {
                    Some((_, number)) => Some(number),
                    None => number(text, 255).map(|number| number as u8),
                };
                Operation::Protocol(number.ok_or_else(|| {
                    error(
                        at,
                        format!("`{}` is no protocol: write a number, 0 to 255", shown(text)),
                    )
                })?)
            }
            "vlan" => {
                let id = self.peek().and_then(|(_, text)| number(text, 4_094));
                if id.is_some() {
                    self.take();
                }
                Operation::Vlan(id.map(|id| id as u16))
            }
            "chain" => {
                let (_, name) = self.value((at, word), "the name of a chain")?;
                Operation::Chain(name.to_owned())
            }
            "phase" => {
                let (at, name) = self.value((at, word), "a phase like `established`")?;
                if !PHASES.contains(&name) {
                    let (name, phases) = (shown(name), PHASES.join(", "));
                    return Err(error(
                        at,
                        format!("there is no phase `{name}`; there are {phases}"),
                    ));
                }
                Operation::Phase(name.to_owned())
            }
            "id" => {
                let (at, text) = self.value((at, word), "a flow's number")?;
                let id = number(text, u64::MAX);
                Operation::Id(id.ok_or_else(|| {
                    error(at, format!("`{}` is no number of a flow", shown(text)))
                })?)
            }
            _ => match ip::NAMES.into_iter().find(|(name, _)| *name == word) {
                Some((_, number)) => Operation::Protocol(number),
                None => return Err(unknown((at, word))),
            },
        })
    }
}

fn unknown((at, word): Word<'_>) -> FilterError {
    let hint = if word.parse::<Prefix>().is_ok() {
        format!("; write `host {word}`")
    } else if number(word, 65_535).is_some() {
        format!("; write `port {word}`")
    } else {
        String::new()
    };
    let found = shown(word);
    error(
        at,
        format!("`{found}` is not understood{hint}; here must be {EXPECTED}"),
    )
}

fn host((at, text): Word<'_>, end: End) -> Result<Operation, FilterError> {
    let prefix: Result<Prefix, _> = text.parse();
    let prefix = prefix.map_err(|why| error(at, format!("`{}` {why}", shown(text))))?;
    Ok(Operation::Host(end, prefix))
}

fn number(text: &str, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    let number: u64 = digits.then(|| text.parse().ok()).flatten()?;
    (number <= most).then_some(number)
}

/// `80`, `80-90`, or several joined by commas.
fn ports((at, text): Word<'_>) -> Result<Vec<(u16, u16)>, FilterError> {
    let port = |text: &str| number(text, 65_535).map(|port| port as u16);
    let range = |part: &str| {
        let range = match part.split_once('-') {
            Some((first, last)) => port(first).zip(port(last)),
            None => port(part).map(|port| (port, port)),
        };
        range.filter(|(first, last)| first <= last).ok_or_else(|| {
            let text = shown(part);
            error(
                at,
                format!("`{text}` is no port: write one like `80`, or `80,8000-8080`"),
            )
        })
    };
    text.split(',').map(range).collect()
}
