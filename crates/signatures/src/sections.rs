//! A rule's conditions on bytes, by the buffers that they look at.

use crate::buffers::{Buffer, Origin};
use crate::byte_options::{self, Names};
use crate::compare::Compare;
use crate::condition::{Condition, Section};
use crate::content::Content;
use crate::content_options::{apply_content_modifier, check_contents};
use crate::data::{self, DataKind};
use crate::error::{Fault, SkipReason, Span};
use crate::literal::parse_bytes;
use crate::pcre;
use crate::raw_option::RawOption;
use crate::rule::is_beyond_contents;
use crate::transform::{MOST_CHANGES, Transform};

/// Buffer that a condition looks at, with its changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Looked {
    /// `None` is the payload or the stream.
    buffer: Option<Buffer>,
    transforms: Vec<Transform>,
}

impl Looked {
    /// A buffer as it is.
    fn at(buffer: Option<Buffer>) -> Looked {
        Looked {
            buffer,
            transforms: Vec::new(),
        }
    }
}

/// The conditions of a rule that is read.
pub(crate) struct Sections<'a> {
    text: &'a str,
    /// Conditions and what they look at, in the order of the rule.
    items: Vec<(Looked, Condition)>,
    /// What the last sticky keyword selected, and the changes behind it.
    sticky: Looked,
    /// The place of that keyword, until a condition follows.
    untouched: Option<Span>,
    /// What the contents look at, and their places, in the order of `items`.
    content_spans: Vec<(Looked, Span)>,
    names: Names,
    /// Conditions look at what the last `base64_decode` gives.
    decoded: bool,
}

