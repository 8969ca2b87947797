//! Large pages.
//!
//! # Safety
//!
//! `madvise` with `MADV_HUGEPAGE` changes how memory is mapped, not what is in
//! it, and the range lies inside the slice that the caller has exclusively.

/// Asks for large pages behind `memory`. Where the system has none the memory
/// stays as it is; nothing depends on it but speed.
#[allow(unsafe_code)]
pub fn advise_large_pages(memory: &mut [u8]) {
    const LARGE: usize = 2 << 20;
    let skip = memory.as_ptr().align_offset(LARGE);
    let Some(aligned) = memory.get_mut(skip..) else {
        return;
    };
    let length = aligned.len() / LARGE * LARGE;
    if length > 0 {
        // SAFETY: module documentation.
        let _ = unsafe {
            rustix::mm::madvise(
                aligned.as_mut_ptr().cast(),
                length,
                rustix::mm::Advice::LinuxHugepage,
            )
        };
    }
}
