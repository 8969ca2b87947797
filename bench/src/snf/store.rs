//! A real store over a socket: round trips of Valkey's or Redis's `GET` and `SET`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use weir::driver::Histogram;

use super::report::{Report, time};
use super::scene::TIMES;

/// Requests of each kind.
const REQUESTS: u32 = 20_000;
/// Bytes of a state.
const STATE: usize = 64;
/// Time for the store to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// A store's process, ended when it is dropped.
struct Store(Child);

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the first store that there is; its name, process and a connection.
fn start() -> Result<Option<(&'static str, Store, TcpStream)>, String> {
    let failed = |error: std::io::Error| format!("no port for a store: {error}");
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    drop(listener);
    for name in ["valkey-server", "redis-server"] {
        let mut command = Command::new(name);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            continue;
        };
        let store = Store(child);
        let started = Instant::now();
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                let _ = stream.set_nodelay(true);
                return Ok(Some((name, store, stream)));
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{name} does not answer"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(None)
}

/// One request, and its whole answer.
fn request(
    stream: &mut TcpStream,
    request: &[u8],
    answer: &mut [u8],
    length: usize,
) -> std::io::Result<()> {
    stream.write_all(request)?;
    stream.read_exact(&mut answer[..length])
}

/// Measures it, if there is one.
pub(super) fn measure(report: &mut Report) -> Result<(), String> {
    let Some((name, _store, mut stream)) = start()? else {
        report.say("SKIPPED: there is neither valkey-server nor redis-server.");
        return Ok(());
    };
    let (mut set, mut get) = (Histogram::default(), Histogram::default());
    let mut answer = [0; 256];
    let state = "x".repeat(STATE);
    for number in 0..REQUESTS {
        let key = format!("{:08}", number % 1_000);
        let writes = format!("*3\r\n$3\r\nSET\r\n$8\r\n{key}\r\n${STATE}\r\n{state}\r\n");
        let reads = format!("*2\r\n$3\r\nGET\r\n$8\r\n{key}\r\n");
        // `+OK`; and the length, the state.
        let answers = [5, format!("${STATE}\r\n").len() + STATE + 2];
        for ((text, length), times) in [writes, reads]
            .iter()
            .zip(answers)
            .zip([&mut set, &mut get])
        {
            let start = Instant::now();
            request(&mut stream, text.as_bytes(), &mut answer, length)
                .map_err(|error| format!("{name}: {error}"))?;
            times.add(start.elapsed().as_nanos() as u64);
        }
        if answer[0] != b'$' {
            return Err(format!("{name} gave no state back"));
        }
    }
    report.raw(&json!({
        "figure": "store", "store": name, "state_bytes": STATE,
        "set_ns": [set.quantile(0.5), set.quantile(0.99)],
        "get_ns": [get.quantile(0.5), get.quantile(0.99)],
    }))?;
    let rows = [("SET", &set), ("GET", &get)].map(|(what, times)| {
        let [p50, p99] = [0.5, 0.99].map(|share| time(times.quantile(share)));
        vec![what.to_owned(), p50, p99]
    });
    let title = format!("{name} over TCP on this machine, {STATE} B, one request at a time");
    report.table(&title, &["request", "p50", "p99"], &rows);
    report.say(&format!(
        "The model has {} for a request and its answer.",
        time(2 * TIMES.way + TIMES.store)
    ));
    Ok(())
}
