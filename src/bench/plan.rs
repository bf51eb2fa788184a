//! Who sends to which partitions from which core over which connections, and who reads them.
//! Pure; made once per phase.
//! Always: what is sent to a partition and read from it belongs to one core, so that one ledger sees both; each partition has a producer.
//! Connecting is `phase`'s.

use std::collections::BTreeMap;

use crate::client::metadata::Topic;

/// What one load core does.
#[derive(Clone, Debug, Default)]
pub struct CorePlan {
    pub lanes: Vec<LanePlan>,
    pub readers: Vec<ReaderPlan>,
    /// Who reads old data beside.
    pub cold: Vec<ReaderPlan>,
}

/// A connection that sends.
#[derive(Clone, Debug, PartialEq)]
pub struct LanePlan {
    pub id: u16,
    pub address: String,
    pub partitions: Vec<i32>,
    /// Of all records of the run.
    pub share: f64,
    /// Where in its interval it begins, so that connections take turns: 0 to 1.
    pub phase: f64,
}

/// A connection that reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderPlan {
    pub address: String,
    pub partitions: Vec<i32>,
}

/// Connections a run may have: their number is part of every batch.
pub const LANES_MAX: usize = 1 << 16;
/// Places in the turn of a connection whose partitions get different shares.
const TURN_PLACES: usize = 1024;

/// Spreads `producers` and `consumers` over at most `cores`; `shares` are those of the partitions.
pub fn plan(
    topic: &Topic,
    shares: &[f64],
    producers: usize,
    consumers: usize,
    cores: usize,
) -> Result<Vec<CorePlan>, String> {
    let partitions = topic.partitions();
    let groups = producers.max(1).min(partitions);
    let used = cores.min(groups);
    let mut plans = vec![CorePlan::default(); used];
    let mut lanes = Vec::new();
    for producer in 0..producers {
        // Fewer producers than partitions: each has several; more: each partition has several.
        let group = producer % groups;
        let sharing = (producers - 1 - group) / groups + 1;
        let mut by_leader: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for partition in (group..partitions).step_by(groups) {
            let leader = topic.leaders[partition].as_str();
            by_leader.entry(leader).or_default().push(partition as i32);
        }
        for (leader, own) in by_leader {
            let share: f64 = own.iter().map(|&p| shares[p as usize]).sum();
            lanes.push((group % used, leader.to_owned(), own, share / sharing as f64));
        }
    }
    if lanes.len() > LANES_MAX {
        return Err(format!(
            "{} connections are more than the {LANES_MAX} that can be told apart; use fewer --producers",
            lanes.len()
        ));
    }
    let count = lanes.len();
    for (index, (core, address, own, share)) in lanes.into_iter().enumerate() {
        plans[core].lanes.push(LanePlan {
            id: index as u16,
            address,
            partitions: turn(&own, shares),
            share,
            phase: index as f64 / count as f64,
        });
    }
    let readers = consumers.min(partitions);
    for reader in 0..readers {
        let mut by_leader: BTreeMap<(usize, &str), Vec<i32>> = BTreeMap::new();
        for partition in (reader..partitions).step_by(readers) {
            let home = partition % groups % used;
            let key = (home, topic.leaders[partition].as_str());
            by_leader.entry(key).or_default().push(partition as i32);
        }
        for ((core, leader), partitions) in by_leader {
            plans[core].readers.push(ReaderPlan {
                address: leader.to_owned(),
                partitions,
            });
        }
    }
    Ok(plans)
}

/// The partitions of a connection in the order it serves them: one behind the other if they get the same, else each as often as its
/// share says, spread evenly.
fn turn(own: &[i32], shares: &[f64]) -> Vec<i32> {
    let share = |p: &i32| shares[*p as usize];
    let first = own.first().map_or(0.0, share);
    if own.iter().all(|p| (share(p) - first).abs() < 1e-12) {
        return own.to_vec();
    }
    let sum: f64 = own.iter().map(share).sum();
    let mut credit = vec![0.0; own.len()];
    (0..TURN_PLACES.max(own.len()))
        .map(|_| {
            for (credit, partition) in credit.iter_mut().zip(own) {
                *credit += share(partition) / sum;
            }
            let most = (0..own.len()).max_by(|a, b| credit[*a].total_cmp(&credit[*b]));
            let most = most.unwrap_or(0);
            credit[most] -= 1.0;
            own[most]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Uuid;

    fn topic(leaders: &[&str]) -> Topic {
        Topic {
            name: "t".to_owned(),
            id: Uuid::ZERO,
            leaders: leaders.iter().map(|l| l.to_string()).collect(),
        }
    }

    #[test]
    fn every_partition_is_written_and_read_on_one_core() {
        let eight = topic(&["a", "b", "a", "b", "a", "b", "a", "b"]);
        for producers in [1, 2, 3, 8, 20] {
            for consumers in [0, 1, 3, 9] {
                for cores in [1, 2, 4] {
                    let plans = plan(&eight, &[0.125; 8], producers, consumers, cores).unwrap();
                    let mut share = 0.0;
                    for partition in 0..8 {
                        let writes: Vec<usize> = (0..plans.len())
                            .filter(|&core| {
                                let mut lanes = plans[core].lanes.iter();
                                lanes.any(|lane| lane.partitions.contains(&partition))
                            })
                            .collect();
                        assert_eq!(writes.len(), 1, "{producers} {consumers} {cores}");
                        let reads: Vec<(usize, &str)> = (0..plans.len())
                            .flat_map(|core| plans[core].readers.iter().map(move |r| (core, r)))
                            .filter(|(_, reader)| reader.partitions.contains(&partition))
                            .map(|(core, reader)| (core, reader.address.as_str()))
                            .collect();
                        let leader = eight.leaders[partition as usize].as_str();
                        match consumers {
                            0 => assert!(reads.is_empty()),
                            _ => assert_eq!(reads, [(writes[0], leader)]),
                        }
                    }
                    for lane in plans.iter().flat_map(|plan| &plan.lanes) {
                        share += lane.share;
                        let leads = |p: &i32| eight.leaders[*p as usize] == lane.address;
                        assert!(lane.partitions.iter().all(leads));
                    }
                    assert!((share - 1.0).abs() < 1e-9, "{share}");
                }
            }
        }
    }

    #[test]
    fn there_are_as_many_consumers_as_were_asked_for_whatever_sends() {
        let eight = topic(&["a"; 8]);
        for (consumers, readers) in [(1, 1), (4, 4), (8, 8), (20, 8)] {
            let plans = plan(&eight, &[0.125; 8], 1, consumers, 2).unwrap();
            assert_eq!(plans.len(), 1, "one producer has one core");
            assert_eq!(plans[0].readers.len(), readers, "{consumers} consumers");
        }
    }

    #[test]
    fn shares_decide_how_often_a_partition_has_its_turn() {
        let turn = turn(&[0, 1], &[0.75, 0.25]);
        let first = turn.iter().filter(|p| **p == 0).count();
        assert_eq!((first, turn.len()), (768, 1024));
        assert_eq!(turn[..4].iter().filter(|p| **p == 1).count(), 1, "spread");
    }
}
