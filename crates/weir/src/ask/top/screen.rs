//! The screen of `weir top`.

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use weir_api::v1;

use crate::output::thousands;

use super::super::rates::{Between, named};

/// Reasons of drops that are shown.
const REASONS: usize = 6;

pub(super) struct Screen {
    info: v1::GetInfoResponse,
    between: Option<Between>,
    /// The chain that is shown.
    chain: usize,
    /// Functions above the first that is shown.
    scrolled: usize,
    stopped: bool,
}

/// A rate in few letters: 1,234 or 1.23 M.
fn rate(value: f64) -> String {
    match value {
        ..1e5 => thousands(value.round().max(0.0) as u64),
        ..1e8 => format!("{:.2} M", value / 1e6),
        _ => format!("{:.2} G", value / 1e9),
    }
}

fn sum(counts: &[v1::Count]) -> u64 {
    counts.iter().map(|count| count.value).sum()
}

impl Screen {
    pub(super) fn new(info: v1::GetInfoResponse) -> Screen {
        Screen {
            info,
            between: None,
            chain: 0,
            scrolled: 0,
            stopped: false,
        }
    }

    /// Shows the newest rates, unless the screen is paused.
    pub(super) fn show(&mut self, between: Between) {
        if !self.stopped {
            self.between = Some(between);
        }
    }

