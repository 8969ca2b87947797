//! Reading and writing of values: numbers, lists, options.
//!
//! Each value has one form: decoded bytes are encoded to the same again.

use super::DecodeError;

/// The bytes of a message that were not read yet.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `n` bytes.
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    /// The next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }
}

/// A value that has a form on the wire.
pub(crate) trait Field: Sized {
    /// Bytes that it takes at least: what a list's length is checked against
    /// before room for it is made.
    const LEAST: usize;

    /// Appends it.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it.
    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Appends each of them.
    fn put_all(list: &[Self], out: &mut Vec<u8>) {
        for value in list {
            value.put(out);
        }
    }

    /// Reads `count` of them, which the reader has room for.
    fn get_all(reader: &mut Reader<'_>, count: usize) -> Result<Vec<Self>, DecodeError> {
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(Self::get(reader)?);
        }
        Ok(list)
    }
}

impl Field for u8 {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn get(reader: &mut Reader<'_>) -> Result<u8, DecodeError> {
        reader.array::<1>().map(|[octet]| octet)
    }

    fn put_all(list: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(list);
    }

    fn get_all(reader: &mut Reader<'_>, count: usize) -> Result<Vec<u8>, DecodeError> {
        reader.bytes(count).map(<[u8]>::to_vec)
    }
}

macro_rules! numbers {
    ($($type:ty = $width:literal,)+) => {
        $(impl Field for $type {
            const LEAST: usize = $width;

            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn get(reader: &mut Reader<'_>) -> Result<$type, DecodeError> {
                reader.array::<$width>().map(<$type>::from_le_bytes)
            }
        })+
    };
}

numbers! { u16 = 2, u32 = 4, u64 = 8, }

/// One byte, 0 or 1.
impl Field for bool {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn get(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
        match u8::get(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Value("bool")),
        }
    }
}

/// One byte, 0 or 1, and after a 1 the value.
impl<T: Field> Field for Option<T> {
    const LEAST: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
        match bool::get(reader)? {
            true => T::get(reader).map(Some),
            false => Ok(None),
        }
    }
}

/// The number of values in four bytes, then the values.
impl<T: Field> Field for Vec<T> {
    const LEAST: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        // A message of 4 GiB is far over the most that is sent.
        (self.len() as u32).put(out);
        T::put_all(self, out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
        let count = u32::get(reader)? as usize;
        if count > reader.0.len() / T::LEAST {
            return Err(DecodeError::Count);
        }
        T::get_all(reader, count)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const LEAST: usize = A::LEAST + B::LEAST;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::get(reader)?, B::get(reader)?))
    }
}

/// Values that are their fields, one after the other.
macro_rules! fields {
    ($($type:ident { $($field:ident: $kind:ty),+ $(,)? })+) => {
        $(impl $crate::codec::field::Field for $type {
            const LEAST: usize = 0 $(+ <$kind as $crate::codec::field::Field>::LEAST)+;

            fn put(&self, out: &mut Vec<u8>) {
                $($crate::codec::field::Field::put(&self.$field, out);)+
            }

            fn get(
                reader: &mut $crate::codec::field::Reader<'_>,
            ) -> Result<$type, $crate::codec::DecodeError> {
                Ok($type { $($field: <$kind as $crate::codec::field::Field>::get(reader)?,)+ })
            }
        })+
    };
}

/// Values that are one number.
macro_rules! wrappers {
    ($($type:ident ( $kind:ty ),)+) => {
        $(impl $crate::codec::field::Field for $type {
            const LEAST: usize = <$kind as $crate::codec::field::Field>::LEAST;

            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn get(
                reader: &mut $crate::codec::field::Reader<'_>,
            ) -> Result<$type, $crate::codec::DecodeError> {
                <$kind as $crate::codec::field::Field>::get(reader).map($type)
            }
        })+
    };
}

/// Choices without fields, one byte each.
macro_rules! choices {
    ($($type:ident { $($number:literal = $variant:ident),+ $(,)? })+) => {
        $(impl $crate::codec::field::Field for $type {
            const LEAST: usize = 1;

            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $($type::$variant => $number,)+ });
            }

            fn get(
                reader: &mut $crate::codec::field::Reader<'_>,
            ) -> Result<$type, $crate::codec::DecodeError> {
                match <u8 as $crate::codec::field::Field>::get(reader)? {
                    $($number => Ok($type::$variant),)+
                    _ => Err($crate::codec::DecodeError::Value(stringify!($type))),
                }
            }
        })+
    };
}

pub(crate) use {choices, fields, wrappers};
