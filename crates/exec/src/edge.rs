//! Edges between nodes: a queue where both nodes are threads of one process, a ring in
//! shared memory where they are not.
//!
//! Either way has one writer and one reader, and keeps what does not fit until
//! [`flush`](FrameSender::flush). A ring wakes a reader that sleeps by itself; the
//! readers of queues are woken by their process's [`Wakers`](crate::Wakers).

use std::collections::VecDeque;

use rtrb::Consumer;
use weir_io::shared::{MessageInput, MessageOutput, RingInput, RingOutput};
use weir_io::stage::{StageInput as _, StageOutput as _};
use weir_packet::Frame;

use crate::queue::{Sender, drain};

/// The writing end of an edge for frames.
#[derive(Debug)]
pub enum FrameSender {
    /// To a thread of this process.
    Queue(Sender<Frame>),
    /// To another process.
    Ring(RingSender),
}

/// A ring and the frames that it had no room for.
#[derive(Debug)]
pub struct RingSender {
    ring: RingOutput,
    waiting: VecDeque<Frame>,
    burst: Vec<Frame>,
    /// Frames that went into the ring so far.
    sent: u64,
}

impl RingSender {
    fn extend(&mut self, frames: &mut Vec<Frame>) {
        if self.waiting.is_empty() && !frames.is_empty() {
            self.sent += self.ring.give(frames) as u64;
        }
        self.waiting.extend(frames.drain(..));
    }

    fn flush(&mut self) -> bool {
        if !self.waiting.is_empty() {
            let room = self.ring.room().min(self.waiting.len());
            self.burst.extend(self.waiting.drain(..room));
            self.sent += self.ring.give(&mut self.burst) as u64;
            while let Some(frame) = self.burst.pop() {
                self.waiting.push_front(frame);
            }
        }
        self.waiting.is_empty()
    }
}

impl From<RingOutput> for FrameSender {
    fn from(ring: RingOutput) -> FrameSender {
        FrameSender::Ring(RingSender {
            ring,
            waiting: VecDeque::new(),
            burst: Vec::new(),
            sent: 0,
        })
    }
}

impl FrameSender {
    /// Sends frames in order, now or as soon as there is room.
    pub fn extend(&mut self, frames: &mut Vec<Frame>) {
        match self {
            FrameSender::Queue(queue) => queue.extend(frames),
            FrameSender::Ring(ring) => ring.extend(frames),
        }
    }

    /// Sends what waits, as far as there is room; true where nothing is left.
    pub fn flush(&mut self) -> bool {
        match self {
            FrameSender::Queue(queue) => queue.flush(),
            FrameSender::Ring(ring) => ring.flush(),
        }
    }

    /// Keeps frames for the next flush, behind those that wait.
    pub fn keep(&mut self, frames: &mut Vec<Frame>) {
        match self {
            FrameSender::Queue(queue) => queue.keep(frames),
            FrameSender::Ring(ring) => ring.waiting.extend(frames.drain(..)),
        }
    }

    /// The reader has died: its successor gets frames again.
    pub fn mend(&mut self) {
        if let FrameSender::Ring(ring) = self {
            ring.ring.mend();
        }
    }

    /// Frames that wait for room.
    pub fn waiting(&self) -> usize {
        match self {
            FrameSender::Queue(queue) => queue.waiting(),
            FrameSender::Ring(ring) => ring.waiting.len(),
        }
    }

    /// Takes what waits: the reader is gone.
    pub fn take_waiting(&mut self) -> Vec<Frame> {
        match self {
            FrameSender::Queue(queue) => queue.take_waiting().collect(),
            FrameSender::Ring(ring) => ring.waiting.drain(..).collect(),
        }
    }

    /// Frames that went to the reader so far: without those that wait.
    pub fn sent(&self) -> u64 {
        match self {
            FrameSender::Queue(queue) => queue.sent(),
            FrameSender::Ring(ring) => ring.sent,
        }
    }
}

/// The reading end of an edge for frames.
#[derive(Debug)]
pub enum FrameReceiver {
    /// From a thread of this process.
    Queue(Consumer<Frame>),
    /// From another process.
    Ring(RingInput),
}

impl FrameReceiver {
    /// Moves up to `most` frames to the end of `into`; gives their number.
    pub fn drain(&mut self, most: usize, into: &mut Vec<Frame>) -> usize {
        match self {
            FrameReceiver::Queue(queue) => drain(queue, most, into),
            FrameReceiver::Ring(ring) => ring.take(into, most),
        }
    }

    /// True where no frame waits.
    pub fn is_empty(&self) -> bool {
        match self {
            FrameReceiver::Queue(queue) => queue.is_empty(),
            FrameReceiver::Ring(ring) => ring.waiting() == 0,
        }
    }

