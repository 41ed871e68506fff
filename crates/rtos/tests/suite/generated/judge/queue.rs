//! A queue: messages come out in the order of the commits that have sent them, each once.
//!
//! An open step has a slot for each message that it sends, and has the messages that it receives
//! for itself. If it fails, these are where they were: in front of younger ones.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Message {
    id: u32,
    /// How many were sent before it.
    number: u32,
    /// The thread whose open step has it.
    claimed: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    slots: usize,
    messages: Vec<Message>,
    sent: u32,
    /// What the open step of each thread sends.
    sends: [Vec<u32>; THREADS],
}

impl Queue {
    pub fn new(slots: usize) -> Self {
        Queue {
            slots,
            messages: Vec::new(),
            sent: 0,
            sends: Default::default(),
        }
    }

    fn reserved(&self) -> usize {
        self.sends.iter().map(Vec::len).sum()
    }

    /// Whether the step of `t` gets a slot.
    pub fn send(&mut self, t: usize, id: u32) -> bool {
        let room = self.messages.len() + self.reserved() < self.slots;
        if room {
            self.sends[t].push(id);
        }
        room
    }

    /// The same by a handler.
    pub fn send_at_once(&mut self, id: u32) -> bool {
        let room = self.messages.len() + self.reserved() < self.slots;
        if room {
            self.append(id);
        }
        room
    }

    /// The oldest message that no step has, for the step of `t`.
    pub fn receive(&mut self, t: usize) -> Option<u32> {
        let first = self.messages.iter_mut().find(|m| m.claimed.is_none())?;
        first.claimed = Some(t as u8);
        Some(first.id)
    }

    /// A queue may refuse a message if 64 were sent since the oldest one, as its documents say.
    pub fn may_refuse(&self) -> bool {
        let reserved = self.reserved() as u32;
        let oldest = self.messages.first();
        oldest.is_some_and(|m| self.sent - m.number + reserved >= 64)
    }

    fn append(&mut self, id: u32) {
        self.messages.push(Message {
            id,
            number: self.sent,
            claimed: None,
        });
        self.sent += 1;
    }
}

impl Object for Queue {
    fn commit(&mut self, t: usize, _: u64) {
        self.messages.retain(|m| m.claimed != Some(t as u8));
        for id in std::mem::take(&mut self.sends[t]) {
            self.append(id);
        }
    }
    fn undo(&mut self, t: usize) {
        self.sends[t].clear();
        let its = self
            .messages
            .iter_mut()
            .filter(|m| m.claimed == Some(t as u8));
        its.for_each(|m| m.claimed = None);
    }
    fn operations(&self, t: usize) -> usize {
        let its = self.messages.iter().filter(|m| m.claimed == Some(t as u8));
        self.sends[t].len() + its.count()
    }
}