    pub(super) fn key(&mut self, key: KeyCode) {
        let chains = self.info.chains.len().max(1);
        match key {
            KeyCode::Char('p' | ' ') => self.stopped = !self.stopped,
            KeyCode::Tab | KeyCode::Right => self.chain = (self.chain + 1) % chains,
            KeyCode::Left => self.chain = (self.chain + chains - 1) % chains,
            KeyCode::Down => {
                let functions = self.info.chains.get(self.chain).map(|c| c.functions.len());
                let last = functions.unwrap_or(0).saturating_sub(1);
                self.scrolled = (self.scrolled + 1).min(last);
            }
            KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
            _ => return,
        }
        if matches!(key, KeyCode::Tab | KeyCode::Left | KeyCode::Right) {
            self.scrolled = 0;
        }
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let Some(between) = &self.between else {
            let waits = format!(
                "weir top: {} — waiting for the first counts",
                self.info.name
            );
            return frame.render_widget(Paragraph::new(waits), frame.area());
        };
        let ports = between.now.inputs.len() + between.now.outputs.len();
        let [head, port_area, functions, drops] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(ports as u16 + 3),
            Constraint::Min(5),
            Constraint::Length(REASONS as u16 + 2),
        ])
        .areas(frame.area());
        self.head(frame, head, between);
        ports_table(frame, port_area, between);
        self.functions(frame, functions, between);
        self.drops(frame, drops, between);
    }

    /// A rate of the chain that is shown.
    fn rate(&self, between: &Between, of: impl Fn(&v1::ChainStats) -> u64) -> f64 {
        between.rate(|stats| stats.chains.get(self.chain).map_or(0, &of))
    }

    fn head(&self, frame: &mut Frame<'_>, area: Rect, between: &Between) {
        let seconds = between.now.elapsed_ns / 1_000_000_000;
        let threads = between.now.threads.iter().enumerate();
        let idle: Vec<String> = threads
            .map(|(number, thread)| {
                format!("{} {:.0} %", thread.name, 100.0 * between.idle(number))
            })
            .collect();
        let stopped = if self.stopped { "  [stopped]" } else { "" };
        let first = format!(
            "{} ({}, pid {})  up {}:{:02}:{:02}  asleep: {}{stopped}",
            self.info.name,
            self.info.mode,
            self.info.pid,
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            idle.join(", ")
        );
        let chain = between.now.chains.get(self.chain);
        let flows = chain.and_then(|c| c.flows.clone()).unwrap_or_default();
        let second = format!(
            "chain {}  in {} packets/s {}bit/s  out {} packets/s  dropped {}/s  flows {} (+{}/s)",
            chain.map_or("", |c| c.name.as_str()),
            rate(self.rate(between, |c| c.packets_in)),
            rate(8.0 * self.rate(between, |c| c.bytes_in)),
            rate(self.rate(between, |c| c.packets_out)),
            rate(self.rate(between, |c| sum(&c.drops))),
            thousands(flows.active),
            rate(self.rate(between, |c| c.flows.as_ref().map_or(0, |f| f.seen))),
        );
        let keys = Line::from("q quit  p stop  Tab next chain  ↑↓ scroll").dim();
        let text = vec![Line::from(first).bold(), Line::from(second), keys];
        frame.render_widget(Paragraph::new(text), area);
    }

    fn functions(&self, frame: &mut Frame<'_>, area: Rect, between: &Between) {
        let chain = between.now.chains.get(self.chain);
        let functions = chain.map_or(&[][..], |chain| &chain.functions);
        let row = |(number, f): (usize, &v1::FunctionStats)| {
            let of = |count: fn(&v1::FunctionStats) -> u64| {
                self.rate(between, |chain| {
                    chain.functions.get(number).map_or(0, count)
                })
            };
            let packets = of(|f| f.packets);
            let cycles = of(|f| f.cycles) / packets.max(1.0);
            Row::new([
                f.name.clone(),
                rate(packets),
                rate(8.0 * of(|f| f.bytes)),
                rate(of(|f| f.dropped)),
                match packets > 0.0 {
                    true => format!("{cycles:.0}"),
                    false => "-".to_owned(),
                },
            ])
        };
        let rows = functions.iter().enumerate().skip(self.scrolled).map(row);
        let widths = [
            Constraint::Min(16),
            Constraint::Length(12),
            Constraint::Length(12),
            Constraint::Length(12),
            Constraint::Length(14),
        ];
        let head = [
            "function",
            "packets/s",
            "bit/s",
            "dropped/s",
            "cycles/packet",
        ];
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(Style::new().bold()))
            .block(Block::bordered().title("functions"));
        frame.render_widget(table, area);
    }

    fn drops(&self, frame: &mut Frame<'_>, area: Rect, between: &Between) {
        let chain = between.now.chains.get(self.chain);
        let drops = chain.map_or(&[][..], |chain| &chain.drops);
        let mut rates: Vec<(f64, &v1::Count)> = drops
            .iter()
            .map(|drop| {
                (
                    self.rate(between, |chain| named(&chain.drops, &drop.name)),
                    drop,
                )
            })
            .collect();
        rates.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.value.cmp(&a.1.value)));
        let rows = rates.iter().take(REASONS).map(|(per_s, drop)| {
            Row::new([
                drop.name.clone(),
                format!("{}/s", rate(*per_s)),
                thousands(drop.value),
            ])
        });
        let widths = [
            Constraint::Min(30),
            Constraint::Length(14),
            Constraint::Length(18),
        ];
        let table = Table::new(rows, widths)
            .block(Block::bordered().title("drops (weir drops says what they mean)"));
        frame.render_widget(table, area);
    }
}