    /// Numbers that named no frame of the writer's; each time that the whole way made no
    /// sense is one more.
    pub fn bad(&self) -> u64 {
        match self {
            FrameReceiver::Queue(_) => 0,
            FrameReceiver::Ring(ring) => ring.bad(),
        }
    }

    /// The writer has died: frames of its successor are taken again.
    pub fn mend(&mut self) {
        if let FrameReceiver::Ring(ring) = self {
            ring.mend();
        }
    }

    /// The reader is about to sleep; false where it must not.
    pub fn prepare_park(&mut self) -> bool {
        match self {
            FrameReceiver::Queue(_) => true,
            FrameReceiver::Ring(ring) => ring.prepare_park(),
        }
    }

    /// The reader is awake.
    pub fn unpark(&mut self) {
        if let FrameReceiver::Ring(ring) = self {
            ring.unpark();
        }
    }
}

/// A message that may go to another process.
pub trait WireMessage: Sized {
    /// Appends its bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// The message that all of `bytes` are; `None` where they are none.
    fn get(bytes: &[u8]) -> Option<Self>;
}

/// The writing end of an edge for messages.
#[derive(Debug)]
pub enum MessageSender<T> {
    /// To a thread of this process.
    Queue(Sender<T>),
    /// To another process, and room for a message's bytes.
    Ring(MessageOutput, Vec<u8>),
}

impl<T: WireMessage> MessageSender<T> {
    /// Sends a message, at the next flush at the latest.
    pub fn push(&mut self, message: T) {
        match self {
            MessageSender::Queue(queue) => queue.push(message),
            MessageSender::Ring(ring, bytes) => {
                bytes.clear();
                message.put(bytes);
                ring.push(bytes);
            }
        }
    }

    /// Sends what waits, as far as there is room; true where nothing is left.
    pub fn flush(&mut self) -> bool {
        match self {
            MessageSender::Queue(queue) => queue.flush(),
            MessageSender::Ring(ring, _) => ring.flush(),
        }
    }

    /// True where something waits for a flush, or for room.
    pub fn is_waiting(&self) -> bool {
        match self {
            MessageSender::Queue(queue) => queue.waiting() > 0,
            MessageSender::Ring(ring, _) => ring.waiting() > 0,
        }
    }

    /// The reader has died: its successor gets messages again.
    pub fn mend(&mut self) {
        if let MessageSender::Ring(ring, _) = self {
            ring.mend();
        }
    }

    /// Drops what waits, as the reader is gone; gives the messages that were never sent,
    /// which those to another process are not.
    pub fn clear(&mut self) -> Vec<T> {
        match self {
            MessageSender::Queue(queue) => queue.take_waiting().collect(),
            MessageSender::Ring(ring, _) => {
                ring.clear();
                Vec::new()
            }
        }
    }
}

/// The reading end of an edge for messages.
#[derive(Debug)]
pub enum MessageReceiver<T> {
    /// From a thread of this process.
    Queue(Consumer<T>),
    /// From another process, with room for a message's bytes, and how many were none.
    Ring(MessageInput, Vec<u8>, u64),
}

impl<T: WireMessage> MessageReceiver<T> {
    /// Moves up to `most` messages to the end of `into`; gives their number.
    pub fn drain(&mut self, most: usize, into: &mut Vec<T>) -> usize {
        match self {
            MessageReceiver::Queue(queue) => drain(queue, most, into),
            MessageReceiver::Ring(ring, bytes, bad) => {
                let before = into.len();
                while into.len() - before < most && ring.take(bytes) {
                    match T::get(bytes) {
                        Some(message) => into.push(message),
                        None => *bad += 1,
                    }
                }
                into.len() - before
            }
        }
    }

    /// True where nothing waits, not even a part of a message.
    pub fn is_empty(&self) -> bool {
        match self {
            MessageReceiver::Queue(queue) => queue.is_empty(),
            MessageReceiver::Ring(ring, ..) => ring.is_empty(),
        }
    }

    /// Messages that made no sense; each time that the whole way made none is one more.
    pub fn bad(&self) -> u64 {
        match self {
            MessageReceiver::Queue(_) => 0,
            MessageReceiver::Ring(ring, _, bad) => bad + u64::from(ring.is_broken()),
        }
    }

    /// The writer has died: drops the part of a message that it has left, and takes its
    /// successor's word.
    pub fn mend(&mut self) {
        if let MessageReceiver::Ring(ring, _, bad) = self {
            *bad += u64::from(ring.is_broken());
            ring.mend();
        }
    }

    /// The reader is about to sleep; false where it must not.
    pub fn prepare_park(&mut self) -> bool {
        match self {
            MessageReceiver::Queue(_) => true,
            MessageReceiver::Ring(ring, ..) => ring.prepare_park(),
        }
    }

    /// The reader is awake.
    pub fn unpark(&mut self) {
        if let MessageReceiver::Ring(ring, ..) = self {
            ring.unpark();
        }
    }
}
