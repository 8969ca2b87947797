//! A switch and runtimes, each with memory of its own, that know one another
//! by frames alone.

use std::collections::BTreeMap;

use weir_nf::host::Stage;
use weir_nf::{NetworkFunction, RuntimeId};
use weir_packet::ethernet::EthernetView;
use weir_packet::protocol::ethertype;
use weir_packet::{Frame, FrameMeta, FramePool, MemoryLayout, Time};
use weir_protocol::actors::{ActorCount, Actors};
use weir_protocol::entry::batches;
use weir_protocol::message::{Message, MoveMode, Selection};
use weir_protocol::settings::{ActorSettings, Replication, SwitchSettings};
use weir_protocol::stream::{ProcessStart, StreamSettings, Streams};
use weir_protocol::switch::SwitchCount;
use weir_protocol::wire::{Hop, decode_data, encode_data};
use weir_protocol::{Key, Peer, Switch, UnitId};
use weir_runtime::harness::{Craft, Harness};
use weir_runtime::{Runtime, RuntimeConfig};

use crate::functions::Counter;

pub(crate) const KEY: Key = Key(*b"of this cluster!");
const MS: u64 = 1_000_000;

pub(crate) fn pool() -> FramePool {
    FramePool::with_layout(MemoryLayout {
        small_frames: 512,
        large_frames: 4,
        ..MemoryLayout::default()
    })
}

pub(crate) fn stage<N: NetworkFunction<Settings = ()>>() -> Stage {
    let builder = Harness::builder().with::<N>(());
    builder.expect("it takes no settings").stage()
}

fn config() -> RuntimeConfig {
    RuntimeConfig {
        seed: 3,
        event_bytes: 1 << 14,
        follows: true,
        ..RuntimeConfig::default()
    }
}

/// A process that runs a stage.
pub(crate) struct Host {
    pub(crate) id: RuntimeId,
    pub(crate) actors: Actors,
    pub(crate) pool: FramePool,
    pub(crate) streams: Streams,
}

/// What a driver does with messages before they are encoded.
pub(crate) type Change = fn(&mut Message);

pub(crate) struct Cluster {
    pub(crate) now: Time,
    pub(crate) generation: u16,
    pub(crate) switch: Switch,
    pub(crate) pool: FramePool,
    pub(crate) streams: Streams,
    pub(crate) hosts: Vec<Host>,
    /// Packets let out.
    pub(crate) out: Vec<Vec<u8>>,
    /// Every frame that was carried, and to whom.
    pub(crate) seen: Vec<(Peer, Vec<u8>)>,
    /// What drivers refused, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    pub(crate) change: Option<Change>,
    /// Every message is heard twice.
    pub(crate) twice: bool,
    packets: u64,
}

impl Cluster {
    /// A switch and `count` runtimes, from 1, with a [`Counter`].
    pub(crate) fn new(count: u32, replication: Replication) -> Cluster {
        let settings = SwitchSettings {
            replication,
            ..SwitchSettings::default()
        };
        let mut cluster = Cluster {
            now: Time::from_secs(1_700_000_000),
            generation: settings.generation,
            switch: Switch::new(&stage::<Counter>(), config(), settings).expect("a stage"),
            pool: pool(),
            streams: Streams::new(ProcessStart::of(Peer::Switch(settings.generation), 0), KEY),
            hosts: Vec::new(),
            out: Vec::new(),
            seen: Vec::new(),
            refused: BTreeMap::new(),
            change: None,
            twice: false,
            packets: 0,
        };
        for id in 1..=count {
            cluster.add(id, &stage::<Counter>());
        }
        cluster
    }

    pub(crate) fn add(&mut self, id: u32, stage: &Stage) {
        let id = RuntimeId(id);
        let settings = ActorSettings {
            id,
            ..ActorSettings::default()
        };
        let engine = Runtime::new(stage, config()).expect("a stage");
        self.hosts.push(Host {
            id,
            actors: Actors::with_places(engine, settings, 1 << 20, weir_packet::no_advice),
            pool: pool(),
            streams: Streams::new(ProcessStart::of(Peer::Runtime(id), 0), KEY),
        });
        self.introduce();
        self.switch.join(self.now, id);
        self.carry();
    }

