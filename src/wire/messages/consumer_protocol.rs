//! What consumers tell each other through a classic group: the blobs in JoinGroup and SyncGroup. The broker reads them only to
//! say which topics a group uses. A version in front; a later one is read as the latest known, what follows is ignored.
//! v1: owned partitions (KIP-429). v2: generation (KIP-792). v3: rack (KIP-881). Never flexible.

pub use assignment::{ConsumerProtocolAssignment, TopicPartition as AssignedTopic};
pub use subscription::{ConsumerProtocolSubscription, TopicPartition as OwnedTopic};

mod subscription {
    use bytes::Bytes;

    use crate::wire::{Str, wire_message};

    wire_message! {
        data ConsumerProtocolSubscription, versions "0-3" {
            topics: Vec<Str>, "0+";
            user_data: Option<Bytes> = None, "0+", nullable "0+";
            /// What the member holds until it is told otherwise (KIP-429).
            owned_partitions: Vec<TopicPartition>, "1+", ignorable;
            /// Of `owned_partitions`; -1: unknown (KIP-792).
            generation_id: i32 = -1, "2+", ignorable;
            /// Of the member (KIP-881).
            rack_id: Option<Str> = None, "3+", nullable "3+", ignorable;
        }

        struct TopicPartition {
            topic: Str, "1+";
            partitions: Vec<i32>, "1+";
        }
    }
}

mod assignment {
    use bytes::Bytes;

    use crate::wire::{Str, wire_message};

    wire_message! {
        data ConsumerProtocolAssignment, versions "0-3" {
            assigned_partitions: Vec<TopicPartition>, "0+";
            user_data: Option<Bytes> = None, "0+", nullable "0+";
        }

        struct TopicPartition {
            topic: Str, "0+";
            partitions: Vec<i32>, "0+";
        }
    }
}
