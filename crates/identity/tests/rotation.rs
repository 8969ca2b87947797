//! Folders that are right and wrong, and files that change under a process that runs.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use support::{Ca, DAY, Folder, Server, Spec, echo};
use weir_identity::{Credentials, IdentityError, Role, authority};

const COORDINATOR: &str = "spiffe://lab/weir/coordinator/c1";

fn issue(ca: &Path, folder: &Path, role: Role, name: &str) -> Credentials {
    authority::issue(ca, folder, role, name, 30 * DAY).unwrap();
    Credentials::load(folder).unwrap()
}

#[tokio::test]
async fn each_role_goes_there_and_back() {
    let folder = Folder::new();
    let ca = folder.path("ca");
    let made = authority::create(&ca, "lab", 100 * DAY).unwrap();
    assert_eq!(made.cluster, "lab");
    for server_role in [Role::Coordinator, Role::Agent] {
        let own = issue(&ca, &folder.path(server_role.name()), server_role, "s");
        let mut server = Server::start(own).await;
        for role in Role::ALL {
            let name = format!("{role}-client");
            let client = issue(&ca, &folder.path(&name), role, &name);
            let mut secured = client
                .connect(server.tcp().await, &[server_role])
                .await
                .unwrap();
            assert_eq!(
                (secured.peer().role(), secured.peer().name()),
                (server_role, "s")
            );
            let left = secured.expires().duration_since(SystemTime::now()).unwrap();
            assert!(left > 29 * DAY && left <= 30 * DAY, "{left:?}");
            echo(&mut secured).await.unwrap();
            assert_eq!(server.next().await.unwrap(), client.own());
            assert_eq!(
                client.own().to_string(),
                format!("spiffe://lab/weir/{role}/{name}")
            );
        }
    }
}

#[tokio::test]
async fn a_new_certificate_under_a_running_server() {
    let folder = Folder::new();
    let (ca, own) = (folder.path("ca"), folder.path("c1"));
    authority::create(&ca, "lab", 100 * DAY).unwrap();
    let issued = authority::issue(&ca, &own, Role::Coordinator, "c1", 10 * DAY).unwrap();
    assert!(!issued.renewed);
    let credentials = Credentials::load(&own).unwrap();
    let mut server = Server::start(credentials.clone()).await;
    let client = issue(&ca, &folder.path("ada"), Role::Operator, "ada");
    let mut before = client
        .connect(server.tcp().await, &[Role::Coordinator])
        .await
        .unwrap();
    echo(&mut before).await.unwrap();
    server.next().await.unwrap();

    assert!(!credentials.refresh().unwrap());
    let issued = authority::issue(&ca, &own, Role::Coordinator, "c1", 50 * DAY).unwrap();
    assert!(issued.renewed);
    assert!(credentials.refresh().unwrap());
    assert!(!credentials.refresh().unwrap());
    let left = credentials
        .expires()
        .duration_since(SystemTime::now())
        .unwrap();
    assert!(left > 49 * DAY, "{left:?}");

    let after = client
        .connect(server.tcp().await, &[Role::Coordinator])
        .await
        .unwrap();
    assert!(after.expires() > before.expires() + 39 * DAY);
    // The old connection goes on.
    echo(&mut before).await.unwrap();
}

/// One writes all the time, the other reads: the set that is read always fits together.
#[test]
fn a_certificate_that_is_renewed_while_it_is_read() {
    let folder = Folder::new();
    let (ca, own) = (folder.path("ca"), folder.path("a1"));
    authority::create(&ca, "lab", 100 * DAY).unwrap();
    let credentials = issue(&ca, &own, Role::Agent, "a1");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..40 {
                authority::issue(&ca, &own, Role::Agent, "a1", DAY).unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut fresh = 0;
        while !writer.is_finished() {
            fresh += u32::from(credentials.refresh().unwrap());
            Credentials::load(&own).unwrap();
        }
        assert!(fresh > 3, "{fresh}");
    });
    assert_eq!(
        fs::read_dir(&own).unwrap().count(),
        3,
        "nothing is left over"
    );
}

