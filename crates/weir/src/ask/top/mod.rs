//! `weir top`: what an instance does, live.

mod screen;

use std::io::IsTerminal as _;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weir_api::v1;

use crate::args::Top;
use crate::exit::{Exit, Failure, Outcome};

use super::rates::Between;
use screen::Screen;

/// How long a key may wait.
const KEYS: Duration = Duration::from_millis(50);

/// Gives the terminal back, whatever happens.
struct Terminal(ratatui::DefaultTerminal);

impl Terminal {
    fn open() -> Result<Terminal, Failure> {
        let terminal = ratatui::try_init();
        let terminal = terminal.map_err(|error| failed(&error))?;
        Ok(Terminal(terminal))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::outside(format!("can't use the terminal: {error}"))
}

pub(crate) fn top(args: &Top) -> Outcome {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "`weir top` is for a terminal; `weir stats --watch 1` prints lines",
        ));
    }
    let interval_ms = u32::try_from(args.interval.as_millis()).unwrap_or(u32::MAX);
    super::ask(args.instance.as_deref(), async |mut client| {
        let failure = |status| super::failure(&status);
        let info = client.get_info(v1::GetInfoRequest {}).await;
        let info = info.map_err(failure)?.into_inner();
        let request = v1::WatchStatsRequest { interval_ms };
        let mut stream = client.watch_stats(request).await.map_err(failure)?;
        let stream = stream.get_mut();
        let mut asked_to_end = signal(SignalKind::terminate()).map_err(|error| failed(&error))?;
        let mut terminal = Terminal::open()?;
        let mut keys = keys();
        let mut screen = Screen::new(info);
        let mut before = None;
        loop {
            let drawn = terminal.0.draw(|frame| screen.draw(frame));
            drawn.map_err(|error| failed(&error))?;
            tokio::select! {
                stats = stream.message() => {
                    let Some(now) = stats.map_err(failure)? else {
                        return Err(Failure::outside("the instance has ended"));
                    };
                    let before = before.replace(now.clone());
                    if let Some(before) = before {
                        screen.show(Between::new(before, now));
                    }
                }
                key = keys.recv() => match key {
                    Some(Event::Key(key)) => {
                        if quits(&key) {
                            return Ok(Exit::Done);
                        }
                        screen.key(key.code);
                    }
                    // The terminal has another size: drawn anew.
                    Some(_) => {}
                    None => return Ok(Exit::Done),
                },
                _ = asked_to_end.recv() => return Ok(Exit::Done),
            }
        }
    })
}

fn quits(key: &KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c') => control,
        _ => false,
    }
}

/// Starts a thread that reads the keyboard, and returns its events. The thread
/// ends when the receiver is dropped or the terminal is gone.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEYS) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    Ok(Event::Key(key)) if key.kind == KeyEventKind::Release => {}
                    Ok(event) => {
                        if sender.blocking_send(event).is_err() {
                            return;
                        }
                    }
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    });
    receiver
}