fn ports_table(frame: &mut Frame<'_>, area: Rect, between: &Between) {
    let rows_of = |way: &'static str, pick: fn(&v1::GetStatsResponse) -> &Vec<v1::PortStats>| {
        let ports = pick(&between.now).iter().enumerate();
        let row = move |(number, port): (usize, &v1::PortStats)| {
            let of = |count: fn(&v1::PortStats) -> u64| {
                between.rate(|stats| pick(stats).get(number).map_or(0, count))
            };
            Row::new([
                format!("{way:<3} {}", port.port),
                rate(of(|p| p.packets)),
                rate(8.0 * of(|p| p.bytes)),
                rate(of(|p| sum(&p.drops))),
            ])
        };
        ports.map(row).collect::<Vec<_>>()
    };
    let mut rows = rows_of("in", |stats| &stats.inputs);
    rows.extend(rows_of("out", |stats| &stats.outputs));
    let widths = [
        Constraint::Min(30),
        Constraint::Length(12),
        Constraint::Length(12),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(["port", "packets/s", "bit/s", "lost/s"]).style(Style::new().bold()))
        .block(Block::bordered().title("ports"));
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn counts(factor: u64) -> v1::GetStatsResponse {
        let chain = |name: &str, packets: u64| v1::ChainStats {
            name: name.to_owned(),
            packets_in: packets,
            packets_out: packets - packets / 10,
            bytes_in: packets * 100,
            drops: vec![v1::Count {
                name: "firewall.denied".to_owned(),
                value: packets / 10,
            }],
            functions: vec![v1::FunctionStats {
                name: "firewall".to_owned(),
                packets,
                cycles: packets * 250,
                ..v1::FunctionStats::default()
            }],
            flows: Some(v1::FlowStats {
                active: 1_234,
                seen: 50 * factor,
                ..v1::FlowStats::default()
            }),
            ..v1::ChainStats::default()
        };
        v1::GetStatsResponse {
            elapsed_ns: factor * 2_000_000_000,
            chains: vec![chain("edge", 4_000 * factor), chain("other", 20 * factor)],
            inputs: vec![v1::PortStats {
                port: "xdp:eth1".to_owned(),
                packets: 4_000 * factor,
                ..v1::PortStats::default()
            }],
            threads: vec![v1::ThreadStats {
                name: "chains".to_owned(),
                idle_ns: factor * 500_000_000,
                ..v1::ThreadStats::default()
            }],
            ..v1::GetStatsResponse::default()
        }
    }

    fn screen() -> Screen {
        let chain = |name: &str| v1::ChainInfo {
            name: name.to_owned(),
            functions: vec![v1::FunctionInfo::default()],
        };
        Screen::new(v1::GetInfoResponse {
            name: "north".to_owned(),
            mode: "live".to_owned(),
            pid: 42,
            chains: vec![chain("edge"), chain("other")],
            ..v1::GetInfoResponse::default()
        })
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn rates_are_those_of_the_time_between() {
        let mut screen = screen();
        assert!(drawn(&screen, 100, 30).contains("waiting"));
        screen.show(Between::new(counts(1), counts(2)));
        let text = drawn(&screen, 100, 30);
        for part in [
            "north (live, pid 42)  up 0:00:04  asleep: chains 25 %",
            "chain edge  in 2,000 packets/s 1.60 Mbit/s  out 1,800 packets/s",
            "dropped 200/s  flows 1,234 (+25/s)",
            "in  xdp:eth1",
            "firewall.denied",
            "200/s",
            "250",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn keys_choose_the_chain_and_stop() {
        let mut screen = screen();
        screen.show(Between::new(counts(1), counts(2)));
        screen.key(KeyCode::Tab);
        assert!(drawn(&screen, 100, 30).contains("chain other  in 10 packets/s"));
        screen.key(KeyCode::Left);
        screen.key(KeyCode::Char('p'));
        screen.show(Between::new(counts(2), counts(9)));
        let text = drawn(&screen, 100, 30);
        assert!(
            text.contains("[stopped]") && text.contains("up 0:00:04"),
            "{text}"
        );
        screen.key(KeyCode::Char(' '));
        screen.show(Between::new(counts(2), counts(9)));
        assert!(drawn(&screen, 100, 30).contains("up 0:00:18"));
        screen.key(KeyCode::Down);
        screen.key(KeyCode::Up);
    }

    #[test]
    fn a_terminal_may_be_of_any_size() {
        let mut screen = screen();
        screen.show(Between::new(counts(1), counts(2)));
        for (width, height) in [(1, 1), (10, 3), (40, 8), (300, 100)] {
            drawn(&screen, width, height);
        }
    }
}
