//! Who speaks to whom in a cluster: certificates with roles, and connections between those that
//! have one.
//!
//! A [`Credentials`] is a folder of three files: `cert.pem`, `key.pem` and `ca.pem`. It makes one
//! end of a connection out of a TCP stream: [`Credentials::accept`] as the server,
//! [`Credentials::connect`] as the client. Both ends show a certificate of the same cluster, or
//! there is no connection. Then [`Secured::peer`] says who the other end is, and the caller asks
//! for the [`Role`] that a command needs.
//!
//! ```
//! use std::time::Duration;
//! use weir_identity::{Credentials, Refused, Role, authority};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = std::env::temp_dir().join(format!("weir-identity-doc-{}", std::process::id()));
//! let (day, ca) = (Duration::from_secs(86_400), folder.join("ca"));
//! authority::create(&ca, "lab", 365 * day)?;
//! for (role, name) in [(Role::Coordinator, "c1"), (Role::Operator, "ada")] {
//!     authority::issue(&ca, &folder.join(name), role, name, 30 * day)?;
//! }
//! let coordinator = Credentials::load(&folder.join("c1"))?;
//! let ada = Credentials::load(&folder.join("ada"))?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let tcp = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
//! let (accepted, connected) = tokio::join!(
//!     async { coordinator.accept(listener.accept().await.unwrap().0).await },
//!     ada.connect(tcp, &[Role::Coordinator]),
//! );
//! assert_eq!(accepted?.peer().to_string(), "spiffe://lab/weir/operator/ada");
//! assert_eq!(connected?.peer().role(), Role::Coordinator);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - TLS 1.3 alone. Each handshake is a whole one: neither side resumes a session or takes early
//!   data, so bytes that somebody has recorded are of no use against either.
//! - A peer is known by its SPIFFE id (`spiffe://CLUSTER/weir/ROLE/NAME`), not by a host name. Its
//!   cluster must be that of this side, also where both have the same authority.
//! - All of a handshake takes at most [`HANDSHAKE_LIMIT`].
//! - Times are looked at when a connection is made. One that lives on is not closed when the peer's
//!   certificate expires: [`Secured::expires`] says when that is.
//! - Nobody is asked whether a certificate was revoked: give short lifetimes, and change the
//!   authority to shut somebody out at once.

#![forbid(unsafe_code)]

pub mod authority;
mod certificate;
mod credentials;
mod error;
mod files;
mod handshake;
mod peer;
mod refused;
mod secured;
mod set;
mod time;
mod verify;

pub use credentials::Credentials;
pub use error::IdentityError;
pub use handshake::HANDSHAKE_LIMIT;
pub use peer::{Peer, Role, check_cluster, check_name};
pub use refused::Refused;
pub use secured::Secured;
pub use time::utc;
