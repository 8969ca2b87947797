//! Side buffers: where a flow's data may grow, out of one bounded arena.
//!
//! A buddy system over an arena reserved at start: a buffer is contiguous, a
//! power of two long, and moves to a larger block when it grows. Taking,
//! growing and giving back never allocate. The handle is a number inside the
//! flow's state block, so the platform finds every buffer of a flow (snapshot,
//! end of flow) without asking the network function.

/// Bytes of the smallest block.
pub(crate) const SMALLEST: usize = 256;
/// Bytes of the largest block, and so of the largest buffer.
pub const LARGEST: usize = 256 << (ORDERS - 1);
const ORDERS: usize = 11; // 256 B … 256 KiB
const NIL: u32 = u32::MAX;

/// The arena is used up, or the buffer reached the most it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferFull;

/// The arena and its free blocks.
#[derive(Debug)]
pub struct BufferPool {
    arena: Vec<u8>,
    /// Links of the free lists, and the order of each block that is free.
    next: Vec<u32>,
    previous: Vec<u32>,
    free_order: Vec<u8>,
    heads: [u32; ORDERS],
    in_use: usize,
    refused: u64,
}

/// A handle packs: order + 1 (8 bits; 0 = no buffer), bytes in use (24 bits),
/// block number (32 bits).
fn pack(order: usize, len: usize, block: u32) -> u64 {
    (order as u64 + 1) << 56 | (len as u64) << 32 | u64::from(block)
}

fn unpack(handle: u64) -> Option<(usize, usize, u32)> {
    let order = ((handle >> 56) as usize).checked_sub(1)?;
    Some((order, (handle >> 32 & 0xff_ffff) as usize, handle as u32))
}

impl BufferPool {
    /// An arena of `bytes`, rounded up to whole blocks of [`LARGEST`]. Pages
    /// that are never used cost nothing.
    pub fn new(bytes: usize) -> BufferPool {
        let large = bytes.div_ceil(LARGEST);
        let blocks = large * (LARGEST / SMALLEST);
        let mut pool = BufferPool {
            arena: vec![0; large * LARGEST],
            next: vec![0; blocks],
            previous: vec![0; blocks],
            free_order: vec![0; blocks],
            heads: [NIL; ORDERS],
            in_use: 0,
            refused: 0,
        };
        for i in (0..large).rev() {
            pool.put_free((i * (LARGEST / SMALLEST)) as u32, ORDERS - 1);
        }
        pool
    }

    /// Bytes of blocks that are taken.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Times a buffer could not grow because the arena was used up.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn put_free(&mut self, block: u32, order: usize) {
        let b = block as usize;
        let head = self.heads[order];
        self.next[b] = head;
        self.previous[b] = NIL;
        if head != NIL {
            self.previous[head as usize] = block;
        }
        self.heads[order] = block;
        self.free_order[b] = order as u8 + 1;
    }

    fn unlink(&mut self, block: u32, order: usize) {
        let (next, previous) = (self.next[block as usize], self.previous[block as usize]);
        if previous == NIL {
            self.heads[order] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next != NIL {
            self.previous[next as usize] = previous;
        }
        self.free_order[block as usize] = 0;
    }

    fn take(&mut self, order: usize) -> Option<u32> {
        let mut from = order;
        while self.heads[from] == NIL {
            from += 1;
            if from == ORDERS {
                self.refused += 1;
                return None;
            }
        }
        let block = self.heads[from];
        self.unlink(block, from);
        while from > order {
            from -= 1;
            self.put_free(block + (1 << from), from);
        }
        self.in_use += SMALLEST << order;
        Some(block)
    }

    fn give(&mut self, mut block: u32, mut order: usize) {
        self.in_use -= SMALLEST << order;
        while order + 1 < ORDERS {
            let buddy = block ^ (1 << order);
            if self.free_order.get(buddy as usize) != Some(&(order as u8 + 1)) {
                break;
            }
            self.unlink(buddy, order);
            block &= !(1 << order);
            order += 1;
        }
        self.put_free(block, order);
    }

    /// The buffer behind `handle`, which may grow to `limit` bytes. `changed`
    /// is set by the first write.
    pub fn open<'a>(
        &'a mut self,
        handle: &'a mut u64,
        limit: u32,
        changed: &'a mut bool,
    ) -> Buffer<'a> {
        Buffer {
            pool: self,
            handle,
            limit: limit as usize,
            changed,
        }
    }

    /// The bytes behind a handle, for a snapshot.
    pub fn bytes(&self, handle: u64) -> &[u8] {
        let Some((_, len, block)) = unpack(handle) else {
            return &[];
        };
        let start = block as usize * SMALLEST;
        self.arena.get(start..start + len).unwrap_or(&[])
    }

    /// Gives a buffer back; the handle becomes "none".
    pub fn release(&mut self, handle: &mut u64) {
        if let Some((order, _, block)) = unpack(core::mem::take(handle)) {
            self.give(block, order);
        }
    }
}

/// One side buffer: a queue of bytes that grows at the end and is consumed at
/// the front.
#[derive(Debug)]
pub struct Buffer<'a> {
    pool: &'a mut BufferPool,
    handle: &'a mut u64,
    limit: usize,
    changed: &'a mut bool,
}

