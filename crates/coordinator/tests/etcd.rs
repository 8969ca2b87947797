//! A store in a real etcd, whose members are killed and stopped.

#[path = "support/etcd.rs"]
mod etcd;
#[path = "support/kept.rs"]
mod kept;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etcd::Members;
use kept::{KEPT_HOURS, entry, some};
use rustix::process::Signal;
use weir_api::v1;
use weir_coordinator::store::{Attempt, Candidate, EtcdPlace, EtcdTls, Imported, Store};

/// The key `weir/leader`, as the gateway of etcd takes it.
const LEADER: &str = r#"{"key":"d2Vpci9sZWFkZXI="}"#;

fn place(members: &Members) -> EtcdPlace {
    EtcdPlace {
        members: members.names(),
        prefix: "weir/".to_owned(),
        tls: None,
    }
}

fn candidate(members: &Members, says: &str) -> Candidate {
    Candidate::new(&place(members), says, false).unwrap()
}

/// Attempts until it leads.
#[track_caller]
fn leads(candidate: &Candidate) -> Store {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match candidate.attempt() {
            Ok(Attempt::Leads(store)) => return store,
            other => assert!(Instant::now() < until, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_kept_is_there_for_the_next_leader() {
    let members = Members::start(1);
    let first = candidate(&members, "the first");
    let store = leads(&first);
    assert_eq!(store.load(), Ok((0, vec![])));
    // Larger than what etcd takes at a time.
    for taken in [some("b", 1, 10), some("a", 2, 3_500_000), some("b", 3, 20)] {
        store.put(&taken).unwrap();
    }
    let kept = (3, vec![some("a", 2, 3_500_000), some("b", 3, 20)]);
    assert_eq!(store.load(), Ok(kept.clone()));
    let start = 500_000;
    let reported = [
        entry("a", start, 1, 5),
        entry("a", start, 2, 7),
        entry("a", start + 1, 1, 1),
    ];
    store.put_ledger(&reported).unwrap();
    store.put_ledger(&[entry("a", start, 1, 9)]).unwrap();
    // Two prefixes are two stores.
    let other = EtcdPlace {
        prefix: "other/".to_owned(),
        ..place(&members)
    };
    let other = leads(&Candidate::new(&other, "x", false).unwrap());
    assert_eq!(other.load(), Ok((0, vec![])));
    assert_ne!(other.id(), store.id());

    let second = candidate(&members, "the second");
    match second.attempt() {
        Ok(Attempt::StandsBy(who)) => assert_eq!(who, "the first"),
        attempt => panic!("{attempt:?}"),
    }
    // One that is told to end makes room at once.
    let (id, term, since) = (store.id(), store.term(), Instant::now());
    store.resign();
    assert!(!store.leads());
    let next = leads(&second);
    assert!(
        since.elapsed() < Duration::from_secs(2),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(next.id(), id);
    assert!(next.term() > term);
    assert_eq!(next.load(), Ok(kept));
    // Reports that were not written yet, and those that come late, or twice.
    next.put_ledger(&[entry("a", start, 1, 6), entry("a", start, 2, 8)])
        .unwrap();
    let sums = [
        entry("a", start, 1, 9),
        entry("a", start, 2, 8),
        entry("a", start + 1, 1, 1),
    ];
    assert_eq!(next.ledger("a").unwrap(), sums);
    assert_eq!(next.ledger("b"), Ok(vec![]));
    // What is too old goes.
    next.put_ledger(&[entry("a", start + KEPT_HOURS + 1, 1, 3)])
        .unwrap();
    assert_eq!(next.ledger("a").unwrap().len(), 2);

    // The one before writes nothing any more, also where it does not know it.
    let why = store.put(&some("a", 4, 1)).unwrap_err();
    assert!(why.contains("leads no longer"), "{why}");
    next.remove("a").unwrap();
    assert_eq!(next.load(), Ok((3, vec![some("b", 3, 20)])));
    // Bills are made of what is deleted, too.
    assert_eq!(next.prices("a").unwrap().unwrap().packets, 2);
    assert_eq!(next.prices("c"), Ok(None));
}

#[test]
fn a_killed_leader_of_etcd_costs_a_write_some_time_and_no_term() {
    let mut members = Members::start(3);
    let store = leads(&candidate(&members, "the first"));
    store.put(&some("a", 1, 10)).unwrap();
    let leader = members.leader().unwrap();
    members.kill(leader);
    store.put(&some("a", 2, 2_500_000)).unwrap();
    assert!(store.leads());
    std::thread::sleep(Duration::from_secs(6));
    assert!(store.leads(), "its lease was not kept");
    members.run(leader);
    assert_eq!(store.load(), Ok((2, vec![some("a", 2, 2_500_000)])));
}

#[test]
fn one_that_etcd_does_not_hear_leads_no_longer_than_its_lease() {
    let members = Members::start(3);
    let first = candidate(&members, "the first");
    let store = leads(&first);
    store.put(&some("a", 1, 10)).unwrap();
    for member in 0..3 {
        members.signal(member, Signal::STOP);
    }
    let since = Instant::now();
    let why = store.put(&some("a", 2, 10)).unwrap_err();
    assert!(why.contains("leads no longer"), "{why}");
    assert!(!store.leads());
    let took = since.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    for member in 0..3 {
        members.signal(member, Signal::CONT);
    }
    let next = leads(&candidate(&members, "the second"));
    assert!(next.term() > store.term());
    // Whether the write was done is known to the next one.
    let (revision, all) = next.load().unwrap();
    assert!([1, 2].contains(&revision), "{revision}");
    assert_eq!(all, [some("a", revision, 10)]);
    assert!(store.put(&some("a", 9, 10)).is_err());
}

#[test]
fn what_no_coordinator_writes_is_told() {
    let members = Members::start(1);
    // `weir/version` is `7`.
    let body = r#"{"key":"d2Vpci92ZXJzaW9u","value":"Nw=="}"#;
    members.ask(0, "/v3/kv/put", body).unwrap();
    let first = candidate(&members, "the first");
    let why = first.attempt().unwrap_err();
    assert!(why.contains("version 7"), "{why}");
    // An operator takes the key of the leader away: the term ends with the next write.
    let body = r#"{"key":"d2Vpci92ZXJzaW9u"}"#;
    members.ask(0, "/v3/kv/deleterange", body).unwrap();
    let store = leads(&first);
    members.ask(0, "/v3/kv/deleterange", LEADER).unwrap();
    let why = store.put(&some("a", 1, 10)).unwrap_err();
    assert!(why.contains("another coordinator leads"), "{why}");
    assert!(!store.leads());
}

#[test]
fn one_that_was_alone_gets_an_etcd() {
    let members = Members::start(1);
    let folder = members.folder().join("alone");
    let alone = Store::open(&folder).unwrap();
    for taken in [some("b", 1, 10), some("a", 2, 2_500_000), some("c", 5, 10)] {
        alone.put(&taken).unwrap();
    }
    alone.remove("c").unwrap();
    let start = 500_000;
    let reported: Vec<v1::LedgerEntry> = (0..3_000)
        .map(|n| entry("a", start + n / 10, (n % 10) as u8, n))
        .collect();
    alone.put_ledger(&reported).unwrap();
    let (id, kept, rows) = (alone.id(), alone.load(), alone.ledger("a").unwrap());
    let candidate = candidate(&members, "the first");
    let mut store = leads(&candidate);
    // The coordinator that has it still runs.
    let why = store.import(&folder).unwrap_err();
    assert!(why.contains("another coordinator has it"), "{why}");
    drop(alone);
    let why = store.import(members.folder()).unwrap_err();
    assert!(why.contains("no coordinator has had that folder"), "{why}");
    assert_eq!(store.import(&folder), Ok(Imported::All));
    assert_eq!((store.id(), store.load()), (id, kept.clone()));
    // The word may stay where it is, also when the folder is gone.
    assert_eq!(store.import(&folder), Ok(Imported::Nothing));
    assert_eq!(store.import(members.folder()), Ok(Imported::Nothing));
    store.resign();
    let next = leads(&candidate);
    assert_eq!((next.id(), next.load()), (id, kept));
    assert_eq!(next.ledger("a").unwrap(), rows);
    assert_eq!(next.prices("c").unwrap().unwrap().packets, 5);
}

#[test]
fn an_import_is_whole_or_nobody_leads() {
    let members = Members::start(1);
    let folder = |name: &str, octets| {
        let folder = members.folder().join(name);
        let alone = Store::open(&folder).unwrap();
        alone.put(&some("a", 1, octets)).unwrap();
        alone.put(&some(name, 2, 10)).unwrap();
        (folder, alone.load(), alone.id())
    };
    let (large, ..) = folder("large", 40_000_000);
    let (small, kept, id) = folder("small", 10);
    let imports = || Candidate::new(&place(&members), "it imports", true).unwrap();
    let mut store = leads(&imports());
    // Another one leads in the middle of it.
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let key = r#"{"key":"d2Vpci9pbXBvcnRpbmc="}"#;
            let until = Instant::now() + Duration::from_secs(10);
            while !(members.ask(0, "/v3/kv/range", key).unwrap()).contains("kvs") {
                assert!(Instant::now() < until, "no import was begun");
            }
            members.ask(0, "/v3/kv/deleterange", LEADER).unwrap();
        });
        let why = store.import(&large).unwrap_err();
        assert!(why.contains("leads no longer"), "{why}");
    });
    drop(store);
    let why = candidate(&members, "the next").attempt().unwrap_err();
    assert!(
        why.contains("an import into this etcd was not finished"),
        "{why}"
    );
    // Nothing is left of the folder that was tried first.
    let mut store = leads(&imports());
    assert_eq!(store.import(&small), Ok(Imported::All));
    assert_eq!((store.load(), store.id()), (kept.clone(), id));
    store.resign();
    assert_eq!(leads(&candidate(&members, "the next")).load(), kept);
}