    /// Everyone knows everyone, as from the agent that starts them.
    fn introduce(&mut self) {
        let peers: Vec<ProcessStart> = (self.hosts.iter().map(|host| Peer::Runtime(host.id)))
            .chain([Peer::Switch(self.generation)])
            .map(|peer| ProcessStart::of(peer, 0))
            .collect();
        let settings = StreamSettings::default();
        for &peer in &peers {
            self.streams.open(peer, settings);
            for host in &mut self.hosts {
                host.streams.open(peer, settings);
            }
        }
    }

    /// The switch has crashed and another one has started.
    pub(crate) fn restart_switch(&mut self) {
        self.generation += 1;
        let settings = SwitchSettings {
            generation: self.generation,
            ..SwitchSettings::default()
        };
        self.switch.finish(&mut self.pool);
        self.switch = Switch::new(&stage::<Counter>(), config(), settings).expect("a stage");
        let peer = Peer::Switch(self.generation);
        self.streams = Streams::new(ProcessStart::of(peer, 0), KEY);
        self.introduce();
        let ids: Vec<RuntimeId> = self.hosts.iter().map(|host| host.id).collect();
        self.switch.recover(self.now, &ids);
    }

    pub(crate) fn host(&mut self, id: u32) -> &mut Host {
        let found = self.hosts.iter_mut().find(|host| host.id.0 == id);
        found.expect("there is such a runtime")
    }

    pub(crate) fn at_switch(&self, what: SwitchCount) -> u64 {
        self.switch.counts().get(what)
    }

    pub(crate) fn at(&mut self, id: u32, what: ActorCount) -> u64 {
        self.host(id).actors.counts().get(what)
    }

    /// A packet of a flow comes in; gives the last octet of what is let out.
    pub(crate) fn packet(&mut self, flow: u8) -> Option<u8> {
        self.packets += 1;
        let source = format!("10.0.0.{flow}:1000");
        let bytes = Craft::udp(&source, "192.0.2.1:53")
            .payload(b"count:-")
            .build();
        let mut meta = FrameMeta::received(self.now, bytes.len() as u32);
        meta.sequence = self.packets;
        let mut frames = vec![self.pool.copy(&bytes, meta).expect("a frame")];
        let before = self.out.len();
        self.switch.ingress(self.now, &mut self.pool, &mut frames);
        self.carry();
        let out = self.out.get(before..).unwrap_or(&[]);
        assert!(out.len() <= 1, "one packet in, one out");
        out.first().and_then(|bytes| bytes.last().copied())
    }

    /// The unit of the packets of a flow.
    pub(crate) fn unit_of(&self, flow: u8) -> UnitId {
        let client = [10, 0, 0, flow].into();
        let (key, _) =
            weir_packet::FlowKey::new(client, 1_000, [192, 0, 2, 1].into(), 53, 17, 0, 0);
        let found = self.switch.live_units().find(|unit| {
            let mut keys = Vec::new();
            self.switch.classifier().flows_of(unit.0, &mut keys);
            keys.contains(&key)
        });
        found.expect("the flow has a unit")
    }

    pub(crate) fn owner_of(&self, flow: u8) -> u32 {
        let owner = self.switch.owner_of(self.unit_of(flow));
        owner.expect("the unit has an owner").0
    }

    /// Moves all units of one runtime to another.
    pub(crate) fn move_all(&mut self, from: u32, to: u32) -> u32 {
        let (from, to) = (Some(RuntimeId(from)), RuntimeId(to));
        let moved = self
            .switch
            .move_units(self.now, from, to, &Selection::All, MoveMode::Push)
            .expect("both are here");
        self.carry();
        moved
    }

