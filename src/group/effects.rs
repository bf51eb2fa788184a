//! What the flows of a coordinator act upon besides groups and offsets: settings, time, timers, replies and appends.
//! Owned by one `Coordinator`, lent to its groups for the length of a command.
//! Always: a token is answered once; appends are completed in the order they were asked for.
//! What a completed append changes is in `appended`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;

use super::api::{Append, AppendId, Outputs, Protocol, Record, Reply, Token};
use super::classic::Group;
use super::config::Config;
use super::timers::{Event, TimerHandle, Timers};
use crate::base::{Now, PartitionIndex};

#[derive(Debug, Default)]
pub(super) struct Effects {
    pub config: Config,
    /// Of the command being carried out.
    pub now: Now,
    pub timers: Timers,
    pub in_flight: VecDeque<InFlight>,
    outputs: Outputs,
    /// Requests without an answer yet; false once their connection is gone.
    open: BTreeMap<Token, bool>,
    appends_begun: u64,
}

/// An append that is not durable yet, what happens when it is, and the reply that waits for it.
#[derive(Debug)]
pub(super) struct InFlight {
    pub id: AppendId,
    pub completion: Completion,
    pub reply: Option<(Token, Reply)>,
}

/// What to do when an append has succeeded or failed. A group is named with its incarnation, so that a group made anew
/// under the same name in the meantime is left alone.
#[derive(Debug)]
pub(super) enum Completion {
    /// The empty group of a first join.
    NewGroup { group: Rc<str>, incarnation: u64 },
    /// A generation without members; nothing hangs on it.
    EmptyGeneration,
    /// The leader's assignment for a generation.
    Assignment {
        group: Rc<str>,
        incarnation: u64,
        generation: i32,
        assignments: BTreeMap<String, Bytes>,
    },
    /// A static member that came back under a new id while the group was stable.
    StaticReplacement(Box<StaticReplacement>),
    /// Committed offsets, as (topic, partition) in the order of the records.
    Offsets {
        group: Rc<str>,
        incarnation: u64,
        partitions: Vec<(Rc<str>, PartitionIndex)>,
    },
    /// Forgotten offsets as (group, topic, partition), and groups taken out of the map.
    Tombstones {
        offsets: Vec<(Rc<str>, Rc<str>, PartitionIndex)>,
        groups: Vec<Group>,
    },
}

/// What a static replacement needs to be finished or undone.
#[derive(Debug)]
pub(super) struct StaticReplacement {
    pub group: Rc<str>,
    pub incarnation: u64,
    pub generation: i32,
    pub instance_id: String,
    pub new_member_id: Rc<str>,
    pub old_member_id: Rc<str>,
    pub old_protocols: Vec<Protocol>,
    pub old_rebalance_timeout_ms: i32,
    pub old_session_timeout_ms: i32,
    /// The leader before the replacement: what versions that can't skip the assignment are told.
    pub leader_before: Option<Rc<str>>,
    pub can_skip_assignment: bool,
}

impl Effects {
    pub fn new(config: Config) -> Effects {
        Effects {
            config,
            ..Effects::default()
        }
    }

    /// A request came in that will be answered through [`reply`](Effects::reply).
    pub fn open(&mut self, token: Token) {
        let before = self.open.insert(token, true);
        assert!(before.is_none(), "token {token:?} is in use");
    }

    /// The answer to an open request; nobody hears it if the connection is gone.
    pub fn reply(&mut self, token: Token, reply: Reply) {
        match self.open.remove(&token) {
            Some(true) => self.outputs.replies.push((token, reply)),
            Some(false) => {}
            None => panic!("token {token:?} was answered before, now with {reply:?}"),
        }
    }

    pub fn disconnect(&mut self, token: Token) {
        if let Some(connected) = self.open.get_mut(&token) {
            *connected = false;
        }
    }

    pub fn append(&mut self, records: Vec<Record>, completion: Completion) -> AppendId {
        self.appends_begun += 1;
        let id = AppendId(self.appends_begun);
        self.outputs.appends.push(Append { id, records });
        self.in_flight.push_back(InFlight {
            id,
            completion,
            reply: None,
        });
        id
    }

    /// Answers now, or together with the append if there is one.
    pub fn reply_after(&mut self, append: Option<AppendId>, token: Token, reply: Reply) {
        match append {
            None => self.reply(token, reply),
            Some(id) => {
                let last = self.in_flight.back_mut().expect("it was just begun");
                assert_eq!(last.id, id, "only the append of this command is waited for");
                assert!(last.reply.is_none(), "one reply per append");
                last.reply = Some((token, reply));
            }
        }
    }

    /// Schedules `event` in `ms` from now.
    pub fn schedule(&mut self, ms: i32, event: Event) -> TimerHandle {
        self.timers
            .schedule(self.now.mono.plus_ms(i64::from(ms)), event)
    }

    /// Appends that the caller has not taken yet are not wanted any more.
    pub fn forget_appends(&mut self) {
        self.outputs.appends.clear();
    }

    pub fn take_outputs(&mut self) -> Outputs {
        std::mem::take(&mut self.outputs)
    }

    /// Requests that have not been answered.
    pub fn open_tokens(&self) -> BTreeSet<Token> {
        self.open.keys().copied().collect()
    }
}
