//! CreatePartitions (Kafka's `ReplicationControlManager.createPartitions`).
//! Part of the controller.
//! Always: each topic is taken or refused for itself, except that too many partitions refuse the whole request; partitions that
//! are there stay where they are.
//! Who may change what is decided before it comes here.

use super::{CommandError, Controller, Outcome, repeated};
use crate::base::{ErrorCode, NodeId, PartitionIndex, limits};
use crate::metadata::records::MetadataRecord;
use crate::wire::Str;

/// A topic to grow.
#[derive(Clone, Debug)]
pub struct NewPartitions<'a> {
    pub name: &'a str,
    /// Partitions it shall have, old ones included.
    pub count: i32,
    /// Nodes of each new partition; `None`: wherever placement says.
    pub assignments: Option<Vec<Vec<NodeId>>>,
}

impl Controller {
    /// Grows topics; results in the order of the request, then the names that were given twice.
    pub fn create_partitions(
        &self,
        topics: &[NewPartitions<'_>],
        validate_only: bool,
    ) -> Outcome<Vec<(Str, Result<(), CommandError>)>> {
        let doubles = repeated(topics.iter().map(|topic| topic.name));
        let single = |topic: &&NewPartitions<'_>| doubles.binary_search(&topic.name).is_err();
        let mut records = Vec::new();
        let mut response = Vec::with_capacity(topics.len());
        let too_many = self.too_many_additional(topics.iter().filter(single));
        for topic in topics.iter().filter(single) {
            let result = match &too_many {
                Some(error) => Err(error.clone()),
                None => self.grow(topic, &mut records),
            };
            response.push((Str::copy_from(topic.name), result));
        }
        for name in doubles {
            let error = CommandError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
            response.push((Str::copy_from(name), Err(error)));
        }
        if validate_only {
            records.clear();
        }
        Outcome { records, response }
    }

    fn too_many_additional<'a>(
        &self,
        topics: impl Iterator<Item = &'a NewPartitions<'a>>,
    ) -> Option<CommandError> {
        let additional = |request: &NewPartitions<'_>| {
            let topic = self.image.topic(request.name)?;
            let wanted = usize::try_from(request.count).ok()?;
            wanted.checked_sub(topic.partitions.len())
        };
        let total: usize = topics.filter_map(additional).sum();
        (total > limits::PARTITIONS_PER_REQUEST_MAX).then(|| {
            CommandError::new(
                ErrorCode::PolicyViolation,
                "Excessively large number of additional partitions per request.",
            )
        })
    }

    fn grow(
        &self,
        request: &NewPartitions<'_>,
        records: &mut Vec<MetadataRecord>,
    ) -> Result<(), CommandError> {
        let topic = self
            .image
            .topic(request.name)
            .ok_or(CommandError::bare(ErrorCode::UnknownTopicOrPartition))?;
        let now = i32::try_from(topic.partitions.len()).expect("partitions are numbered by i32");
        if request.count == now {
            return Err(CommandError::new(
                ErrorCode::InvalidPartitions,
                format!("Topic already has {now} partition(s)."),
            ));
        }
        if request.count < now {
            return Err(CommandError::new(
                ErrorCode::InvalidPartitions,
                format!(
                    "The topic {} currently has {now} partition(s); {} would not be an increase.",
                    request.name, request.count
                ),
            ));
        }
        let additional = (request.count - now) as usize;
        let nodes = match &request.assignments {
            None => vec![None; additional],
            Some(assignments) if assignments.len() != additional => {
                return Err(CommandError::new(
                    ErrorCode::InvalidReplicaAssignment,
                    format!(
                        "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
                        assignments.len()
                    ),
                ));
            }
            Some(assignments) => {
                let size = Some(topic.partitions[0].replicas.len());
                let check = |nodes: &Vec<NodeId>| self.check_assignment(nodes, size).map(Some);
                assignments
                    .iter()
                    .map(check)
                    .collect::<Result<Vec<_>, _>>()?
            }
        };
        // From here nothing fails.
        for (index, node) in (now..).zip(nodes) {
            records.push(self.new_partition(topic.id, PartitionIndex(index), node));
        }
        Ok(())
    }
}