    /// Carries everything until nothing is on its way.
    pub(crate) fn carry(&mut self) {
        for _ in 0..10_000 {
            self.take_outboxes();
            let mut frames = core::mem::take(&mut self.seen);
            let from = frames.len();
            poll(&mut self.streams, self.now, &mut frames);
            for host in &mut self.hosts {
                poll(&mut host.streams, self.now, &mut frames);
            }
            let sent = frames.get(from..).unwrap_or(&[]).to_vec();
            self.seen = frames;
            if sent.is_empty() && self.is_silent() {
                return;
            }
            for (to, bytes) in sent {
                self.deliver(to, &bytes);
            }
        }
        panic!("it does not come to rest");
    }

    /// Time passes: everyone does what is due.
    pub(crate) fn later(&mut self, ms: u64) {
        self.now = self.now.plus(ms * MS);
        self.switch.tick(self.now, &mut self.pool);
        for host in &mut self.hosts {
            host.actors.tick(self.now, &mut host.pool);
        }
        self.carry();
    }

    fn take_outboxes(&mut self) {
        let outbox = &mut self.switch.outbox;
        let memory = self.pool.memory().clone();
        let mut data: Vec<(Peer, Vec<u8>)> = Vec::new();
        for queue in &mut outbox.queues {
            for frame in queue.frames.drain(..) {
                let mut bytes = Vec::new();
                encode_data(&memory, &frame, &Hop::default(), &KEY, &mut bytes).expect("it fits");
                data.push((Peer::Runtime(queue.to), bytes));
                self.pool.give(frame);
            }
        }
        for frame in outbox.out.drain(..) {
            self.out.push(memory.bytes(&frame).to_vec());
            self.pool.give(frame);
        }
        for (to, message) in outbox.messages.drain(..) {
            send(&mut self.streams, to, message, self.change);
        }
        for host in &mut self.hosts {
            let made = batches(host.pool.memory(), &host.actors.outbox.entries);
            host.pool.give_all(&mut host.actors.outbox.entries);
            let switch = Peer::Switch(self.generation);
            if !made.is_empty() {
                send(
                    &mut host.streams,
                    switch,
                    Message::Entries(made),
                    self.change,
                );
            }
            for (to, message) in host.actors.outbox.messages.drain(..) {
                send(&mut host.streams, to, message, self.change);
            }
        }
        for (to, bytes) in data {
            self.seen.push((to, bytes.clone()));
            self.deliver(to, &bytes);
        }
    }

    /// What a process does with bytes from the network. True where it took
    /// them.
    pub(crate) fn deliver(&mut self, to: Peer, bytes: &[u8]) -> bool {
        let outcome = match to {
            Peer::Switch(generation) if generation == self.generation => {
                self.deliver_to_switch(bytes)
            }
            Peer::Runtime(id) => match self.hosts.iter_mut().find(|host| host.id == id) {
                Some(host) => deliver_to_host(host, self.now, bytes, self.twice),
                None => Err("nobody"),
            },
            _ => Err("nobody"),
        };
        if let Err(why) = outcome {
            *self.refused.entry(why).or_default() += 1;
        }
        outcome.is_ok()
    }

    fn deliver_to_switch(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        // A runtime's entries are messages; a switch takes no data frames.
        let (from, messages) = messages(&mut self.streams, self.now, bytes)?;
        for message in messages {
            let message = message?;
            if self.twice {
                let again = message.clone();
                self.switch.message(self.now, &mut self.pool, from, again);
            }
            self.switch.message(self.now, &mut self.pool, from, message);
        }
        Ok(())
    }

