//! Switch and actors in turn on one thread: what they add to an engine alone,
//! without threads and rings.

use weir_io::port::{GeneratorInput, InputPort, Null, OutputPort};
use weir_nf::host::Stage;
use weir_packet::{Frame, FramePool, Time};
use weir_protocol::settings::{ActorSettings, SwitchSettings};
use weir_protocol::{Actors, Peer, RuntimeId, Switch};
use weir_runtime::{Runtime, RuntimeConfig};

use crate::line::{self, BATCH};

/// A switch and its runtimes.
pub(crate) struct Single {
    pool: FramePool,
    sink: Null,
    input: Vec<Frame>,
    entries: Vec<Frame>,
    switch: Switch,
    actors: Vec<Actors>,
    now: u64,
}

impl Single {
    /// `runtimes` runtimes, replication none, nothing kept: what `weir run
    /// --runtimes` has.
    pub(crate) fn new(stage: &Stage, runtimes: u32) -> Result<Single, String> {
        let config = RuntimeConfig {
            follows: true,
            ..line::CONFIG
        };
        let settings = SwitchSettings {
            kept: 0,
            acknowledge: false,
            ..SwitchSettings::default()
        };
        let mut single = Single {
            pool: line::pool()?,
            sink: Null::default(),
            input: Vec::with_capacity(8 * BATCH),
            entries: Vec::with_capacity(16 * BATCH),
            switch: Switch::new(stage, config, settings).map_err(|e| e.to_string())?,
            actors: Vec::new(),
            now: 1_000_000_000,
        };
        for number in 1..=runtimes {
            let engine = Runtime::new(stage, config).map_err(|error| error.to_string())?;
            let settings = ActorSettings {
                id: RuntimeId(number),
                keep_outputs: false,
                waits: true,
                ..ActorSettings::default()
            };
            single.actors.push(Actors::new(engine, settings));
            single.switch.join(Time(single.now), RuntimeId(number));
        }
        single.carry();
        Ok(single)
    }

    /// Packets from `source` through switch and runtimes to the sink. The
    /// switch is given a burst per runtime at a time, as rings under load do:
    /// else its bursts would reach four runtimes as quarters.
    #[inline(never)]
    pub(crate) fn pass(
        &mut self,
        source: &mut GeneratorInput,
        packets: usize,
    ) -> Result<(), String> {
        let mut left = packets;
        while left > 0 {
            let batch = left.min(BATCH * self.actors.len().max(1));
            source
                .receive(&mut self.pool, &mut self.input, batch)
                .map_err(|error| error.to_string())?;
            // A microsecond a batch: timers have nothing to do.
            self.now += 1_000;
            let now = Time(self.now);
            self.switch.ingress(now, &mut self.pool, &mut self.input);
            self.carry();
            self.sink
                .send(&mut self.pool, &mut self.switch.outbox.out)
                .map_err(|error| error.to_string())?;
            left -= batch;
        }
        Ok(())
    }

    /// Carries frames and messages until there are none.
    fn carry(&mut self) {
        let now = Time(self.now);
        loop {
            let mut moved = false;
            for queue in &mut self.switch.outbox.queues {
                let place = (queue.to.0 as usize).wrapping_sub(1);
                if !queue.frames.is_empty()
                    && let Some(actors) = self.actors.get_mut(place)
                {
                    moved = true;
                    actors.frames(now, &mut self.pool, &mut queue.frames);
                }
            }
            if !self.switch.outbox.messages.is_empty() {
                moved = true;
                for (to, message) in core::mem::take(&mut self.switch.outbox.messages) {
                    if let Peer::Runtime(id) = to
                        && let Some(actors) = self.actors.get_mut((id.0 as usize).wrapping_sub(1))
                    {
                        actors.message(now, &mut self.pool, Peer::Switch(1), message);
                    }
                }
            }
            for number in 0..self.actors.len() {
                let Some(actors) = self.actors.get_mut(number) else {
                    continue;
                };
                let id = RuntimeId(number as u32 + 1);
                core::mem::swap(&mut self.entries, &mut actors.outbox.entries);
                let messages = core::mem::take(&mut actors.outbox.messages);
                if !self.entries.is_empty() {
                    moved = true;
                    let entries = &mut self.entries;
                    self.switch.entries(now, &mut self.pool, id, entries);
                }
                for (to, message) in messages {
                    moved = true;
                    match to {
                        Peer::Runtime(to) => {
                            let place = (to.0 as usize).wrapping_sub(1);
                            if let Some(actors) = self.actors.get_mut(place) {
                                actors.message(now, &mut self.pool, Peer::Runtime(id), message);
                            }
                        }
                        _ => {
                            let from = Peer::Runtime(id);
                            self.switch.message(now, &mut self.pool, from, message);
                        }
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Errors that make a figure worthless: packets dropped or under way.
    pub(crate) fn check(&self, packets: u64) -> Result<(), String> {
        let report = self.switch.report();
        if report.dropped() > 0 || report.packets_out != packets || report.held > 0 {
            return Err(format!("of {packets} packets not all came out: {report:?}"));
        }
        Ok(())
    }
}
