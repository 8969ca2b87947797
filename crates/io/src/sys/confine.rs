//! Takes from this process what it has no use for once its work has begun:
//! user, rights, descriptors, and nearly all of the kernel.
//!
//! # Safety
//!
//! The calls take numbers, or read a structure that lives until the call
//! returns and whose length is passed with it. The process has one thread: another
//! one would lose descriptors and rights in the middle of its work.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

use rustix::process::{Resource, Rlimit};

/// Bytes of address space that it may get beside those that it has.
const MORE: u64 = 256 << 20;

/// System calls that a stage at work makes.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

fn done(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Confines this process for good: to these descriptors (and none of the first
/// three that is not among them), as `user` where it is root's, without rights,
/// to the memory that it has and a little more, and to the system calls of a
/// stage at work. True where the user is another one now.
///
/// # Errors
///
/// If the kernel refuses any of it: then it must not go on.
pub(crate) fn confine(keep: &[BorrowedFd<'_>], user: u32) -> io::Result<bool> {
    let keep: Vec<RawFd> = keep.iter().map(|fd| fd.as_raw_fd()).collect();
    close_others(&keep)?;
    limit()?;
    let root = rustix::process::geteuid().is_root();
    if root {
        // SAFETY: no list of groups, and numbers.
        unsafe {
            done(libc::setgroups(0, std::ptr::null()))?;
            done(libc::setresgid(user, user, user))?;
            // Its rights go with the user.
            done(libc::setresuid(user, user, user))?;
        }
        // A change of the user takes it back.
        end_with_parent()?;
    }
    // It may be in one already, as the first of its group.
    let _ = rustix::process::setsid();
    // SAFETY: numbers. Nobody of the same user may look into it then.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    // SAFETY: numbers.
    done(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    filter()?;
    Ok(root)
}

/// Has the kernel end this process when the thread that started it ends.
///
/// # Errors
///
/// If the kernel does not know how.
pub fn end_with_parent() -> io::Result<()> {
    let kill = rustix::process::Signal::KILL;
    Ok(rustix::process::set_parent_process_death_signal(Some(
        kill,
    ))?)
}

fn close_others(keep: &[RawFd]) -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        open.extend(name.to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    for fd in open.into_iter().filter(|fd| !keep.contains(fd)) {
        // SAFETY: nothing that is still used has it: what is, is in `keep`. That
        // of the folder just read is closed already.
        let _ = unsafe { libc::close(fd) };
    }
    Ok(())
}

fn limit() -> io::Result<()> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm says nothing"))?;
    let bytes = pages * rustix::param::page_size() as u64;
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nproc, 1),
        (Resource::Nofile, 64),
        (Resource::Memlock, 0),
        (Resource::As, bytes.saturating_add(MORE)),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        rustix::process::setrlimit(resource, limit)?;
    }
    Ok(())
}

/// System calls that are not [`ALLOWED`] fail from now on.
fn filter() -> io::Result<()> {
    // Classic BPF over `struct seccomp_data`: the call's number, then the
    // architecture.
    let word = |k| jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, k, 0, 0);
    let equal = |k, yes, no| jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, yes, no);
    let end = |k| jump(libc::BPF_RET | libc::BPF_K, k, 0, 0);
    let mut program = vec![
        word(4),
        equal(ARCHITECTURE, 1, 0),
        end(libc::SECCOMP_RET_KILL_PROCESS),
        word(0),
    ];
    let count = ALLOWED.len() as u8;
    for (number, call) in (0..count).zip(ALLOWED) {
        program.push(equal(*call as u32, count - number, 0));
    }
    program.push(end(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    program.push(end(libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the program lives until the call is over, and has that length.
    done(unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    })
}

fn jump(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}