    /// All that any packet or message may change, counts aside.
    pub(crate) fn state(&self) -> String {
        let mut text = format!("{:?}\n", self.switch.report());
        for unit in self.switch.live_units() {
            text += &format!("{unit:?} at {:?}\n", self.switch.owner_of(unit));
        }
        text += &format!("{} frames\n", self.pool.outstanding());
        for host in &self.hosts {
            let mut report = host.actors.report();
            // Frames that came, whatever they were.
            report.packets = 0;
            text += &format!(
                "{:?} {report:?}\n{:?}\n",
                host.id,
                host.actors.engine().report()
            );
            for unit in self.switch.live_units() {
                text += &format!("{:?} ", state_of(host, unit));
            }
            text += &format!("{} frames\n", host.pool.outstanding());
        }
        text
    }

    /// Nothing waits to be carried.
    pub(crate) fn is_silent(&self) -> bool {
        let silent = |host: &Host| {
            host.actors.outbox.entries.is_empty() && host.actors.outbox.messages.is_empty()
        };
        let outbox = &self.switch.outbox;
        outbox.messages.is_empty()
            && outbox.out.is_empty()
            && outbox.queues.iter().all(|queue| queue.frames.is_empty())
            && self.hosts.iter().all(silent)
    }

    /// Everyone ends, and no frame is lost.
    pub(crate) fn end(mut self) {
        assert!(
            self.switch.report().balances(),
            "{:?}",
            self.switch.report()
        );
        self.switch.finish(&mut self.pool);
        assert_eq!(self.pool.outstanding(), 0);
        for host in &mut self.hosts {
            host.actors.finish(&mut host.pool);
            host.actors.engine_mut().finish(&mut host.pool);
            host.pool.give_all(&mut host.actors.outbox.entries);
            assert_eq!(host.pool.outstanding(), 0);
        }
    }
}

/// The unit's state in a runtime's engine.
pub(crate) fn state_of(host: &Host, unit: UnitId) -> Option<Vec<u8>> {
    let mut state = Vec::new();
    let exported = host.actors.engine().export_unit(unit.0, &mut state);
    exported.ok().map(|()| state)
}

pub(crate) fn send(streams: &mut Streams, to: Peer, mut message: Message, change: Option<Change>) {
    if let Some(change) = change {
        change(&mut message);
    }
    let stream = streams.open(ProcessStart::of(to, 0), StreamSettings::default());
    stream.send_message(&message).expect("there is room");
}

fn poll(streams: &mut Streams, now: Time, frames: &mut Vec<(Peer, Vec<u8>)>) {
    for stream in streams.iter_mut() {
        let to = stream.remote().peer().expect("one of the protocol's");
        while let Some(frame) = stream.poll_frame(now) {
            frames.push((to, frame));
        }
    }
}

/// The messages that a frame completes.
#[allow(clippy::type_complexity)]
fn messages(
    streams: &mut Streams,
    now: Time,
    bytes: &[u8],
) -> Result<(Peer, Vec<Result<Message, &'static str>>), &'static str> {
    let from = streams
        .receive(now, bytes)
        .map_err(|why| why.count().name())?;
    let peer = from.peer().ok_or("nobody")?;
    let mut found = Vec::new();
    if let Some(stream) = streams.get_mut(from) {
        while let Some(bytes) = stream.poll_message() {
            found.push(Message::decode_one(&bytes).map_err(|why| why.name()));
        }
    }
    Ok((peer, found))
}

fn deliver_to_host(
    host: &mut Host,
    now: Time,
    bytes: &[u8],
    twice: bool,
) -> Result<(), &'static str> {
    let kind = EthernetView::new(bytes).map(|view| view.ethertype());
    if kind == Ok(ethertype::NSH) {
        let decoded = decode_data(&mut host.pool, &KEY, bytes);
        let (frame, _) = decoded.map_err(|why| why.name())?;
        let mut frames: Vec<Frame> = vec![frame];
        host.actors.frames(now, &mut host.pool, &mut frames);
        return Ok(());
    }
    let (from, messages) = messages(&mut host.streams, now, bytes)?;
    for message in messages {
        let message = message?;
        if twice {
            let again = message.clone();
            host.actors.message(now, &mut host.pool, from, again);
        }
        host.actors.message(now, &mut host.pool, from, message);
    }
    Ok(())
}
