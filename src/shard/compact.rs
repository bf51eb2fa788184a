//! Keeps the log of a group coordinator short, as Kafka's cleaner keeps `__consumer_offsets`: the records that are still true are
//! written again at the end of the log, then all before them goes.
//! Part of the coordinator's append task, which alone writes to that partition; a task beside it finds what is true.
//! Always: at any moment the log replays to the state it had; old records go only when the new ones are durable. So a crash, a
//! refusal or a full disk on the way costs nothing but the copies that were written, and it is tried again later.
//! What is still true is for `group::LiveRecords` to say. Who consumes `__consumer_offsets` sees each live record again under a
//! new offset, with its old timestamp, and the log start move; tombstones go at once, not after `delete.retention.ms`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{AppendRequest, BatchBytes, PartitionCell, Shard};
use crate::base::{ErrorCode, LeaderEpoch, Offset};
use crate::group::{LiveRecord, LiveRecords};
use crate::io::sync::Notify;
use crate::io::{clock, executor, file};
use crate::record::BatchBuilder;

/// The compaction of one partition.
pub(super) struct Compaction {
    cell: Rc<PartitionCell>,
    /// Notified when there is something to go on with.
    wake: Rc<Notify>,
    /// The log is looked through when it has this many bytes.
    due_bytes: Cell<u64>,
    stage: RefCell<Stage>,
}

#[derive(Default)]
enum Stage {
    /// -> Surveying, when the log is long
    #[default]
    Waits,
    /// The log is read. -> Surveyed
    Surveying,
    /// The live records before that offset, or why there are none. -> Waits
    Surveyed(Result<(LiveRecords, Offset), String>),
}

impl Compaction {
    pub fn new(cell: Rc<PartitionCell>, wake: Rc<Notify>) -> Rc<Compaction> {
        Rc::new(Compaction {
            cell,
            wake,
            due_bytes: Cell::new(FIRST_BYTES_MIN),
            stage: RefCell::default(),
        })
    }

    /// Does what is to be done now. Called between appends, when nothing of the partition is on its way to the disk.
    pub async fn go_on(self: &Rc<Self>, shard: &Rc<Shard>) {
        let stage = self.stage.take();
        match stage {
            Stage::Waits if self.log_bytes() >= self.due_bytes.get() => {
                *self.stage.borrow_mut() = Stage::Surveying;
                executor::spawn_detached(self.clone().survey(shard.clone()));
            }
            Stage::Waits | Stage::Surveying => *self.stage.borrow_mut() = stage,
            Stage::Surveyed(found) => {
                let bytes = self.log_bytes();
                let done = match found {
                    Ok((live, end)) => self.finish(shard, live, end).await,
                    Err(reason) => Err(reason),
                };
                if let Err(reason) = done {
                    self.due_bytes.set(self.log_bytes() + LOG_BYTES_MIN);
                    tracing::warn!(
                        partition = %self.cell.name(),
                        "{bytes} bytes of group records were not made fewer, later again: {reason}"
                    );
                }
            }
        }
    }

    fn log_bytes(&self) -> u64 {
        self.cell.partition.borrow().log().size_bytes()
    }

    /// Reads the log, while it goes on.
    async fn survey(self: Rc<Self>, shard: Rc<Shard>) {
        let mut live = LiveRecords::default();
        let end = read(&shard, &self.cell, Offset::ZERO, &mut live).await;
        *self.stage.borrow_mut() = Stage::Surveyed(end.map(|end| (live, end)));
        self.wake.notify();
    }

    /// Makes the log short, if that is worth it.
    async fn finish(
        &self,
        shard: &Rc<Shard>,
        mut live: LiveRecords,
        end: Offset,
    ) -> Result<(), String> {
        // What came meanwhile.
        read(shard, &self.cell, end, &mut live).await?;
        let (bytes, live_bytes) = (self.log_bytes(), live.bytes());
        self.due_bytes.set(LOG_BYTES_MIN.max(WORTH * live_bytes));
        if bytes < WORTH * live_bytes {
            return Ok(());
        }
        let (_, free) = file::space(&shard.settings.data)
            .await
            .map_err(|error| error.to_string())?;
        let wanted = 2 * live_bytes + SPACE_BYTES_MIN;
        if free < wanted {
            return Err(format!("{free} bytes are free, {wanted} are needed"));
        }
        let start = self.cell.partition.borrow_mut().roll(clock::now());
        self.write(shard, live).await.map_err(|e| e.to_string())?;
        let deleted = shard.delete_records(self.cell.id, start).await;
        deleted.map_err(|error| error.to_string())?;
        shard.settle(&self.cell).await;
        tracing::info!(
            partition = %self.cell.name(),
            "{bytes} bytes of group records became {}", self.log_bytes()
        );
        Ok(())
    }

