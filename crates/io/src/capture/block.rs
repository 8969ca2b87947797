//! Checked reads of fields in either byte order.

/// Byte order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        })
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        })
    }

    pub(super) fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        let field = *bytes.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => i64::from_le_bytes(field),
            Self::Big => i64::from_be_bytes(field),
        })
    }
}

/// Factor between a file's time stamps and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Multiply(u64),
    Divide(u64),
    /// Units of 2^-n seconds.
    Binary(u32),
}

impl Scale {
    /// The scale of pcapng option `if_tsresol` (draft-ietf-opsawg-pcapng, section 4.2).
    pub(super) fn from_tsresol(value: u8) -> Self {
        let exponent = u32::from(value & 0x7f);
        if value & 0x80 != 0 {
            Self::Binary(exponent)
        } else if exponent <= 9 {
            Self::Multiply(10u64.pow(9 - exponent))
        } else {
            // Finer than 10^-28 s no 64-bit count reaches one nanosecond.
            10u64
                .checked_pow(exponent - 9)
                .map_or(Self::Multiply(0), Self::Divide)
        }
    }

    /// Nanoseconds of `units` plus `offset_s` seconds, kept within 1970 to 2554.
    pub(super) fn nanoseconds(self, units: u64, offset_s: i64) -> u64 {
        let wide = match self {
            Self::Multiply(1) if offset_s == 0 => return units,
            Self::Multiply(factor) => u128::from(units) * u128::from(factor),
            Self::Divide(divisor) => u128::from(units / divisor),
            Self::Binary(bits) => (u128::from(units) * 1_000_000_000) >> bits,
        };
        let shifted = i128::try_from(wide)
            .unwrap_or(i128::MAX)
            .saturating_add(i128::from(offset_s) * 1_000_000_000);
        u64::try_from(shifted.max(0)).unwrap_or(u64::MAX)
    }
}