/// Step by step, at each of which all can speak to all.
#[tokio::test]
async fn one_authority_takes_the_place_of_another() {
    let folder = Folder::new();
    let (old, new) = (folder.path("old"), folder.path("new"));
    authority::create(&old, "lab", 100 * DAY).unwrap();
    authority::create(&new, "lab", 100 * DAY).unwrap();
    let (c1, a1) = (folder.path("c1"), folder.path("a1"));
    let coordinator = issue(&old, &c1, Role::Coordinator, "c1");
    let agent = issue(&old, &a1, Role::Agent, "a1");
    let mut server = Server::start(coordinator.clone()).await;
    let mut speak = async |expected: bool| {
        let connected = agent.connect(server.tcp().await, &[Role::Coordinator]);
        let works = match connected.await {
            Ok(mut secured) => echo(&mut secured).await.is_ok(),
            Err(_) => false,
        };
        assert_eq!(works, expected);
        assert_eq!(server.next().await.is_ok(), expected);
    };
    speak(true).await;

    // Both know both authorities.
    let [of_old, of_new] = [&old, &new].map(|ca| fs::read_to_string(ca.join("ca.pem")).unwrap());
    fs::write(old.join("ca.pem"), format!("{of_old}{of_new}")).unwrap();
    fs::write(new.join("ca.pem"), format!("{of_old}{of_new}")).unwrap();
    for (authority, ends) in [(&old, "both"), (&new, "new")] {
        authority::issue(authority, &c1, Role::Coordinator, "c1", 30 * DAY).unwrap();
        assert!(coordinator.refresh().unwrap());
        speak(true).await;
        authority::issue(authority, &a1, Role::Agent, "a1", 30 * DAY).unwrap();
        assert!(agent.refresh().unwrap(), "{ends}");
        speak(true).await;
    }

    // The old one goes. One that still has its certificate is out.
    fs::write(new.join("ca.pem"), &of_new).unwrap();
    authority::issue(&new, &c1, Role::Coordinator, "c1", 30 * DAY).unwrap();
    assert!(coordinator.refresh().unwrap());
    speak(true).await;
    authority::issue(&old, &a1, Role::Agent, "a1", 30 * DAY).unwrap();
    assert!(agent.refresh().unwrap());
    speak(false).await;
}

#[track_caller]
fn says(error: &IdentityError, parts: &[&str]) {
    for part in parts {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn wrong_new_files_are_kept_out() {
    let (folder, ca) = (Folder::new(), Ca::new());
    let own = folder.path("c1");
    let credentials = ca.credentials(&own, COORDINATOR);
    let good = ca.sign(&Spec::of(COORDINATOR));
    let now = SystemTime::now();
    let sign = |spec: Spec| ca.sign(&spec);
    let expired = sign(Spec {
        from: now - 2 * DAY,
        to: now - DAY,
        ..Spec::of(COORDINATOR)
    });
    let early = sign(Spec {
        from: now + DAY,
        to: now + 2 * DAY,
        ..Spec::of(COORDINATOR)
    });
    let nobody = sign(Spec {
        uris: vec![],
        ..Spec::of("")
    });
    let client_only = sign(Spec {
        uses: vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth],
        ..Spec::of(COORDINATOR)
    });
    let other = sign(Spec::of("spiffe://lab/weir/coordinator/c2"));
    let foreign = Ca::new().sign(&Spec::of(COORDINATOR));
    let mixed = support::Shown {
        key: other.key.clone(),
        ..good.clone()
    };
    let empty = support::Shown {
        certificate: String::new(),
        ..good.clone()
    };
    for (shown, parts) in [
        (&expired, &["cert.pem", "has expired, at"][..]),
        (&early, &["cert.pem", "is not valid before", "clock"]),
        (&nobody, &["cert.pem", "names nobody", "weir pki issue"]),
        (&client_only, &["cert.pem", "clientAuth and serverAuth"]),
        (&foreign, &["cert.pem", "no authority of ca.pem"]),
        (&mixed, &["key.pem", "not the key of cert.pem"]),
        (&empty, &["cert.pem", "no certificate"]),
        (&other, &["cert.pem", "coordinator/c2", "start again"]),
    ] {
        ca.write(&own, shown);
        says(&credentials.refresh().unwrap_err(), parts);
        // And it is said again, until somebody mends it.
        says(&credentials.refresh().unwrap_err(), parts);
        assert_eq!(credentials.own().to_string(), COORDINATOR);
    }
    fs::remove_file(own.join("key.pem")).unwrap();
    says(
        &credentials.refresh().unwrap_err(),
        &["can't read", "key.pem"],
    );

    // All the time it serves with the old ones.
    let mut server = Server::start(credentials.clone()).await;
    let client = ca.sign(&Spec::of("spiffe://lab/weir/viewer/v"));
    server.try_raw(Some(&client)).await.unwrap();
    ca.write(&own, &good);
    assert!(credentials.refresh().unwrap());
    server.try_raw(Some(&client)).await.unwrap();
}

#[test]
fn folders_that_are_wrong() {
    let (folder, ca) = (Folder::new(), Ca::new());
    let own = folder.path("c1");
    let load = || Credentials::load(&own).unwrap_err();
    says(&load(), &["can't read", "ca.pem"]);
    let good = ca.sign(&Spec::of(COORDINATOR));
    ca.write(&own, &good);
    let key = own.join("key.pem");
    for mode in [0o640, 0o604, 0o644, 0o602] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
        says(&load(), &["others may read", "chmod 600", "key.pem"]);
    }
    ca.write(&own, &good);
    Credentials::load(&own).unwrap();
    for (text, part) in [
        ("", "no certificate"),
        ("x", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\n!\n", "PEM"),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "certificate 1",
        ),
        (&good.certificate, "no authority (basic constraints)"),
        (
            &format!("{}{}", ca.pem(), good.certificate),
            "certificate 2",
        ),
        (&"x".repeat(2 << 20), "too long"),
    ] {
        fs::write(own.join("ca.pem"), text).unwrap();
        says(&load(), &["ca.pem", part]);
    }
    ca.write(&own, &good);
    for text in ["", "x", &good.certificate] {
        fs::write(&key, text).unwrap();
        says(&load(), &["key.pem", "no private key"]);
    }
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    says(&load(), &["key.pem", "no file"]);
}

