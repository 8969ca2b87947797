//! The program of a process, and others that may take its place: which one it is, what it works
//! with, and how a process becomes another one (docs/upgrade.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use weir_ctl::upgrade::StateChange;
use weir_io::shared::Channel;
use weir_nf::host::{Kind, Versions};

/// Longest time in which a program says what it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same where it loads chains first.
const PATIENCE_TRIAL: Duration = Duration::from_secs(20);
/// Longest time from its last word to its end, and the interval in which that is looked for.
const LAST: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);
/// The variable that tells a process that it is tried.
const TRIES: &str = "WEIR_TRIES";
/// Octets of the longest answer.
const MOST_SAID: u64 = 1 << 20;
/// Octets of the longest message to the program that a process becomes.
const LONGEST: usize = 4 << 20;
/// Octets of a program that are read at a time.
const CHUNK: usize = 1 << 20;
/// The variable that tells a process that it was another program before: its own number.
const RESUMES: &str = "WEIR_RESUMES";
/// The file that this process runs.
const SELF: &str = "/proc/self/exe";

/// A program, as one tells it from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) version: String,
    /// Stands for its file: 16 hexadecimal digits. Two builds of one version differ in it.
    pub(crate) digest: String,
}

/// What a program is and works with, as `weir version --output json` says it. Another release reads
/// it: names may be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    #[serde(flatten)]
    pub(crate) program: Program,
    /// Versions of what processes say to one another, by its name.
    speaks: BTreeMap<String, Vec<u32>>,
    /// Versions of the states of functions, by their names.
    functions: BTreeMap<String, States>,
}

/// Versions of a function's states that it reads, the one that it writes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct States {
    state: (u16, u16),
    flow_state: (u16, u16),
}

/// What this program is. It is found out when somebody asks, since all of its file is read for that.
pub(crate) type OwnAbout = Arc<LazyLock<About, Box<dyn FnOnce() -> About + Send>>>;

/// A program that may take the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// The one at this path of the host.
    Path(PathBuf),
    /// The one before.
    Former,
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.version, self.digest)
    }
}

impl Program {
    /// That of this process.
    pub(crate) fn own() -> &'static Program {
        static OWN: OnceLock<Program> = OnceLock::new();
        OWN.get_or_init(|| Program {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            // Without the file of its own program a process can't be told from others.
            digest: File::open(SELF).and_then(digest).map_or_else(
                |_| format!("?{}", std::process::id()),
                |digest| format!("{digest:016x}"),
            ),
        })
    }
}

/// A number for the content of a file. A program tells its own alone, so all that is asked of it is
/// that one program counts the same each time.
fn digest(mut file: File) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut some = vec![0; CHUNK];
    loop {
        match file.read(&mut some)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(some.get(..read).unwrap_or(&[])),
        }
    }
}

impl About {
    /// This program, which speaks these versions and has these functions.
    pub(crate) fn own(speaks: &[(&str, u32)], kinds: &[Kind]) -> About {
        let pair = |versions: Versions| (versions.oldest, versions.newest);
        let functions = kinds.iter().map(|kind| {
            let states = States {
                state: pair(kind.state),
                flow_state: pair(kind.flow_state),
            };
            (kind.descriptor.name.to_owned(), states)
        });
        About {
            program: Program::own().clone(),
            speaks: speaks
                .iter()
                .map(|(name, version)| ((*name).to_owned(), vec![*version]))
                .collect(),
            functions: functions.collect(),
        }
    }

    /// Why `next` and this one can't work side by side, for people.
    pub(crate) fn incompatible_with(&self, next: &About) -> Option<String> {
        let speaks_none = |(name, here): (&String, &Vec<u32>)| {
            let there = next.speaks.get(name).map_or(&[][..], Vec::as_slice);
            let shares = here.iter().any(|version| there.contains(version));
            (!shares).then(|| {
                format!(
                    "weir {} and {} can't work side by side: of `{name}` the one speaks version \
                     {}, the other {}",
                    self.program.version,
                    next.program.version,
                    numbers(here),
                    numbers(there),
                )
            })
        };
        self.speaks.iter().find_map(speaks_none)
    }