impl<'a> Sections<'a> {
    /// Of a rule of this text.
    pub(crate) fn new(text: &'a str) -> Sections<'a> {
        Sections {
            text,
            items: Vec::new(),
            sticky: Looked::default(),
            untouched: None,
            content_spans: Vec::new(),
            names: Names::default(),
            decoded: false,
        }
    }

    /// Takes an option; false if it is neither a condition nor selects what conditions look at.
    pub(crate) fn take(&mut self, option: &RawOption) -> Result<bool, Fault> {
        let text = self.text;
        let keyword = option.keyword.as_str();
        match keyword {
            "content" | "uricontent" => self.content(option)?,
            "nocase" | "offset" | "depth" | "distance" | "within" | "fast_pattern"
            | "startswith" | "endswith" | "rawbytes" => {
                let mut contents = self.items.iter_mut().rev();
                let found = contents.find_map(|(_, condition)| as_content(condition));
                let Some(content) = found else {
                    return Err(Fault::new(
                        option.name,
                        format!("`{keyword}` needs a `content` before it"),
                    ));
                };
                apply_content_modifier(text, option, content, &self.names)?;
            }
            "pcre" => {
                let (pcre, buffer) = pcre::parse(text, option.value)?;
                let looked = match buffer {
                    Some(_) => Looked::at(buffer),
                    None => self.sticky.clone(),
                };
                self.add(looked, Condition::Pcre(pcre));
            }
            "pkt_data" => self.select(None, option)?,
            "base64_data" => {
                if !self.items.iter().any(|(_, condition)| is_base64(condition)) {
                    return Err(Fault::new(
                        option.name,
                        "`base64_data` needs a `base64_decode` before it",
                    ));
                }
                self.check_use()?;
                self.untouched = Some(option.name);
                self.decoded = true;
            }
            "bsize" | "urilen" => self.size(option)?,
            "filename" | "fileext" => self.file_name(option)?,
            "dataset" | "datarep" => self.data(option)?,
            "filemd5" => self.hash_list(option, DataKind::Md5, Transform::Md5)?,
            "filesha1" => self.hash_list(option, DataKind::Sha1, Transform::Sha1)?,
            "filesha256" => self.hash_list(option, DataKind::Sha256, Transform::Sha256)?,
            other if legacy_buffer(other).is_some() => {
                self.content_of(legacy_buffer(other), option)?
            }
            other if Buffer::sticky(other).is_some() => {
                self.select(Buffer::sticky(other), option)?
            }
            other if Transform::is_keyword(other) => self.transform(option)?,
            other if Buffer::modifier(other).is_some() => self.move_content(option)?,
            _ => {
                let condition = byte_options::parse(text, option, &mut self.names)?;
                let Some(condition) = condition else {
                    return Ok(false);
                };
                // A place behind the match before is one in the same buffer.
                let before = self.items.last().map(|(looked, _)| looked.clone());
                let before = before.filter(|_| condition.is_relative());
                let looked = match self.sticky.buffer {
                    None if !self.decoded => before.unwrap_or_default(),
                    _ => self.sticky.clone(),
                };
                self.add(looked, condition);
            }
        }
        Ok(true)
    }

    fn add(&mut self, looked: Looked, condition: Condition) {
        self.untouched = None;
        let mut earlier = self.items.iter_mut().rev();
        let last = earlier.find_map(|(_, condition)| match condition {
            Condition::Base64(base64) => Some(base64),
            _ => None,
        });
        match last.filter(|_| self.decoded && looked == self.sticky) {
            Some(base64) => base64.decoded.push(condition),
            None => self.items.push((looked, condition)),
        }
    }

    fn select(&mut self, buffer: Option<Buffer>, option: &RawOption) -> Result<(), Fault> {
        self.check_use()?;
        self.sticky = Looked::at(buffer);
        self.decoded = false;
        self.untouched = buffer.map(|_| option.name);
        Ok(())
    }

    /// A buffer that is selected and not looked at is a mistake: the rule would hold for anything.
    fn check_use(&self) -> Result<(), Fault> {
        let Some(at) = self.untouched else {
            return Ok(());
        };
        let message = format!("nothing is asked of the buffer `{}`", at.of(self.text));
        Err(Fault::new(at, message).help("write a condition behind it, as `content`"))
    }

    /// The contents on the payload, and all conditions; those not if there are no others and `all` are not
    /// asked for.
    pub(crate) fn finish(self, all: bool) -> Result<(Vec<Content>, Vec<Section>), Fault> {
        self.check_use()?;
        let sections = sections_of(self.items);
        let mut of_payload = Vec::new();
        for section in &sections {
            let spans = self.content_spans.iter().filter(|(looked, _)| {
                looked.buffer == section.buffer && looked.transforms == section.transforms
            });
            let spans: Vec<Span> = spans.map(|&(_, span)| span).collect();
            let contents = contents_of(&section.conditions);
            check_contents(&contents, &spans)?;
            if section.buffer.is_none() {
                of_payload = contents;
            }
        }
        let is_beyond = |section: &Section| {
            section.buffer.is_some() || section.conditions.iter().any(is_beyond_contents)
        };
        match all || sections.iter().any(is_beyond) {
            true => Ok((of_payload, sections)),
            false => Ok((of_payload, Vec::new())),
        }
    }

    /// `filename` is somewhere in a file's name, `fileext` at its end behind a dot, upper and lower case alike.
    fn file_name(&mut self, option: &RawOption) -> Result<(), Fault> {
        let (negated, mut bytes) = parse_bytes(self.text, option.value)?;
        let is_end = option.keyword == "fileext";
        if is_end {
            bytes.insert(0, b'.');
        }
        let content = Content {
            bytes,
            negated,
            nocase: true,
            ends_with: is_end,
            ..Content::default()
        };
        let looked = Looked::at(Some(Buffer::FileName));
        self.add(looked, Condition::Content(content));
        Ok(())
    }

    /// The hash of a file in a message is one of the values of a file.
    fn hash_list(
        &mut self,
        option: &RawOption,
        kind: DataKind,
        hash: Transform,
    ) -> Result<(), Fault> {
        let test = data::hash_list(self.text, option, kind)?;
        let looked = Looked {
            buffer: Some(Buffer::FileData),
            transforms: vec![hash],
        };
        self.add(looked, Condition::Data(test));
        Ok(())
    }

    /// The buffer selected is one of the values of a file.
    fn data(&mut self, option: &RawOption) -> Result<(), Fault> {
        let test = data::parse(self.text, option, false)?;
        let fault = |why: &str| Fault::new(option.value, format!("`{}` {why}", option.keyword));
        if test.kind.is_some_and(|kind| !test.takes(kind)) {
            return Err(fault("of addresses needs `ip.src` or `ip.dst` before it"));
        }
        if self.sticky.buffer.is_none() && !self.decoded {
            return Err(fault("needs the keyword of a buffer before it")
                .help("write `http.host; dataset:isset,bad,type string,load bad.lst;`"));
        }
        self.add(self.sticky.clone(), Condition::Data(test));
        Ok(())
    }

    /// A content of the buffer selected.
    fn content(&mut self, option: &RawOption) -> Result<(), Fault> {
        let (text, keyword) = (self.text, option.keyword.as_str());
        let (negated, bytes) = parse_bytes(text, option.value)?;
        let content = Condition::Content(Content {
            bytes,
            negated,
            ..Content::default()
        });
        let looked = match keyword {
            "uricontent" => Looked::at(Some(Buffer::HttpUri)),
            _ => self.sticky.clone(),
        };
        // Places of decoded contents are not compared with those of others.
        if !self.decoded || looked != self.sticky {
            let span = Span::new(option.name.start, option.value.end);
            self.content_spans.push((looked.clone(), span));
        }
        self.add(looked, content);
        Ok(())
    }

    /// The content that is the value of an old keyword for a buffer.
    fn content_of(&mut self, buffer: Option<Buffer>, option: &RawOption) -> Result<(), Fault> {
        let looked = Looked::at(buffer);
        let (negated, bytes) = parse_bytes(self.text, option.value)?;
        let content = Content {
            bytes,
            negated,
            // Hexadecimal digits of a hash may be of either case.
            nocase: buffer == Some(Buffer::TlsFingerprint),
            ..Content::default()
        };
        let span = Span::new(option.name.start, option.value.end);
        self.content_spans.push((looked.clone(), span));
        self.items.push((looked, Condition::Content(content)));
        Ok(())
    }

    /// A change of the buffer selected.
    fn transform(&mut self, option: &RawOption) -> Result<(), Fault> {
        let keyword = option.keyword.as_str();
        let fault = |why: &str| Fault::new(option.name, format!("`{keyword}` {why}"));
        let Some(buffer) = self.sticky.buffer else {
            return Err(fault("needs the keyword of a buffer before it")
                .help(format!("write `http.uri; {keyword}; content:\"...\";`")));
        };
        if buffer.info().origin == Origin::Packet {
            let skip = SkipReason::Keywords(vec![keyword.to_string()]);
            return Err(fault("is for buffers of messages only").skip(skip));
        }
        if self.untouched.is_none() {
            return Err(fault("comes before the conditions on its buffer"));
        }
        if self.sticky.transforms.len() == MOST_CHANGES {
            return Err(fault("is one change too many: a buffer has at most 16"));
        }
        let change = Transform::parse(keyword, self.text, option.value)?;
        self.sticky.transforms.extend(change);
        Ok(())
    }

    /// `bsize`, of the buffer selected, and `urilen`, of the target as normalised or sent.
    fn size(&mut self, option: &RawOption) -> Result<(), Fault> {
        let fault = |why: &str| {
            let message = format!("the value of `{}`: {why}", option.keyword);
            Fault::new(option.value, message)
        };
        let written = option.value.of(self.text);
        let (written, looked) = match option.keyword.as_str() {
            "urilen" => match written.split_once(',') {
                Some((size, kind)) if kind.trim() == "raw" => {
                    (size, Looked::at(Some(Buffer::HttpRawUri)))
                }
                Some((size, kind)) if kind.trim() == "norm" => {
                    (size, Looked::at(Some(Buffer::HttpUri)))
                }
                Some(_) => return Err(fault("only `raw` and `norm` may follow")),
                None => (written, Looked::at(Some(Buffer::HttpUri))),
            },
            _ => (written, self.sticky.clone()),
        };
        if looked.buffer.is_none() && !self.decoded {
            return Err(fault("there is no buffer before it").help("write `http.uri; bsize:3;`"));
        }
        let compare = Compare::parse(written, u32::MAX).map_err(|why| fault(&why))?;
        self.add(looked, Condition::Size(compare));
        Ok(())
    }

    /// Moves the content before a Snort-2 modifier into the modifier's buffer.
    fn move_content(&mut self, option: &RawOption) -> Result<(), Fault> {
        if self.decoded {
            let message = format!(
                "`{}` can't move a `content` behind `base64_data`",
                option.keyword
            );
            return Err(Fault::new(option.name, message));
        }
        let looked = Looked::at(Buffer::modifier(&option.keyword));
        let is_content = |item: &(Looked, Condition)| matches!(item.1, Condition::Content(_));
        let Some(place) = self.items.iter().rposition(is_content) else {
            let message = format!("`{}` needs a `content` before it", option.keyword);
            return Err(Fault::new(option.name, message));
        };
        let (_, content) = self.items.remove(place);
        self.items.push((looked.clone(), content));
        if let Some((known, _)) = self.content_spans.last_mut() {
            *known = looked;
        }
        Ok(())
    }
}

/// The buffer of a keyword whose value is a content: older ones than the sticky buffers.
pub(crate) fn legacy_buffer(keyword: &str) -> Option<Buffer> {
    Some(match keyword {
        "tls.subject" => Buffer::TlsSubject,
        "tls.issuerdn" => Buffer::TlsIssuer,
        "tls.fingerprint" => Buffer::TlsFingerprint,
        _ => return None,
    })
}

/// The conditions by buffer, in the order in which the buffers are first named.
fn sections_of(items: Vec<(Looked, Condition)>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for (Looked { buffer, transforms }, condition) in items {
        let same = |known: &&mut Section| known.buffer == buffer && known.transforms == transforms;
        match sections.iter_mut().find(same) {
            Some(known) => known.conditions.push(condition),
            None => sections.push(Section {
                buffer,
                transforms,
                conditions: vec![condition],
            }),
        }
    }
    sections
}

fn is_base64(condition: &Condition) -> bool {
    matches!(condition, Condition::Base64(_))
}

/// The content, or the last one of those behind `base64_data`.
fn as_content(condition: &mut Condition) -> Option<&mut Content> {
    match condition {
        Condition::Content(content) => Some(content),
        Condition::Base64(base64) => base64.decoded.iter_mut().rev().find_map(as_content),
        _ => None,
    }
}

fn contents_of(conditions: &[Condition]) -> Vec<Content> {
    let content = |condition: &Condition| match condition {
        Condition::Content(content) => Some(content.clone()),
        _ => None,
    };
    conditions.iter().filter_map(content).collect()
}
