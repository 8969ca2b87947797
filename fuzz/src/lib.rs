//! What is fuzzed: each module's `run` takes any bytes and panics where a
//! promise is broken.

pub mod border;
pub mod capture;
pub mod chain_file;
pub mod classifier;
pub mod compression;
pub mod dissect;
pub mod engine;
pub mod http;
pub mod input;
pub mod message;
pub mod notices;
pub mod nsh;
pub mod packet_parse;
pub mod router;
pub mod rules;
pub mod seeds;
pub mod stream;
pub mod template;
pub mod traffic;
pub mod wire;

/// A target: takes any bytes, panics where a promise is broken.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 22] = [
    ("border", border::run),
    ("capture", capture::run),
    ("chain_file", chain_file::run),
    ("classifier", classifier::run),
    ("compression", compression::run),
    ("dissect_dns", dissect::dns),
    ("dissect_ftp", dissect::ftp),
    ("dissect_http", dissect::http),
    ("dissect_smtp", dissect::smtp),
    ("dissect_ssh", dissect::ssh),
    ("dissect_tls", dissect::tls),
    ("engine", engine::run),
    ("http", http::run),
    ("message", message::run),
    ("notices", notices::run),
    ("nsh", nsh::run),
    ("packet_parse", packet_parse::run),
    ("router", router::run),
    ("rules", rules::run),
    ("stream", stream::run),
    ("template", template::run),
    ("wire", wire::run),
];