    /// States of these functions that `next` has in another version.
    ///
    /// # Errors
    ///
    /// `next` lacks a function, or does not read the states that there are: why, for people.
    pub(crate) fn state_changes(
        &self,
        next: &About,
        functions: &[String],
    ) -> Result<Vec<StateChange>, String> {
        let mut changes = Vec::new();
        for name in functions {
            let Some(here) = self.functions.get(name) else {
                continue;
            };
            let there = next
                .functions
                .get(name)
                .ok_or_else(|| format!("weir {} has no function `{name}`", next.program.version))?;
            let pairs = [
                (here.state, there.state),
                (here.flow_state, there.flow_state),
            ];
            for ((oldest_here, from), (oldest, to)) in pairs {
                if !(oldest..=to).contains(&from) {
                    return Err(format!(
                        "the state of `{name}` has version {from}, and weir {} reads {oldest} to {to}",
                        next.program.version
                    ));
                }
                if from != to {
                    changes.push(StateChange {
                        function: name.clone(),
                        from,
                        to,
                        goes_back: (oldest_here..=from).contains(&to),
                    });
                }
            }
        }
        Ok(changes)
    }
}

fn numbers(versions: &[u32]) -> String {
    match versions {
        [] => "none".to_owned(),
        all => all
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

/// The path of an open file, for this process and what it starts.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Opens a program: it stays that one, whatever becomes of its file.
///
/// # Errors
///
/// There is none, for people.
fn open(path: &Path) -> Result<File, String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("{shown}: give an absolute path"));
    }
    let failed = |error: io::Error| format!("{shown}: {error}");
    // One of another kind than a file is refused below, and must not be waited for.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let mode = about.permissions().mode();
    if !about.is_file() || mode & 0o111 == 0 {
        return Err(format!("{shown} is no program"));
    }
    // Who has the cluster's key may name any file.
    let own = rustix::process::geteuid().as_raw();
    if mode & 0o002 != 0 || !(about.uid() == 0 || about.uid() == own) {
        return Err(format!(
            "{shown}: others may change it: `chown` and `chmod` keep it to root, or to the user that \
             weir runs as"
        ));
    }
    Ok(file)
}

/// The file of the program of this process.
pub(crate) fn open_own() -> io::Result<File> {
    File::open(SELF)
}

/// A program, once it was seen to work beside the one that is `own`, and in the place of this process's.
///
/// # Errors
///
/// There is none, or it does not: why, for people.
pub(crate) fn find(own: &About, target: &Target) -> Result<(File, About), String> {
    let (file, shown) = match target {
        Target::Path(path) => (open(path)?, path.display().to_string()),
        Target::Former => {
            let former = FORMER.get().map(File::try_clone);
            let former = former.ok_or("it was no other program before")?;
            let former = former.map_err(|error| error.to_string())?;
            (former, "the program before".to_owned())
        }
    };
    let about = ask(&file).map_err(|why| format!("{shown}: {why}"))?;
    if let Some(why) = own.incompatible_with(&about) {
        return Err(why);
    }
    try_words(&file).map_err(|why| format!("{shown}: {why}"))?;
    Ok((file, about))
}

/// Asks a program what it is.
///
/// # Errors
///
/// It does not run, or is not weir, for people.
fn ask(program: &File) -> Result<About, String> {
    let mut command = Command::new(path_of(program));
    command.args(["version", "--output", "json"]);
    let (is_well, said) = heard(&mut command, PATIENCE)?;
    let about = serde_json::from_slice(&said).ok();
    about.filter(|_| is_well).ok_or_else(|| {
        "it is no weir that can be asked what it is (`version --output json`)".to_owned()
    })
}

