//! Memory: huge pages, and limits of sockets.

use std::fs;
use std::path::PathBuf;

use super::text::{read, read_number};

/// Huge pages of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HugePages {
    /// KiB of a page.
    pub kib: u64,
    /// Pages that were set aside.
    pub total: u64,
    /// Those that nobody uses and nobody has reserved.
    pub free: u64,
}

/// The memory of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Huge pages by size, the smallest first.
    pub huge: Vec<HugePages>,
    /// Mount points of file systems of huge pages.
    pub mounts: Vec<PathBuf>,
    /// When the kernel gives large pages by itself: `always`, `madvise`, `never`.
    pub transparent: Option<String>,
    /// The same for shared mappings: also `within_size`, `advise`, `deny`, `force`.
    pub transparent_shared: Option<String>,
    /// Most octets that a socket may ask to have received packets kept in.
    pub receive_buffer: Option<u64>,
    /// Most octets that a socket may ask to have sent packets kept in.
    pub send_buffer: Option<u64>,
}

impl Memory {
    pub(super) fn read() -> Memory {
        const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";
        let choice = |name| read(format!("{TRANSPARENT}/{name}")).and_then(|text| chosen(&text));
        Memory {
            huge: huge(),
            mounts: read("/proc/mounts")
                .map(|text| mounts(&text))
                .unwrap_or_default(),
            transparent: choice("enabled"),
            transparent_shared: choice("shmem_enabled"),
            receive_buffer: read_number("/proc/sys/net/core/rmem_max"),
            send_buffer: read_number("/proc/sys/net/core/wmem_max"),
        }
    }
}

fn huge() -> Vec<HugePages> {
    let folder = fs::read_dir("/sys/kernel/mm/hugepages");
    let entries = folder.into_iter().flatten().flatten();
    let mut all: Vec<HugePages> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            let number = |name: &str| read_number::<u64>(entry.path().join(name));
            Some(HugePages {
                kib: kib.parse().ok()?,
                total: number("nr_hugepages")?,
                free: number("free_hugepages")?
                    .saturating_sub(number("resv_hugepages").unwrap_or(0)),
            })
        })
        .collect();
    all.sort();
    all
}

fn mounts(table: &str) -> Vec<PathBuf> {
    let lines = table.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| PathBuf::from(place))
    });
    lines.collect()
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, after) = text.split_once('[')?;
    Some(after.split_once(']')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_and_mounts_are_read() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
        let table = "tmpfs /run tmpfs rw 0 0\nhuge /dev/hugepages hugetlbfs rw 0 0\n";
        assert_eq!(mounts(table), [PathBuf::from("/dev/hugepages")]);
    }
}
