//! The other ends of pairs, also in other network namespaces: their offloads
//! are what breaks packets that pass through a program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::links::{Link, Peer, Place, links};
use super::netlink::{Netlink, attribute, attributes, number};

/// Folders where network namespaces with names are.
const FOLDERS: [&str; 2] = ["/run/netns", "/var/run/netns"];
/// Most processes that are looked at for namespaces without names.
const MOST_PROCESSES: usize = 50_000;

/// Finds the other end of each `wanted` interface that has one.
pub(super) fn find(all: &mut [Link], wanted: impl Fn(&Link) -> bool) {
    let here = all.to_vec();
    let mut elsewhere: BTreeMap<i32, Option<(Place, Vec<Link>)>> = BTreeMap::new();
    for link in all {
        if link.kind.as_deref() != Some("veth") || !wanted(link) {
            continue;
        }
        let Some(index) = link.other_end.filter(|index| *index != 0) else {
            continue;
        };
        let seen = |place: &Place, links: &[Link]| {
            let found = links.iter().find(|other| other.index == index)?;
            Some(Peer::Seen {
                place: place.clone(),
                link: Box::new(found.clone()),
            })
        };
        link.peer = match link.other_namespace {
            None => seen(&Place::Here, &here),
            Some(number) => {
                let place = elsewhere.entry(number).or_insert_with(|| look_into(number));
                place.as_ref().and_then(|(place, links)| seen(place, links))
            }
        }
        .or(Some(Peer::Unseen));
    }
}

/// The namespace that this one knows by a number, and what is in it.
fn look_into(number: i32) -> Option<(Place, Vec<Link>)> {
    let (place, file) = named(number).or_else(|| of_process(number))?;
    // A thread of its own goes there, and ends there.
    let look = move || {
        let there = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
        there.ok()?;
        links().ok()
    };
    let links = std::thread::spawn(look).join().ok()??;
    Some((place, links))
}

fn named(number: i32) -> Option<(Place, File)> {
    let entries = FOLDERS.iter().filter_map(|path| fs::read_dir(path).ok());
    let mut files = entries.flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((Place::Named(name), File::open(entry.path()).ok()?))
    });
    let netlink = Netlink::route().ok()?;
    files.find(|(_, file)| number_of(&netlink, file) == Some(number))
}

fn of_process(number: i32) -> Option<(Place, File)> {
    let netlink = Netlink::route().ok()?;
    let mut known = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten().take(MOST_PROCESSES) {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let path = entry.path().join("ns/net");
        let Some((place, file)) = candidate(id, &path, &mut known) else {
            continue;
        };
        if number_of(&netlink, &file) == Some(number) {
            return Some((place, file));
        }
    }
    None
}

/// A process's namespace, unless another process has shown it.
fn candidate(id: u32, path: &Path, known: &mut Vec<u64>) -> Option<(Place, File)> {
    let inode = fs::metadata(path).ok()?.ino();
    if known.contains(&inode) {
        return None;
    }
    known.push(inode);
    Some((Place::OfProcess(id), File::open(path).ok()?))
}

/// The number by which the thread's namespace knows another.
fn number_of(netlink: &Netlink, file: &File) -> Option<i32> {
    const GET_NAMESPACE: u16 = 90;
    const NUMBER: u16 = 1;
    const DESCRIPTOR: u16 = 3;
    let mut body = vec![0; 4];
    let descriptor = file.as_fd().as_raw_fd();
    body.extend(attribute(DESCRIPTOR, &descriptor.to_ne_bytes()));
    let answer = netlink.ask(GET_NAMESPACE, &body).ok()?;
    let mut found = attributes(answer.get(4..)?);
    let (_, value) = found.find(|(kind, _)| *kind == NUMBER)?;
    number(value).map(|n| n as i32).filter(|n| *n >= 0)
}
