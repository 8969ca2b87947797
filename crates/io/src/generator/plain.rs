//! Packets of a fixed set of flows: whole frames are made once, then copied and patched.

use super::content::Content;
use super::headers::{Headers, checksum, checksum_of, put, sum, sum32};
use super::popularity::Picker;
use super::random::{Random, scale};
use super::spec::{Family, GeneratorSpec, Payload, Protocol};
use super::tuples::{ClassTuples, Tuple, Tuples};
use super::values::Sizes;

/// A frame of the greatest length, and what is needed to cut it shorter.
pub(super) struct Template {
    pub(super) headers: Headers,
    pub(super) frame: Vec<u8>,
    /// Sum of the IPv4 header's words but for length and addresses.
    ip_sum: u32,
    /// Sum of the constant words that the checksum of the next header covers.
    l4_sum: u32,
    /// The n-th is the sum of the first n words of the payload.
    payload_sums: Vec<u32>,
    /// The cut of the length that all frames have, if they have one.
    pub(super) usual: Cut,
}

/// A template at one length.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub(super) length: usize,
    pub(super) ip_sum: u32,
    pub(super) l4_sum: u32,
}

impl Template {
    fn new(headers: Headers, payload: &[u8]) -> Self {
        let frame = [headers.bytes.as_slice(), payload].concat();
        let mut total = 0;
        let mut payload_sums = vec![0];
        for word in payload.as_chunks::<2>().0 {
            total += u32::from(u16::from_be_bytes(*word));
            payload_sums.push(total);
        }
        let ip_sum = match headers.class.family {
            Family::V4 => sum(headers
                .bytes
                .get(headers.ip..headers.l4)
                .unwrap_or_default()),
            Family::V6 => 0,
        };
        let l4_header = headers.bytes.get(headers.l4..).unwrap_or_default();
        let l4_sum = headers.pseudo_sum() + sum(l4_header);
        let usual = Cut {
            length: 0,
            ip_sum: 0,
            l4_sum: 0,
        };
        let mut template = Self {
            headers,
            frame,
            ip_sum,
            l4_sum,
            payload_sums,
            usual,
        };
        template.usual = template.cut(template.frame.len());
        template
    }

    fn cut(&self, length: usize) -> Cut {
        let payload_at = self.headers.bytes.len();
        let length = length.clamp(payload_at, self.frame.len());
        let payload = length - payload_at;
        let mut l4_sum = self.l4_sum + self.payload_sums.get(payload / 2).copied().unwrap_or(0);
        if payload % 2 == 1 {
            let last = self.frame.get(length - 1).copied();
            l4_sum += last.map_or(0, |last| u32::from(last) << 8);
        }
        let l4_length = (length - self.headers.l4) as u32;
        if self.headers.has_pseudo_header() {
            l4_sum += l4_length;
        }
        if self.headers.class.protocol == Protocol::Udp {
            l4_sum += l4_length; // its own length field
        }
        Cut {
            length,
            ip_sum: self.ip_sum + (length - self.headers.ip) as u32,
            l4_sum,
        }
    }

    /// Writes the frame of one flow; `None` if it doesn't fit `buffer`.
    #[inline]
    pub(super) fn write(&self, cut: Cut, tuple: Tuple, buffer: &mut [u8]) -> Option<()> {
        let frame = buffer.get_mut(..cut.length)?;
        frame.copy_from_slice(self.frame.get(..cut.length)?);
        let headers = &self.headers;
        let tuple = headers.oriented(tuple);
        let addresses = sum32(tuple.src) + sum32(tuple.dst);
        headers.put_addresses(frame, tuple);
        headers.put_ports(frame, tuple);
        let l4_length = (cut.length - headers.l4) as u16;
        match headers.class.family {
            Family::V4 => {
                put(
                    frame,
                    headers.ip + 2,
                    ((cut.length - headers.ip) as u16).to_be_bytes(),
                );
                put(
                    frame,
                    headers.ip + 10,
                    checksum(cut.ip_sum + addresses).to_be_bytes(),
                );
            }
            Family::V6 => put(frame, headers.ip + 4, l4_length.to_be_bytes()),
        }
        let protocol = headers.class.protocol;
        let mut l4_sum = cut.l4_sum;
        if headers.has_pseudo_header() {
            l4_sum += addresses;
        }
        if protocol == Protocol::Icmp {
            l4_sum += u32::from(headers.echo_id(tuple));
        } else {
            l4_sum += u32::from(tuple.sport) + u32::from(tuple.dport);
        }
        if protocol == Protocol::Udp {
            put(frame, headers.l4 + 4, l4_length.to_be_bytes());
        }
        let checksum = checksum_of(protocol, l4_sum);
        put(frame, headers.checksum_at(), checksum.to_be_bytes());
        Some(())
    }
}