#[test]
fn authorities_that_refuse() {
    let folder = Folder::new();
    let (ca, own) = (folder.path("ca"), folder.path("a1"));
    let create = |cluster, lifetime| authority::create(&ca, cluster, lifetime).unwrap_err();
    says(&create("Lab", DAY), &["lower-case"]);
    says(&create("a/b", DAY), &["a/b"]);
    says(&create("lab", Duration::ZERO), &["lifetime"]);
    says(&create("lab", 40_000 * DAY), &["lifetime"]);
    authority::create(&ca, "lab", 10 * DAY).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&ca.join("ca-key.pem")), 0o600);
    says(&create("lab", DAY), &["there already", "another folder"]);

    let issue = |ca: &Path, to: &Path, role, name| authority::issue(ca, to, role, name, 30 * DAY);
    let refused = |ca: &Path, to: &Path, role, name| issue(ca, to, role, name).unwrap_err();
    says(&refused(&ca, &own, Role::Agent, "a b"), &["a b"]);
    says(&refused(&ca, &own, Role::Agent, ""), &["name"]);
    says(&refused(&own, &own, Role::Agent, "a1"), &["ca-key.pem"]);
    says(&refused(&ca, &ca, Role::Agent, "a1"), &["another folder"]);
    let issued = issue(&ca, &own, Role::Agent, "a1").unwrap();
    assert_eq!(mode(&own.join("key.pem")), 0o600);
    // It ends with its authority.
    let left = issued.expires.duration_since(SystemTime::now()).unwrap();
    assert!(left <= 10 * DAY, "{left:?}");
    let before = fs::read(own.join("cert.pem")).unwrap();
    says(
        &refused(&ca, &own, Role::Agent, "a2"),
        &["agent/a1", "another folder"],
    );
    says(
        &refused(&ca, &own, Role::Viewer, "a1"),
        &["agent/a1", "another folder"],
    );
    assert_eq!(fs::read(own.join("cert.pem")).unwrap(), before);

    fs::set_permissions(ca.join("ca-key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    says(&refused(&ca, &own, Role::Agent, "a1"), &["chmod 600"]);
}

#[test]
fn what_is_shown_of_a_folder() {
    let folder = Folder::new();
    let (ca, own) = (folder.path("ca"), folder.path("a1"));
    assert!(authority::describe(&ca).is_err());
    authority::create(&ca, "lab", 100 * DAY).unwrap();
    authority::issue(&ca, &own, Role::Agent, "a1", DAY).unwrap();
    let of_ca = authority::describe(&ca).unwrap();
    assert!(of_ca.is_authority && of_ca.certificate.is_none() && of_ca.problem.is_none());
    assert_eq!(of_ca.authorities[0].cluster.as_deref(), Some("lab"));
    let shown = authority::describe(&own).unwrap();
    assert_eq!(shown.authorities, of_ca.authorities);
    assert!(!shown.is_authority && shown.problem.is_none());
    let (peer, from, to) = shown.certificate.unwrap();
    assert_eq!(peer.to_string(), "spiffe://lab/weir/agent/a1");
    assert!(from < SystemTime::now() - Duration::from_secs(250) && to > SystemTime::now());
    fs::remove_file(own.join("key.pem")).unwrap();
    let shown = authority::describe(&own).unwrap();
    says(&shown.problem.unwrap(), &["key.pem"]);
    assert!(shown.certificate.is_some());
}