/// A way to a member that can be held: what was sent is kept back then, for a moment. Or it is muted: answers
/// are lost.
struct Way {
    port: u16,
    held: Arc<AtomicBool>,
    muted: Arc<AtomicBool>,
}

impl Way {
    fn to(member: &str) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let [held, muted] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let member = member.to_owned();
        let (is_held, is_muted) = (held.clone(), muted.clone());
        std::thread::spawn(move || {
            for caller in listener.incoming() {
                let caller = caller.unwrap();
                let member = TcpStream::connect(&member).unwrap();
                let (mut from, mut to) = (member.try_clone().unwrap(), caller.try_clone().unwrap());
                let is_muted = is_muted.clone();
                std::thread::spawn(move || {
                    let mut octets = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = from.read(&mut octets) {
                        if !is_muted.load(Ordering::SeqCst)
                            && to.write_all(&octets[..read]).is_err()
                        {
                            return;
                        }
                    }
                });
                let is_held = is_held.clone();
                std::thread::spawn(move || carry(caller, member, &is_held));
            }
        });
        Way { port, held, muted }
    }

    /// A candidate that takes this way, and another one where it fails.
    fn candidate(&self, members: &Members) -> Candidate {
        let mut both = place(members);
        both.members.insert(0, format!("127.0.0.1:{}", self.port));
        Candidate::new(&both, "by the way", false).unwrap()
    }
}