    /// Appends the live records; durable when it returns.
    async fn write(&self, shard: &Rc<Shard>, live: LiveRecords) -> Result<(), ErrorCode> {
        let records = live.into_records();
        let mut begun = Vec::new();
        for batch in batches(&records) {
            let appended = shard
                .append(
                    &self.cell,
                    BatchBytes::Frame(built(batch).into()),
                    AppendRequest::INTERNAL,
                )
                .await;
            let (_, durable) = appended.map_err(|refused| refused.error)?;
            begun.extend(durable);
            executor::yield_if_needed().await;
        }
        for durable in begun {
            durable
                .await
                .unwrap_or(Err(ErrorCode::NotLeaderOrFollower))?;
        }
        Ok(())
    }
}

/// Takes the durable records from an offset on; the offset after them.
async fn read(
    shard: &Rc<Shard>,
    cell: &Rc<PartitionCell>,
    from: Offset,
    live: &mut LiveRecords,
) -> Result<Offset, String> {
    shard
        .replay_records(cell, from, |record| {
            live.take(record.offset, record.timestamp, record.key, record.value);
        })
        .await
}

/// Runs of records that make a batch of up to `BATCH_BYTES_MAX` each; a record that is larger is alone.
fn batches(records: &[LiveRecord]) -> impl Iterator<Item = &[LiveRecord]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fit = rest.iter().take_while(|record| {
            bytes += record.bytes();
            bytes <= BATCH_BYTES_MAX
        });
        let (batch, after) = rest.split_at(fit.count().max(1).min(rest.len()));
        rest = after;
        (!batch.is_empty()).then_some(batch)
    })
}

fn built(records: &[LiveRecord]) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for record in records {
        builder.append(
            record.timestamp,
            Some(&record.key),
            Some(&record.value),
            &[],
        );
    }
    builder.finish(Offset::ZERO, LeaderEpoch::NONE)
}

/// A log below this is left as it is...
const LOG_BYTES_MIN: u64 = 16 << 20;
/// ... and below this the first time after a start, which is the time to have a log that the next start reads fast.
const FIRST_BYTES_MIN: u64 = 1 << 20;
/// How many times the live bytes a log must have.
const WORTH: u64 = 4;
const BATCH_BYTES_MAX: u64 = 512 << 10;
/// Room for the file of the new segment.
const SPACE_BYTES_MIN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::record::scan::Batches;

    fn record(offset: i64, bytes: usize) -> LiveRecord {
        LiveRecord {
            offset: Offset(offset),
            timestamp: Timestamp(1_000 + offset),
            key: offset.to_be_bytes().to_vec(),
            value: vec![7; bytes],
        }
    }

    #[test]
    fn live_records_go_into_bounded_batches_in_their_order() {
        let large = BATCH_BYTES_MAX as usize;
        let sizes = [10, large / 2, large / 2, large, large * 3, 5, 5];
        let records: Vec<_> = (0..)
            .zip(sizes)
            .map(|(at, bytes)| record(at, bytes))
            .collect();
        let counts: Vec<_> = batches(&records).map(<[_]>::len).collect();
        assert_eq!(counts, [2, 1, 1, 1, 2]);
        assert_eq!(batches(&[]).count(), 0);
        let mut at = 0;
        for batch in batches(&records) {
            let bytes = built(batch);
            let mut scratch = Vec::new();
            let read = Batches::new(&bytes).next().expect("it is a batch");
            for read in read.records(&mut scratch).expect("it is whole") {
                let read = read.expect("it is good");
                assert_eq!(read.key, Some(&records[at].key[..]));
                assert_eq!(read.value, Some(&records[at].value[..]));
                assert_eq!(read.timestamp, records[at].timestamp);
                at += 1;
            }
        }
        assert_eq!(at, records.len());
    }
}
