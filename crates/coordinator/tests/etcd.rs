//! A store in a real etcd, whose members are killed and stopped.

#[path = "support/etcd.rs"]
mod etcd;
#[path = "support/kept.rs"]
mod kept;

use std::time::{Duration, Instant};

use etcd::Members;
use kept::{KEPT_HOURS, entry, some};
use rustix::process::Signal;
use weir_api::v1;
use weir_coordinator::store::{Attempt, Candidate, EtcdPlace, EtcdTls, Store};

fn place(members: &Members) -> EtcdPlace {
    EtcdPlace {
        members: members.names(),
        prefix: "weir/".to_owned(),
        tls: None,
    }
}

fn candidate(members: &Members, says: &str) -> Candidate {
    Candidate::new(&place(members), says).unwrap()
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
    let other = leads(&Candidate::new(&other, "x").unwrap());
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
    // `weir/leader`.
    let body = r#"{"key":"d2Vpci9sZWFkZXI="}"#;
    members.ask(0, "/v3/kv/deleterange", body).unwrap();
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
    assert_eq!(store.import(&folder), Ok(true));
    assert_eq!((store.id(), store.load()), (id, kept.clone()));
    assert_eq!(store.import(&folder), Ok(false));
    let why = store.import(members.folder()).unwrap_err();
    assert!(why.contains("no coordinator has had that folder"), "{why}");
    store.resign();
    let next = leads(&candidate);
    assert_eq!((next.id(), next.load()), (id, kept));
    assert_eq!(next.ledger("a").unwrap(), rows);
    assert_eq!(next.prices("c").unwrap().unwrap().packets, 5);
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
    let members = Members::start_with(1, words.map(str::to_owned).to_vec());
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
    let store = leads(&Candidate::new(&with(shown(Some(own))), "c1").unwrap());
    store.put(&some("a", 1, 10)).unwrap();
    for wrong in [None, shown(None)] {
        let stranger = Candidate::new(&with(wrong), "c2").unwrap();
        let why = stranger.attempt().unwrap_err();
        assert!(why.contains("etcd at 127.0.0.1"), "{why}");
    }
    let missing = folder.join("missing.pem");
    let tls = Some(EtcdTls {
        authority: missing,
        own: None,
    });
    let why = Candidate::new(&with(tls), "c3").unwrap_err();
    assert!(why.contains("missing.pem"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}
