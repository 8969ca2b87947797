//! The store of the only coordinator.

#[path = "support/kept.rs"]
mod kept;

use kept::{KEPT_HOURS, entry, some};
use weir_coordinator::store::Store;

#[test]
fn what_is_kept_is_there_again() {
    let folder = std::env::temp_dir().join(format!("weir-store-{}", std::process::id()));
    let store = Store::open(&folder).unwrap();
    assert_eq!(store.load(), Ok((0, vec![])));
    for taken in [some("b", 1, 300), some("a", 2, 300), some("b", 3, 300)] {
        store.put(&taken).unwrap();
    }
    assert_eq!(
        store.load(),
        Ok((3, vec![some("a", 2, 300), some("b", 3, 300)]))
    );
    store.remove("b").unwrap();
    let why = Store::open(&folder).unwrap_err();
    assert!(why.contains("another coordinator has it"), "{why}");
    let id = store.id();
    drop(store);
    let store = Store::open(&folder).unwrap();
    assert_eq!(store.load(), Ok((3, vec![some("a", 2, 300)])));
    assert_eq!(store.id(), id);
    // Bills are made of what is deleted, too.
    assert_eq!(store.prices("b").unwrap().unwrap().packets, 3);
    assert_eq!(store.prices("c"), Ok(None));
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_report_of_a_ledger_may_come_twice_and_late() {
    let folder = std::env::temp_dir().join(format!("weir-ledgers-{}", std::process::id()));
    let store = Store::open(&folder).unwrap();
    let start = 500_000;
    store
        .put_ledger(&[entry("a", start, 1, 5), entry("a", start, 2, 7)])
        .unwrap();
    store
        .put_ledger(&[entry("a", start, 1, 9), entry("ab", start, 1, 1)])
        .unwrap();
    store.put_ledger(&[entry("a", start, 1, 5)]).unwrap();
    store.put_ledger(&[]).unwrap();
    drop(store);
    let store = Store::open(&folder).unwrap();
    let kept = [entry("a", start, 1, 9), entry("a", start, 2, 7)];
    assert_eq!(store.ledger("a").unwrap(), kept);
    // What is too old goes.
    let late = entry("ab", start + KEPT_HOURS + 1, 1, 2);
    store.put_ledger(std::slice::from_ref(&late)).unwrap();
    assert_eq!(store.ledger("a"), Ok(vec![]));
    assert_eq!(store.ledger("ab"), Ok(vec![late]));
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}
