//! Where a coordinator keeps what was applied, as its words say.

use std::path::PathBuf;

use weir_coordinator::store::{EtcdPlace, EtcdTls};

use crate::args::Coordinator as Args;
use crate::exit::Failure;

/// A place for a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This coordinator is the only one.
    Folder(PathBuf),
    /// One of several coordinators leads.
    Etcd(EtcdPlace),
}

impl Place {
    pub(super) fn of(args: &Args) -> Result<Place, Failure> {
        let Some(members) = args.store.strip_prefix("etcd:") else {
            let word = match (&args.etcd_ca, &args.import) {
                (Some(_), _) => "--etcd-ca",
                (None, Some(_)) => "--import",
                (None, None) => return Ok(Place::Folder(PathBuf::from(&args.store))),
            };
            return Err(Failure::usage(format!(
                "`{word}` is of a store in etcd: `--store etcd:HOST:PORT`"
            )));
        };
        let members: Vec<String> = members.split(',').map(str::to_owned).collect();
        if let Some(wrong) = members.iter().find(|member| !is_member(member)) {
            return Err(Failure::usage(format!(
                "`{wrong}` is no member of an etcd: expected `HOST:PORT`, as in \
                 `--store etcd:10.0.9.1:2379,10.0.9.2:2379`"
            )));
        }
        let prefix = args.etcd_prefix.trim_end_matches('/');
        if prefix.is_empty() || prefix.contains(char::is_control) {
            return Err(Failure::usage(
                "`--etcd-prefix` is empty, or has control characters: `weir/` is the usual one",
            ));
        }
        let own = args.etcd_cert.clone().zip(args.etcd_key.clone());
        Ok(Place::Etcd(EtcdPlace {
            members,
            prefix: format!("{prefix}/"),
            tls: (args.etcd_ca.clone()).map(|authority| EtcdTls { authority, own }),
        }))
    }
}

fn is_member(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        !host.is_empty() && host.chars().all(fits) && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: Args,
    }

    fn read(words: &[&str]) -> Result<Place, String> {
        let words = ["x"].into_iter().chain(words.iter().copied());
        let words = Words::try_parse_from(words).map_err(|why| why.to_string())?;
        Place::of(&words.args).map_err(|why| why.message)
    }

    #[test]
    fn places_are_read() {
        assert_eq!(read(&["--store", "x"]), Ok(Place::Folder("x".into())));
        // A unit has a store already: the later word counts.
        let place = read(&[
            "--store",
            "x",
            "--store",
            "etcd:a:1,[::1]:2",
            "--etcd-prefix",
            "lab",
        ]);
        assert_eq!(
            place,
            Ok(Place::Etcd(EtcdPlace {
                members: vec!["a:1".to_owned(), "[::1]:2".to_owned()],
                prefix: "lab/".to_owned(),
                tls: None,
            }))
        );
        for wrong in [
            "etcd:",
            "etcd:a",
            "etcd:a:0",
            "etcd:a:1,",
            "etcd:http://a:1",
        ] {
            let why = read(&["--store", wrong]).unwrap_err();
            assert!(why.contains("is no member of an etcd"), "{wrong}: {why}");
        }
        assert!(read(&["--store", "etcd:a:1", "--etcd-prefix", "/"]).is_err());
        assert!(read(&["--store", "x", "--etcd-ca", "ca.pem"]).is_err());
        assert!(read(&["--store", "x", "--import", "y"]).is_err());
        assert!(read(&["--store", "etcd:a:1", "--etcd-cert", "c", "--etcd-key", "k"]).is_err());
    }
}
