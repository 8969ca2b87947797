//! `weir agent`: runtimes on this host for switches on others.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use weir_graph::ChainFile;
use weir_io::live::EndSignals;
use weir_nf::Sets;
use weir_nf::host::Kind;
use weir_protocol::Key;

use crate::args::{Agent as Args, ENGINE_PROCESS};
use crate::chains;
use crate::driver::ProcessCommand;
use crate::driver::link::{Agent, AgentEvent};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::counted;
use crate::program::{self, Program};
use crate::say::say;
use crate::service::Service;
use crate::version;

use super::refusals::Refusals;
use super::texts;

/// Runs the agent until it is ended.
pub(crate) fn run(args: &Args, kinds: &[Kind]) -> Outcome {
    if program::is_tried() {
        // The program takes its words. It loads no chain: it would go on with the program before's.
        return Ok(Exit::Done);
    }
    if let Some(parent) = args.parent {
        end_with(parent)?;
        // That one holds signals. An operator who ends this one alone can do so.
        let failed = |error| Failure::outside(format!("can't let signals through: {error}"));
        EndSignals::open().map_err(failed)?.release();
        texts::inherit();
    }
    let mut agent = open(args, kinds)?;
    // One of `weir up` is not what the service manager has started.
    let mut service = args.parent.is_none().then(Service::of_process);
    if let Some(service) = &service {
        service.ready();
    }
    let mut refusals = Refusals::default();
    loop {
        if let Some(service) = &mut service {
            service.alive();
        }
        agent.step(|event| match event {
            AgentEvent::Started { runtime, switch } => {
                say(format_args!(
                    "runtime {runtime} is started for the switch at {switch}"
                ));
            }
            AgentEvent::Waits { runtime } => {
                say(format_args!(
                    "warning: the switch of runtime {runtime} is gone: it waits {} s for another one",
                    args.outlive.as_secs_f64()
                ));
            }
            AgentEvent::Taken { runtime, switch } => {
                say(format_args!(
                    "runtime {runtime} is taken over by the switch at {switch}"
                ));
            }
            AgentEvent::Over { runtime, how } => {
                say(format_args!("runtime {runtime} has ended {how}"));
            }
            AgentEvent::Refused { from, why } => match refusals.tell(Instant::now()) {
                Some(0) => say(format_args!("warning: {from} is refused: {why}")),
                Some(more) => say(format_args!(
                    "warning: {from} is refused: {why}; {more} more since the last warning"
                )),
                None => {}
            },
        });
    }
}

/// The agent that the program before was, or a new one.
fn open(args: &Args, kinds: &[Kind]) -> Result<Agent, Failure> {
    let (about, bounds) = (version::own(kinds), (args.most, args.outlive));
    let resumed = Agent::resume(&command(args), &about, bounds).map_err(Failure::outside)?;
    if let Some(agent) = resumed {
        say(format_args!(
            "upgraded to weir {}: it has the {} of the program before",
            Program::own(),
            counted(agent.runtimes() as u64, "runtime")
        ));
        return Ok(agent);
    }
    let (Some(chain), Some(listen), Some(key_file)) = (&args.chain, args.listen, &args.key) else {
        return Err(Failure::usage(
            "an agent needs a chain file, `--listen` and `--key`",
        ));
    };
    let key = key(key_file)?;
    // A file that can't be run is refused here, not at each start.
    let with = (0, &Sets::default());
    let file = match args.parent.and_then(|_| texts::current()) {
        Some(texts) => chains::load_snapshot(&texts, chain, &args.set, with, kinds)?,
        None => chains::load(chain, &args.templates, &args.set, 0, kinds)?,
    };
    let agent = Agent::listen(listen, key, (command(args), about), bounds)?;
    introduce(&agent, &file)?;
    Ok(agent)
}

/// Says where it is, and for which chains.
fn introduce(agent: &Agent, file: &ChainFile) -> Result<(), Failure> {
    let at = agent.address();
    let at = at.map_err(|error| Failure::outside(error.to_string()))?;
    let names = file.chains.iter().map(|chain| chain.stage.chain.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    say(format_args!("agent for {names} on {at}"));
    Ok(())
}

/// Has this process end with the one that started it, as `weir up` does.
pub(super) fn end_with(parent: u32) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::outside(format!("can't end with process {parent}: {error}"))
    };
    weir_io::shared::end_with_parent().map_err(failed)?;
    // It may have ended before.
    let now = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
    if now.is_none_or(|now| now.get() as u32 != parent) {
        return Err(Failure::outside(format!("process {parent} has ended")));
    }
    Ok(())
}

/// How a runtime's process is started: as one of a run of the same chain file.
fn command(args: &Args) -> ProcessCommand {
    let words = [ENGINE_PROCESS, "run"].map(OsString::from);
    let mut arguments: Vec<OsString> = words.into();
    arguments.extend(args.chain.clone().map(OsString::from));
    arguments.extend(["--in", "null", "--runtimes", "1"].map(OsString::from));
    for folder in &args.templates {
        arguments.extend(["--templates".into(), folder.clone().into()]);
    }
    for set in &args.set {
        let set = format!("{}={}", set.path, set.value);
        arguments.extend(["--set".into(), set.into()]);
    }
    ProcessCommand {
        program: "/proc/self/exe".into(),
        arguments,
    }
}

/// The key in a file: 32 hexadecimal digits, which others must not read.
pub(super) fn key(path: &Path) -> Result<Key, Failure> {
    let shown = path.display();
    let outside =
        |error: std::io::Error| Failure::outside(format!("can't read the key {shown}: {error}"));
    let mode = std::fs::metadata(path)
        .map_err(outside)?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        return Err(Failure::usage(format!(
            "others may read the key {shown}: `chmod 600 {shown}` keeps it"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(outside)?;
    let text = text.trim();
    let wrong = || Failure::usage(format!("{shown} has no key: 32 hexadecimal digits"));
    let mut key = [0; 16];
    if text.len() != 32 || !text.is_ascii() {
        return Err(wrong());
    }
    for (octet, at) in key.iter_mut().zip((0..).step_by(2)) {
        let two = text.get(at..at + 2).ok_or_else(wrong)?;
        *octet = u8::from_str_radix(two, 16).map_err(|_| wrong())?;
    }
    Ok(Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_and_kept_from_others() {
        let path = std::env::temp_dir().join(format!("weir-key-{}", std::process::id()));
        let put = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            key(&path).map_err(|failure| failure.message)
        };
        let digits = "000102030405060708090a0b0c0d0e0f";
        let octets: Vec<u8> = (0..16).collect();
        assert_eq!(
            put(&format!("{digits}\n"), 0o600).unwrap().0.to_vec(),
            octets
        );
        assert!(put(digits, 0o644).unwrap_err().contains("chmod 600"));
        for wrong in [
            "",
            "0001",
            &digits.replace('f', "g"),
            &digits.replace("00", "é"),
        ] {
            assert!(
                put(wrong, 0o600).unwrap_err().contains("32 hexadecimal"),
                "{wrong}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