/// Carries what a caller says. What it says in the first second of a hold comes when the hold is over, and the
/// rest, with which it takes its calls back, never.
fn carry(mut caller: TcpStream, mut member: TcpStream, is_held: &AtomicBool) {
    let mut octets = vec![0; 1 << 16];
    let mut kept: Vec<u8> = Vec::new();
    let mut since = None;
    caller
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    loop {
        let read = match caller.read(&mut octets) {
            Ok(0) => return,
            Ok(read) => read,
            Err(_) => 0,
        };
        if is_held.load(Ordering::SeqCst) {
            let since = since.get_or_insert_with(Instant::now);
            if since.elapsed() < Duration::from_secs(1) {
                kept.extend(&octets[..read]);
            }
        } else if since.is_some() {
            member.write_all(&kept).unwrap();
            // The caller goes another way from now on.
            std::thread::sleep(Duration::from_secs(5));
            return;
        } else if member.write_all(&octets[..read]).is_err() {
            return;
        }
    }
}

#[test]
fn a_write_that_comes_late_is_not_carried_out_again() {
    let members = Members::start(1);
    let way = Way::to(&members.names()[0]);
    let store = leads(&way.candidate(&members));
    store.put(&some("a", 1, 10)).unwrap();
    // It waits in vain, and asks the next member: both have the write then.
    way.held.store(true, Ordering::SeqCst);
    let since = Instant::now();
    store.remove("a").unwrap();
    assert!(since.elapsed() > Duration::from_secs(1), "it was not held");
    store.put(&some("a", 2, 10)).unwrap();
    let revision = || members.ask(0, "/v3/kv/range", LEADER).unwrap();
    let before = revision();
    way.held.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(store.load(), Ok((2, vec![some("a", 2, 10)])));
    assert!(store.leads());
    assert_eq!(revision(), before);
}

