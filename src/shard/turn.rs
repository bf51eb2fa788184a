//! Who gets the disk: reads of old data stand back while something is written.
//! Per shard; asked by `read` before each window, told of each write by `disk`.
//! Always: a read goes on, however much is written; without writes nothing waits here.
//! What is read and written is decided there.

use std::cell::Cell;

use crate::base::MonoNs;
use crate::io::sync::{Counted, Notify};
use crate::io::{clock, executor};

/// See the module.
#[derive(Default)]
pub(super) struct Turns {
    reads: Cell<usize>,
    writes: Cell<usize>,
    /// When a write last ended.
    wrote: Cell<MonoNs>,
    read_ended: Notify,
    write_ended: Notify,
}

/// A read at the disk, for as long as it lives.
pub(super) struct ReadTurn<'a> {
    turns: &'a Turns,
    _counted: Counted<'a>,
}

/// A write at the disk, for as long as it lives.
pub(super) struct WriteTurn<'a> {
    turns: &'a Turns,
    _counted: Counted<'a>,
}

impl Turns {
    /// Writes never wait.
    pub fn write(&self) -> WriteTurn<'_> {
        WriteTurn {
            turns: self,
            _counted: Counted::new(&self.writes),
        }
    }

    /// Waits until there is room for a read beside what is written.
    pub async fn read(&self) -> ReadTurn<'_> {
        loop {
            let ended = self.read_ended.wait();
            if self.reads.get() < self.reads_max() {
                break;
            }
            ended.await;
        }
        let turn = ReadTurn {
            turns: self,
            _counted: Counted::new(&self.reads),
        };
        self.let_writes_end().await;
        turn
    }

    /// Waits until no write is at the disk, but not for long.
    async fn let_writes_end(&self) {
        let patience = clock::mono().plus_ms(PATIENCE_MS);
        let over = async {
            while self.writes.get() > 0 {
                self.write_ended.wait().await;
            }
        };
        if self.writes.get() > 0 {
            let _ = executor::until(patience, over).await;
        }
    }

    fn reads_max(&self) -> usize {
        let now = clock::mono();
        match self.writes.get() > 0 || now.ms_since(self.wrote.get()) < LATELY_MS {
            true => READS_BESIDE_WRITES,
            false => usize::MAX,
        }
    }
}

impl Drop for ReadTurn<'_> {
    fn drop(&mut self) {
        self.turns.read_ended.notify();
    }
}

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        self.turns.wrote.set(clock::mono());
        self.turns.write_ended.notify();
    }
}

/// Each read at the disk may be one that a write waits for.
const READS_BESIDE_WRITES: usize = 1;
/// For so long after a write the next is expected.
const LATELY_MS: u64 = 20;
/// How long a read waits for writes to end, which may never happen.
const PATIENCE_MS: i64 = 1;