/// Frames of a fixed set of flows.
pub(super) struct Plain {
    tuples: Tuples,
    sizes: Sizes,
    /// By class, then direction, then variant of the payload; classes that don't occur have none.
    templates: [[Vec<Template>; 2]; 6],
    /// Flows that were seen from inside, one bit each; only with both directions.
    opened: Option<Vec<u64>>,
}

impl Plain {
    pub(super) fn new(spec: &GeneratorSpec) -> Self {
        let content = Content::new(spec);
        let tuples = Tuples::new(spec);
        let longest = spec.sizes.longest() as usize;
        let variants = match spec.payload {
            Payload::Zero => 1,
            Payload::Random | Payload::Text => 16,
            Payload::Http => 64,
        };
        let mut templates: [[Vec<Template>; 2]; 6] = Default::default();
        for class in tuples.classes() {
            for outside in [false, true] {
                let made = (0..variants).map(|variant| {
                    let headers = Headers::new(spec, class, outside);
                    let length = longest.saturating_sub(headers.bytes.len());
                    Template::new(headers, &content.stretch(outside, variant * 16, length))
                });
                if let Some(place) = templates.get_mut(class.index()) {
                    place[usize::from(outside)] = made.collect();
                }
            }
        }
        let words = spec.flows.div_ceil(64) as usize;
        Self {
            tuples,
            sizes: spec.sizes.clone(),
            templates,
            opened: spec.both.then(|| vec![0; words]),
        }
    }

    /// The template, class and flows, if no packet needs another choice than that of its flow.
    pub(super) fn only_choice(&self) -> Option<(&Template, ClassTuples)> {
        let mut templates = self.templates.iter().flat_map(|[inside, _]| inside);
        let (template, None) = (templates.next()?, templates.next()) else {
            return None;
        };
        let fixed = matches!(self.sizes, Sizes::Fixed(_)) && self.opened.is_none();
        fixed.then(|| (template, *self.tuples.of_class(template.headers.class)))
    }

    /// Writes the next frame: its length, and whether it comes from outside.
    pub(super) fn write(
        &mut self,
        picker: &mut Picker,
        random: &mut Random,
        buffer: &mut [u8],
    ) -> Option<(usize, bool)> {
        let flow = picker.pick(random.next());
        let outside = self.opened.is_some() && self.direction(flow, random);
        let class = self.tuples.class(flow);
        let [inside_templates, outside_templates] = self.templates.get(class.index())?;
        let variants = if outside {
            outside_templates
        } else {
            inside_templates
        };
        let template = match variants.as_slice() {
            [only] => only,
            several => several.get(scale(random.next(), several.len() as u32) as usize)?,
        };
        let cut = match &self.sizes {
            Sizes::Fixed(_) => template.usual,
            sizes => template.cut(sizes.draw(random) as usize),
        };
        template.write(cut, self.tuples.tuple(class, flow), buffer)?;
        Some((cut.length, outside))
    }

    /// True if the next packet of a flow comes from outside: never the first one.
    fn direction(&mut self, flow: u32, random: &mut Random) -> bool {
        let words = self.opened.as_mut();
        let Some(word) = words.and_then(|words| words.get_mut(flow as usize / 64)) else {
            return false;
        };
        let bit = 1u64 << (flow % 64);
        let known = *word & bit != 0;
        *word |= bit;
        known && random.percent(50)
    }
}