#[test]
fn a_write_whose_answer_is_lost_is_done_once() {
    let members = Members::start(1);
    let way = Way::to(&members.names()[0]);
    let store = leads(&way.candidate(&members));
    let version = || {
        let leader = members.ask(0, "/v3/kv/range", LEADER).unwrap();
        let (_, rest) = leader.split_once("\"version\":\"").unwrap();
        rest.split('"').next().unwrap().parse::<u64>().unwrap()
    };
    let before = version();
    way.muted.store(true, Ordering::SeqCst);
    let since = Instant::now();
    store.remove("a").unwrap();
    assert!(since.elapsed() > Duration::from_secs(1), "it was not muted");
    assert!(store.leads());
    assert_eq!(version(), before + 1);
    store.put(&some("a", 1, 10)).unwrap();
    assert_eq!(store.load(), Ok((1, vec![some("a", 1, 10)])));
}

#[test]
fn an_etcd_without_room_loses_no_write() {
    let members = Members::start_small(24 << 20);
    let store = leads(&candidate(&members, "the first"));
    let mut last = 0;
    let why = loop {
        match store.put(&some("a", last + 1, 900_000)) {
            Ok(()) => last += 1,
            Err(why) => break why,
        }
        assert!(last < 1_000, "it never was full");
    };
    assert!(why.contains("space exceeded") && last > 3, "{last}: {why}");
    // Nothing can be written, and it goes on to lead.
    let full = store.put(&some("a", 5_000, 10)).unwrap_err();
    assert!(full.contains("space exceeded") && store.leads(), "{full}");
    let (revision, all) = store.load().unwrap();
    assert_eq!(revision, last, "what was refused was done");
    assert_eq!(all, [some("a", revision, 900_000)]);
    // An operator makes room.
    let leader = members.ask(0, "/v3/kv/range", LEADER).unwrap();
    let field = |name: &str| {
        let (_, rest) = leader.split_once(&format!("\"{name}\":\"")).unwrap();
        rest.split('"').next().unwrap()
    };
    let (now, member) = (field("revision"), field("member_id"));
    for (path, body) in [
        (
            "kv/compaction",
            format!("{{\"revision\":\"{now}\",\"physical\":true}}"),
        ),
        ("maintenance/defragment", "{}".to_owned()),
        (
            "maintenance/alarm",
            format!(
                "{{\"action\":\"DEACTIVATE\",\"memberID\":\"{member}\",\"alarm\":\"NOSPACE\"}}"
            ),
        ),
    ] {
        members.ask(0, &format!("/v3/{path}"), &body).unwrap();
    }
    // Each write is done, the first one behind it as well.
    store.remove("a").unwrap();
    assert_eq!(store.load(), Ok((revision, vec![])));
    store.put(&some("b", 6_000, 900_000)).unwrap();
    assert_eq!(store.load(), Ok((6_000, vec![some("b", 6_000, 900_000)])));
    assert!(store.leads());
}

/// A certificate of an authority, for the loopback.
fn issue(authority: &rcgen::Issuer<'_, rcgen::KeyPair>) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.extended_key_usages = vec![
        rcgen::ExtendedKeyUsagePurpose::ServerAuth,
        rcgen::ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let certificate = params.signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn members_and_coordinators_show_certificates() {
    let folder = std::env::temp_dir().join(format!("weir-etcd-tls-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = write("ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = rcgen::Issuer::new(params, key);
    let (theirs, their_key) = issue(&issuer);
    let (own, own_key) = issue(&issuer);
    let (theirs, their_key) = (write("etcd.pem", &theirs), write("etcd.key", &their_key));
    let own = (write("own.pem", &own), write("own.key", &own_key));
    let words = [
        "--cert-file",
        &theirs.display().to_string(),
        "--key-file",
        &their_key.display().to_string(),
        "--client-cert-auth",
        "--trusted-ca-file",
        &authority.display().to_string(),
    ];
    let members = Members::start_with(1, words.map(str::to_owned).to_vec(), 0);
    let with = |tls| EtcdPlace {
        tls,
        ..place(&members)
    };
    let shown = |own| {
        Some(EtcdTls {
            authority: authority.clone(),
            own,
        })
    };
    let store = leads(&Candidate::new(&with(shown(Some(own))), "c1", false).unwrap());
    store.put(&some("a", 1, 10)).unwrap();
    for wrong in [None, shown(None)] {
        let stranger = Candidate::new(&with(wrong), "c2", false).unwrap();
        let why = stranger.attempt().unwrap_err();
        assert!(why.contains("etcd at 127.0.0.1"), "{why}");
    }
    let missing = folder.join("missing.pem");
    let tls = Some(EtcdTls {
        authority: missing,
        own: None,
    });
    let why = Candidate::new(&with(tls), "c3", false).unwrap_err();
    assert!(why.contains("missing.pem"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}