/// Has a program take the words of this process and load its chains, and no more: what it can't take is
/// found while there is a way back.
///
/// # Errors
///
/// It can't take them, for people.
fn try_words(program: &File) -> Result<(), String> {
    let mut command = Command::new(path_of(program));
    command.args(std::env::args_os().skip(1)).env(TRIES, "1");
    crate::kept::pass_on(&mut command);
    match heard(&mut command, PATIENCE_TRIAL)? {
        (true, _) => Ok(()),
        (false, said) => Err(format!(
            "it does not take this process's words and chains: {}",
            String::from_utf8_lossy(&said).trim()
        )),
    }
}

/// This process is to take its words, load its chains, and end ([`try_words`]).
pub(crate) fn is_tried() -> bool {
    std::env::var_os(TRIES).is_some()
}

/// Runs a command for so long at most: whether it has ended well, and what it said.
fn heard(command: &mut Command, patience: Duration) -> Result<(bool, Vec<u8>), String> {
    let failed = |error: io::Error| format!("it can't be started: {error}");
    let (ours, theirs) = io::pipe().map_err(failed)?;
    let errors = theirs.try_clone().map_err(failed)?;
    command
        .stdin(Stdio::null())
        .stdout(theirs)
        .stderr(errors)
        .process_group(0);
    let mut child = command.spawn().map_err(failed)?;
    // The command has the other ends of the pipe, and they would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, heard) = std::sync::mpsc::channel();
    let listening = std::thread::Builder::new()
        .name("program".to_owned())
        .spawn(move || {
            let mut said = Vec::new();
            let read = ours.take(MOST_SAID).read_to_end(&mut said);
            // Nobody may wait any more.
            let _ = sender.send(read.map(|_| said));
        });
    let said = match listening {
        // What it has started may hold the pipe for longer than itself.
        Ok(_) => heard.recv_timeout(patience).ok(),
        Err(_) => None,
    };
    let until = Instant::now() + LAST;
    let mut status = child.try_wait().ok().flatten();
    while said.is_some() && status.is_none() && Instant::now() < until {
        std::thread::sleep(LOOK);
        status = child.try_wait().ok().flatten();
    }
    match (said, status) {
        (Some(Ok(said)), Some(status)) => Ok((status.success(), said)),
        _ => {
            // With all that it has started; it may have ended by now.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            Err(format!("it says nothing within {} s", patience.as_secs()))
        }
    }
}

/// Gives this process a name where it has a number for one: that of the descriptor that it was started
/// from.
pub(crate) fn name_process() {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    if name.trim().parse::<u32>().is_ok() {
        // It is for people who look at lists of processes.
        let _ = rustix::thread::set_name(c"weir");
    }
}

/// The program that this process was before it became another one, or its starter.
static FORMER: OnceLock<File> = OnceLock::new();

/// Keeps the program before this one.
pub(crate) fn keep_former(program: File) {
    // A process becomes another program once in its life as this one.
    let _ = FORMER.set(program);
}

/// The program that this process becomes when its run has ended.
static NEXT: Mutex<Option<File>> = Mutex::new(None);

/// That place. A panic while it is held leaves it whole.
pub(crate) fn next() -> MutexGuard<'static, Option<File>> {
    NEXT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A message to the program that a process becomes: its kind, its content, and descriptors.
pub(crate) type HandOff<'a> = (u8, Vec<u8>, Vec<BorrowedFd<'a>>);

