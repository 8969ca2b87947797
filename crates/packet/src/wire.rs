//! Access to fields at fixed places, which all header views share.

use core::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A header does not fit into the buffer that it was to be written into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferTooSmall {
    /// Octets that the header takes.
    pub needed: usize,
    /// Octets that the buffer has.
    pub available: usize,
}

impl fmt::Display for BufferTooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a header of {} octets does not fit into {}",
            self.needed, self.available
        )
    }
}

impl core::error::Error for BufferTooSmall {}

/// The first `needed` octets of `buffer`, zeroed.
pub(crate) fn room(buffer: &mut [u8], needed: usize) -> Result<&mut [u8], BufferTooSmall> {
    let available = buffer.len();
    match buffer.get_mut(..needed) {
        Some(room) => {
            room.fill(0);
            Ok(room)
        }
        None => Err(BufferTooSmall { needed, available }),
    }
}

/// A field's type: how it looks on the wire, in `W` octets.
pub(crate) trait Wire<const W: usize>: Copy {
    /// Octets on the wire.
    const WIDTH: usize = W;
    fn from_wire(octets: [u8; W]) -> Self;
    fn to_wire(self) -> [u8; W];
}

macro_rules! numbers {
    ($($type:ty = $width:literal,)+) => {
        $(impl Wire<$width> for $type {
            #[inline(always)]
            fn from_wire(octets: [u8; $width]) -> Self {
                <$type>::from_be_bytes(octets)
            }
            #[inline(always)]
            fn to_wire(self) -> [u8; $width] {
                self.to_be_bytes()
            }
        })+
    };
}

numbers! { u8 = 1, u16 = 2, u32 = 4, u64 = 8, }

impl Wire<16> for [u8; 16] {
    #[inline(always)]
    fn from_wire(octets: [u8; 16]) -> Self {
        octets
    }
    #[inline(always)]
    fn to_wire(self) -> [u8; 16] {
        self
    }
}

impl Wire<4> for Ipv4Addr {
    #[inline(always)]
    fn from_wire(octets: [u8; 4]) -> Self {
        Ipv4Addr::from(octets)
    }
    #[inline(always)]
    fn to_wire(self) -> [u8; 4] {
        self.octets()
    }
}

impl Wire<16> for Ipv6Addr {
    #[inline(always)]
    fn from_wire(octets: [u8; 16]) -> Self {
        Ipv6Addr::from(octets)
    }
    #[inline(always)]
    fn to_wire(self) -> [u8; 16] {
        self.octets()
    }
}

/// Stops the build where a field does not lie inside its header.
pub(crate) const fn fits(at: usize, width: usize, size: usize) {
    assert!(at + width <= size);
}

/// The field at `at`, which the `views!` macro has checked to lie inside the header.
#[inline(always)]
pub(crate) fn get<T: Wire<W>, const W: usize, const N: usize>(head: &[u8; N], at: usize) -> T {
    let mut octets = [0; W];
    octets.copy_from_slice(&head[at..at + W]);
    T::from_wire(octets)
}

/// Writes the field at `at`.
#[inline(always)]
pub(crate) fn set<T: Wire<W>, const W: usize, const N: usize>(
    head: &mut [u8; N],
    at: usize,
    value: T,
) {
    head[at..at + W].copy_from_slice(&value.to_wire());
}

/// Defines a reading and a writing view of a header whose first octets are fixed.
///
/// Both hold the fixed part as an array, so that accessors need no bounds check and cannot
/// fail, and what follows as a slice. `checked by f` adds a check that both constructors make;
/// `found by flag at offset` adds a constructor from a parsed packet.
macro_rules! views {
    (
        $(#[$doc:meta])*
        $view:ident, $view_mut:ident [$size:literal] or $short:ident
        $(, checked by $check:path)?
        $(, found by $flag:ident at $offset:ident)? ;
        $($(#[$field_doc:meta])* $get:ident / $set:ident : $type:ty = $at:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $view<'a> {
            head: &'a [u8; $size],
            rest: &'a [u8],
        }

        impl<'a> $view<'a> {
            /// Octets of the fixed part of the header.
            pub const SIZE: usize = $size;

            /// Reads the header at the start of `bytes`.
            ///
            /// # Errors
            ///
            /// Too few octets, or a field that makes the rest unreadable.
            #[inline]
            pub fn new(bytes: &'a [u8]) -> Result<Self, $crate::Malformed> {
                let (head, rest) =
                    bytes.split_first_chunk::<$size>().ok_or($crate::Malformed::$short)?;
                $($check(head, rest.len())?;)?
                Ok($view { head, rest })
            }

            $(
                /// The header that a parse found; `None` where there is none.
                #[inline]
                pub fn of(bytes: &'a [u8], headers: &$crate::Headers) -> Option<Self> {
                    if !headers.$flag() {
                        return None;
                    }
                    let range = usize::from(headers.$offset)..headers.end as usize;
                    Self::new(bytes.get(range)?).ok()
                }
            )?

            /// The octets after the fixed part: options first, where the format has them.
            #[inline]
            pub const fn rest(&self) -> &'a [u8] {
                self.rest
            }

            $(
                $(#[$field_doc])*
                #[inline(always)]
                pub fn $get(&self) -> $type {
                    const { $crate::wire::fits($at, <$type as $crate::wire::Wire<_>>::WIDTH, $size) }
                    $crate::wire::get(self.head, $at)
                }
            )*
        }

        #[doc = concat!("The writing side of [`", stringify!($view), "`].")]
        #[derive(PartialEq, Eq, Debug)]
        pub struct $view_mut<'a> {
            head: &'a mut [u8; $size],
            rest: &'a mut [u8],
        }

        impl<'a> $view_mut<'a> {
            /// Opens the header at the start of `bytes`.
            ///
            /// # Errors
            ///
            #[doc = concat!("As [`", stringify!($view), "::new`].")]
            #[inline]
            pub fn new(bytes: &'a mut [u8]) -> Result<Self, $crate::Malformed> {
                let (head, rest) =
                    bytes.split_first_chunk_mut::<$size>().ok_or($crate::Malformed::$short)?;
                $($check(head, rest.len())?;)?
                Ok($view_mut { head, rest })
            }

            $(
                /// The header that a parse found; `None` where there is none.
                #[inline]
                pub fn of(bytes: &'a mut [u8], headers: &$crate::Headers) -> Option<Self> {
                    if !headers.$flag() {
                        return None;
                    }
                    let range = usize::from(headers.$offset)..headers.end as usize;
                    Self::new(bytes.get_mut(range)?).ok()
                }
            )?

            /// The same header for reading.
            #[inline]
            pub const fn view(&self) -> $view<'_> {
                $view { head: self.head, rest: self.rest }
            }

            /// The octets after the fixed part.
            #[inline]
            pub const fn rest_mut(&mut self) -> &mut [u8] {
                self.rest
            }

            $(
                $(#[$field_doc])*
                #[inline(always)]
                pub fn $get(&self) -> $type {
                    $crate::wire::get(self.head, $at)
                }

                #[doc = concat!("Writes [`", stringify!($get), "`](Self::", stringify!($get), ").")]
                #[inline(always)]
                pub fn $set(&mut self, value: $type) {
                    $crate::wire::set(self.head, $at, value);
                }
            )*
        }
    };
}

pub(crate) use views;
