//! Short texts put together without allocation.

use core::fmt;

/// At most `N` bytes of text; what is beyond is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Name<N> {
    pub(crate) fn new(start: &str) -> Name<N> {
        let mut name = Name {
            bytes: [0; N],
            len: 0,
        };
        name.add(start.as_bytes());
        name
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    pub(crate) fn add(&mut self, text: &[u8]) {
        if let Some(rest) = self.bytes.get_mut(self.len..) {
            let count = text.len().min(rest.len());
            rest[..count].copy_from_slice(&text[..count]);
            self.len += count;
        }
    }

    pub(crate) fn number(&mut self, value: u64) {
        // Writing here never fails: what does not fit is left out.
        let _ = fmt::Write::write_fmt(self, format_args!("{value}"));
    }
}

impl<const N: usize> fmt::Write for Name<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut name = Name::<8>::new("vlan.");
        name.number(42);
        assert_eq!(name.as_bytes(), b"vlan.42");
        name.number(17);
        assert_eq!(name.as_bytes(), b"vlan.421");
        name.add(b"more");
        assert_eq!(name.as_bytes(), b"vlan.421");
    }
}
