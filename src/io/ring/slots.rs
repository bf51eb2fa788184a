//! Who waits for which operation of the ring, and what the operation still uses.
//! Owned by the `Ring` of a shard.
//! Always: a slot is free only after the kernel has answered and nobody waits for it any more; until the answer its memory
//! and file descriptor live, whoever dropped the future.
//! Building entries is `ops`'.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Waker;

use io_uring::types::Timespec;
use smallvec::SmallVec;

use crate::io::arena::Pinned;

/// What an operation reads from or writes to; lives as long as the kernel may use it.
#[derive(Default)]
pub enum Memory {
    #[default]
    None,
    /// Arena memory of one plain read or write.
    Arena(Pinned),
    /// Arena memory of a vectored write, with the vector itself.
    ArenaVec(SmallVec<[Pinned; 2]>, IoVecs),
    Heap(Vec<u8>),
    Word(Box<u64>),
    Time(Box<Timespec>),
    Path(CString),
    Paths(CString, CString),
}

/// A vector of addresses for the kernel; it points into the memory it is kept with.
pub struct IoVecs(
    #[expect(dead_code, reason = "the kernel reads it")] pub(super) Box<[libc::iovec]>,
);

/// All slots of a ring.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
}

struct Slot {
    /// Told apart from earlier uses of the slot.
    generation: u32,
    state: State,
}

enum State {
    Free,
    /// The kernel has it, a future waits.
    Waited {
        waker: Option<Waker>,
        hold: Hold,
    },
    /// The kernel has it, the future was dropped.
    Abandoned(Hold),
    /// The kernel has answered, the future has not looked yet.
    Done(i32, Hold),
}

/// Owned by a slot as long as the kernel may use it.
pub(super) struct Hold {
    #[expect(
        dead_code,
        reason = "keeps the descriptor's number from being used for another file"
    )]
    pub fd: Option<Rc<OwnedFd>>,
    pub memory: Memory,
    /// A wait, which nobody misses when it is cut short.
    pub cancellable: bool,
}

/// What is left to do, with no borrow of the slots held, after a completion.
pub(super) struct Finished(Option<Waker>, Option<Hold>);

impl Finished {
    pub fn finish(self) {
        drop(self.1);
        if let Some(waker) = self.0 {
            waker.wake();
        }
    }
}

impl Slots {
    /// A slot for an operation that is about to start: its index and its `user_data`.
    pub fn begin(&mut self, hold: Hold) -> (u32, u64) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                state: State::Free,
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        assert!(
            matches!(slot.state, State::Free),
            "slot {index} is in use already"
        );
        slot.generation = slot.generation.wrapping_add(1) & 0x7fff_ffff;
        slot.state = State::Waited { waker: None, hold };
        self.in_flight += 1;
        (index, user_data(index, slot.generation))
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The kernel has answered.
    pub fn complete(&mut self, user_data: u64, result: i32) -> Finished {
        let index = user_data as u32;
        let slot = &mut self.slots[index as usize];
        assert_eq!(
            slot.generation,
            (user_data >> 32) as u32,
            "completion of an earlier use of slot {index}"
        );
        self.in_flight -= 1;
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Waited { waker, hold } => {
                slot.state = State::Done(result, hold);
                Finished(waker, None)
            }
            State::Abandoned(hold) => {
                self.free.push(index);
                Finished(None, Some(hold))
            }
            State::Free | State::Done(..) => panic!("slot {index} completed twice"),
        }
    }

    /// The answer, if it is there (the slot is free then); else remembers whom to wake.
    pub fn poll(&mut self, index: u32, waker: &Waker) -> Option<(i32, Hold)> {
        let slot = &mut self.slots[index as usize];
        match &mut slot.state {
            State::Done(..) => {
                let State::Done(result, hold) = std::mem::replace(&mut slot.state, State::Free)
                else {
                    unreachable!("just matched")
                };
                self.free.push(index);
                Some((result, hold))
            }
            State::Waited { waker: slot, .. } => {
                match slot {
                    Some(old) => old.clone_from(waker),
                    None => *slot = Some(waker.clone()),
                }
                None
            }
            State::Free | State::Abandoned(_) => panic!("slot {index} polled with no operation"),
        }
    }

    /// The future is gone. Gives the `user_data` to cancel by while the kernel has the operation (`None` if it must run to its
    /// end), or what to drop.
    pub fn abandon(&mut self, index: u32) -> Result<Option<u64>, Hold> {
        let slot = &mut self.slots[index as usize];
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Waited { hold, .. } => {
                let cancel = hold.cancellable;
                slot.state = State::Abandoned(hold);
                Ok(cancel.then(|| user_data(index, slot.generation)))
            }
            State::Done(_, hold) => {
                self.free.push(index);
                Err(hold)
            }
            State::Free | State::Abandoned(_) => panic!("slot {index} dropped with no operation"),
        }
    }

    /// The `user_data` of all waits that the kernel has.
    pub fn cancellable(&self) -> Vec<u64> {
        let waits = self.slots.iter().enumerate().filter(
            |(_, slot)| matches!(&slot.state, State::Waited { hold, .. } if hold.cancellable),
        );
        waits
            .map(|(index, slot)| user_data(index as u32, slot.generation))
            .collect()
    }

    /// Forgets, without freeing it, what the kernel may still write to.
    pub fn leak(&mut self) {
        for slot in &mut self.slots {
            match std::mem::replace(&mut slot.state, State::Free) {
                State::Waited { hold, waker } => {
                    drop(waker);
                    std::mem::forget(hold);
                }
                State::Abandoned(hold) => std::mem::forget(hold),
                State::Free => {}
                done @ State::Done(..) => slot.state = done,
            }
        }
    }
}

fn user_data(index: u32, generation: u32) -> u64 {
    (generation as u64) << 32 | index as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> Hold {
        Hold {
            fd: None,
            memory: Memory::Heap(vec![1]),
            cancellable: true,
        }
    }

    #[test]
    fn slot_is_reused_only_after_answer_and_look() {
        let mut slots = Slots::default();
        let (first, data) = slots.begin(hold());
        let (second, _) = slots.begin(hold());
        assert_ne!(first, second);
        assert!(slots.poll(first, Waker::noop()).is_none());
        slots.complete(data, 5).finish();
        let (third, _) = slots.begin(hold());
        assert_ne!(third, first, "the answer was not looked at yet");
        let (result, hold_back) = slots.poll(first, Waker::noop()).expect("done");
        assert_eq!(result, 5);
        assert!(matches!(hold_back.memory, Memory::Heap(_)));
        let (fourth, data4) = slots.begin(hold());
        assert_eq!(fourth, first);
        assert_ne!(
            data4, data,
            "an old completion would be taken for a new one"
        );
    }

    #[test]
    fn abandoned_memory_lives_until_the_answer() {
        let mut slots = Slots::default();
        let (index, data) = slots.begin(hold());
        assert_eq!(slots.abandon(index).ok(), Some(Some(data)));
        assert_eq!(slots.in_flight(), 1);
        let finished = slots.complete(data, 0);
        assert!(finished.1.is_some(), "memory is freed by the completion");
        assert_eq!(slots.in_flight(), 0);
    }

    #[test]
    #[should_panic(expected = "earlier use")]
    fn completion_of_an_earlier_use_is_a_bug() {
        let mut slots = Slots::default();
        let (index, data) = slots.begin(hold());
        slots.complete(data, 0).finish();
        slots.poll(index, Waker::noop());
        slots.begin(hold());
        let _ = slots.complete(data, 0);
    }
}