/// Has this process become another program, with the same number, arguments, environment and children;
/// all its threads end. It comes back where that fails: why. The messages are on the standard input of
/// what it becomes.
pub(crate) fn become_program(program: &File, hand_offs: &[HandOff<'_>]) -> io::Error {
    let set_up = || {
        let (ours, theirs) = UnixStream::pair()?;
        let mut channel = Channel::new(ours, LONGEST);
        for (kind, bytes, files) in hand_offs {
            // The socket holds them. Where they are too many this fails, and nothing has changed.
            channel.send(*kind, bytes, files, false)?;
        }
        rustix::stdio::dup2_stdin(theirs)?;
        Ok::<_, io::Error>(channel)
    };
    // The start of the other program closes this end; the messages stay in the socket.
    let _channel = match set_up() {
        Ok(channel) => channel,
        Err(error) => return error,
    };
    let mut words = std::env::args_os();
    let mut command = Command::new(path_of(program));
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    let number = std::process::id().to_string();
    command.args(words).env(RESUMES, number);
    // It would inherit the core and the priority of this thread.
    let error = weir_exec::started_aside(|| command.exec());
    close_input();
    error
}

/// The messages of the program that this process was before; `None` where it was none.
///
/// # Errors
///
/// Standard input is no socket of it.
pub(crate) fn handed_off() -> io::Result<Option<Channel>> {
    let number = std::process::id().to_string();
    if std::env::var(RESUMES).is_ok_and(|told| told == number) {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        close_input();
        return Ok(Some(Channel::new(input.into(), LONGEST)));
    }
    Ok(None)
}

/// Points standard input at /dev/null: it is the socket of the hand-off.
fn close_input() {
    if let Ok(nothing) = File::open("/dev/null") {
        // It stays as it was where there is no descriptor left.
        let _ = rustix::stdio::dup2_stdin(nothing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(link: &[u32], states: &[(&str, (u16, u16))]) -> About {
        let functions = states.iter().map(|(name, state)| {
            let states = States {
                state: *state,
                flow_state: (1, 1),
            };
            ((*name).to_owned(), states)
        });
        About {
            program: Program {
                version: "0.2.0".to_owned(),
                digest: String::new(),
            },
            speaks: BTreeMap::from([("link".to_owned(), link.to_vec())]),
            functions: functions.collect(),
        }
    }

    #[test]
    fn programs_that_share_no_version_do_not_work_side_by_side() {
        let here = about(&[2], &[]);
        assert_eq!(here.incompatible_with(&about(&[1, 2, 3], &[])), None);
        let why = here.incompatible_with(&about(&[3], &[])).unwrap();
        assert!(why.contains("`link`"), "{why}");
        let mut mute = about(&[2], &[]);
        mute.speaks.clear();
        assert!(here.incompatible_with(&mute).unwrap().contains("none"));
        // A format that only the next program knows stands in nobody's way.
        assert_eq!(mute.incompatible_with(&here), None);
    }

    #[test]
    fn states_go_forward_and_may_have_no_way_back() {
        let names = ["nat".to_owned()];
        let with = |versions| about(&[2], &[("nat", versions)]);
        let here = with((1, 2));
        assert_eq!(here.state_changes(&with((1, 2)), &names), Ok(vec![]));
        let change = |to, goes_back| StateChange {
            function: "nat".to_owned(),
            from: 2,
            to,
            goes_back,
        };
        let newer = here.state_changes(&with((2, 3)), &names);
        assert_eq!(newer, Ok(vec![change(3, false)]));
        // Back: the older one reads no newer state, whichever version it is.
        assert!(with((1, 3)).state_changes(&here, &names).is_err());
        assert!(here.state_changes(&with((3, 4)), &names).is_err());
        let without = about(&[2], &[]);
        let why = here.state_changes(&without, &names).unwrap_err();
        assert!(why.contains("no function `nat`"), "{why}");
        assert_eq!(here.state_changes(&without, &[]), Ok(vec![]));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let refused = |path: &str| open(Path::new(path)).unwrap_err();
        assert!(refused("weir").contains("absolute"));
        assert!(refused("/nowhere/weir").contains("No such file"));
        assert!(refused("/tmp").contains("no program"));
        assert!(refused("/proc/self/status").contains("no program"));
        let folder = std::env::temp_dir().join(format!("weir-fifo-{}", std::process::id()));
        let made = Command::new("mkfifo")
            .args(["-m", "755"])
            .arg(&folder)
            .status();
        assert!(made.unwrap().success());
        assert!(refused(&folder.display().to_string()).contains("no program"));
        std::fs::remove_file(&folder).unwrap();
        let other = open(Path::new("/bin/true")).unwrap();
        assert!(ask(&other).unwrap_err().contains("no weir"));
        // What it has started holds its output.
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "sleep 60 & echo '{}'"]);
        let begun = Instant::now();
        let why = heard(&mut shell, Duration::from_millis(300)).unwrap_err();
        assert!(why.contains("nothing within"), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