impl Buffer<'_> {
    /// Bytes in it.
    pub fn len(&self) -> usize {
        unpack(*self.handle).map_or(0, |(_, len, _)| len)
    }

    /// True where nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.pool.bytes(*self.handle)
    }

    /// Its bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        *self.changed = true;
        let Some((_, len, block)) = unpack(*self.handle) else {
            return &mut [];
        };
        let start = block as usize * SMALLEST;
        self.pool
            .arena
            .get_mut(start..start + len)
            .unwrap_or(&mut [])
    }

    /// Makes it `len` bytes long; new bytes are zero.
    ///
    /// # Errors
    ///
    /// [`BufferFull`] where `len` is over the limit or the arena is used up;
    /// the buffer is as it was.
    pub fn resize(&mut self, len: usize) -> Result<(), BufferFull> {
        if len > self.limit.min(LARGEST) {
            return Err(BufferFull);
        }
        *self.changed = true;
        if len == 0 {
            self.pool.release(self.handle);
            return Ok(());
        }
        let order = (len.div_ceil(SMALLEST).next_power_of_two().trailing_zeros()) as usize;
        let (old_len, block) = match unpack(*self.handle) {
            Some((have, old_len, block)) if have >= order => {
                *self.handle = pack(have, len, block);
                (old_len, block)
            }
            other => {
                let block = self.pool.take(order).ok_or(BufferFull)?;
                let start = block as usize * SMALLEST;
                let mut old_len = 0;
                if let Some((have, used, old)) = other {
                    let from = old as usize * SMALLEST;
                    self.pool.arena.copy_within(from..from + used, start);
                    self.pool.give(old, have);
                    old_len = used;
                }
                *self.handle = pack(order, len, block);
                (old_len, block)
            }
        };
        let start = block as usize * SMALLEST;
        if let Some(grown) = self
            .pool
            .arena
            .get_mut(start + old_len.min(len)..start + len)
        {
            grown.fill(0);
        }
        Ok(())
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    ///
    /// As [`Buffer::resize`]; nothing is added then.
    pub fn extend(&mut self, bytes: &[u8]) -> Result<(), BufferFull> {
        let old = self.len();
        self.resize(old + bytes.len())?;
        if let Some(place) = self.as_mut_slice().get_mut(old..) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Takes `count` bytes (or all, if there are fewer) off the front. The
    /// block is kept until the buffer is empty.
    pub fn consume(&mut self, count: usize) {
        let len = self.len();
        if count >= len {
            self.clear();
        } else if count > 0 {
            self.as_mut_slice().copy_within(count.., 0);
            if let Some((order, _, block)) = unpack(*self.handle) {
                *self.handle = pack(order, len - count, block);
            }
        }
    }

    /// Empties it and gives its memory back.
    pub fn clear(&mut self) {
        if *self.handle != 0 {
            *self.changed = true;
            self.pool.release(self.handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_gives_everything_back() {
        let mut pool = BufferPool::new(1);
        let (mut handles, mut changed) = ([0u64; 8], false);
        let mut model: Vec<Vec<u8>> = vec![Vec::new(); 8];
        let mut seed = 7u32;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let i = (seed >> 8) as usize % 8;
            let n = (seed >> 16) as usize % 3_000;
            let mut buffer = pool.open(&mut handles[i], 20_000, &mut changed);
            match (seed >> 28) % 4 {
                0 => {
                    buffer.consume(n);
                    let cut = n.min(model[i].len());
                    model[i].drain(..cut);
                }
                1 => {
                    buffer.clear();
                    model[i].clear();
                }
                _ => {
                    let bytes: Vec<u8> = (0..n).map(|k| (k + step) as u8).collect();
                    if buffer.extend(&bytes).is_ok() {
                        model[i].extend(bytes);
                    }
                }
            }
            for (handle, expected) in handles.iter().zip(&model) {
                assert_eq!(pool.bytes(*handle), expected.as_slice(), "step {step}");
            }
        }
        handles.iter_mut().for_each(|h| pool.release(h));
        assert_eq!(pool.in_use(), 0);
        // everything merged again: the largest block is there
        assert!(
            pool.open(&mut handles[0], u32::MAX, &mut changed)
                .resize(LARGEST)
                .is_ok()
        );
    }

    #[test]
    fn limits_are_kept_and_refusals_counted() {
        let mut pool = BufferPool::new(1);
        let (mut a, mut b, mut changed) = (0u64, 0u64, false);
        assert!(!changed);
        assert_eq!(
            pool.open(&mut a, 100, &mut changed).extend(&[1; 101]),
            Err(BufferFull)
        );
        assert!(
            pool.open(&mut a, u32::MAX, &mut changed)
                .resize(LARGEST)
                .is_ok()
        );
        assert!(changed);
        assert_eq!(pool.refused(), 0);
        assert_eq!(
            pool.open(&mut b, 100, &mut changed).extend(&[1]),
            Err(BufferFull)
        );
        assert_eq!(pool.refused(), 1);
    }
}
