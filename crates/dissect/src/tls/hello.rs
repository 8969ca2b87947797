//! Hellos of clients and servers (RFC 8446 sections 4.1.2 and 4.1.3).

/// A cursor over big-endian numbers and vectors.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// A number of so many bytes, at most 4.
    pub(super) fn number(&mut self, bytes: usize) -> Option<u32> {
        let number = self.take(bytes)?;
        Some(number.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
    }

    /// A vector behind its length of so many bytes.
    pub(super) fn vector(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let count = self.number(bytes)? as usize;
        self.take(count)
    }
}

/// Numbers of two bytes.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u16> + Clone {
    bytes.chunks_exact(2).map(|pair| match pair {
        [high, low] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    })
}

/// A value that is sent to keep extensible what would else ossify (RFC 8701).
pub(super) fn is_grease(word: u16) -> bool {
    word & 0x0f0f == 0x0a0a && word >> 8 == word & 0xff
}

/// A hello as far as it was read; parts that are missing are empty.
#[derive(Default, Clone, Copy)]
pub(super) struct Hello<'a> {
    /// The version in the old place.
    pub(super) version: u16,
    /// 32 bytes.
    pub(super) random: &'a [u8],
    /// Offered cipher suites, or the one that was chosen.
    pub(super) ciphers: &'a [u8],
    /// All extensions.
    pub(super) extensions: &'a [u8],
}

impl<'a> Hello<'a> {
    pub(super) fn parse(message: &'a [u8], client: bool) -> Option<Hello<'a>> {
        let mut bytes = Bytes(message);
        let version = bytes.number(2)? as u16;
        let random = bytes.take(32)?;
        bytes.vector(1)?;
        let ciphers = if client {
            let ciphers = bytes.vector(2)?;
            bytes.vector(1)?;
            ciphers
        } else {
            let cipher = bytes.take(2)?;
            bytes.take(1)?;
            cipher
        };
        Some(Hello {
            version,
            random,
            ciphers,
            extensions: bytes.vector(2).unwrap_or(&[]),
        })
    }

    /// Extensions: type and content.
    pub(super) fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + Clone + use<'a> {
        let mut bytes = Bytes(self.extensions);
        std::iter::from_fn(move || Some((bytes.number(2)? as u16, bytes.vector(2)?)))
    }

    pub(super) fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        self.extensions()
            .find(|(kind, _)| *kind == wanted)
            .map(|(_, content)| content)
    }

    /// The name that is asked for (RFC 6066 section 3).
    pub(super) fn server_name(&self) -> Option<&'a [u8]> {
        let mut list = Bytes(Bytes(self.extension(0)?).vector(2)?);
        loop {
            let kind = list.number(1)?;
            let name = list.vector(2)?;
            if kind == 0 {
                return Some(name);
            }
        }
    }

    /// The version: the highest that a client offers, the one that a server chose (RFC 8446 section 4.2.1).
    pub(super) fn version(&self, client: bool) -> u16 {
        let Some(content) = self.extension(43) else {
            return self.version;
        };
        let versions = match client {
            true => Bytes(content).vector(1).unwrap_or(&[]),
            false => content,
        };
        let offered = words(versions).filter(|&version| !is_grease(version));
        offered.max().unwrap_or(self.version)
    }
}
