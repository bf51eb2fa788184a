//! DeleteTopics: deletes topics.
//! v1: the oldest served. v3: TOPIC_DELETION_DISABLED. v4: flexible. v5: error message (KIP-599). v6: topics named by id.

use crate::base::Uuid;
use crate::wire::{Str, wire_message};

wire_message! {
    request DeleteTopicsRequest, key 20, versions "1-6", flexible "4+" {
        topics: Vec<DeleteTopicState>, "6+";
        topic_names: Vec<Str>, "0-5", ignorable;
        timeout_ms: i32, "0+";
    }

    struct DeleteTopicState {
        /// Null: deletes by id.
        name: Option<Str> = None, "6+", nullable "6+";
        topic_id: Uuid, "6+";
    }

    response DeleteTopicsResponse, key 20, versions "1-6", flexible "4+" {
        throttle_time_ms: i32, "1+", ignorable;
        responses: Vec<DeletableTopicResult>, "0+";
    }

    struct DeletableTopicResult {
        name: Option<Str>, "0+", nullable "6+";
        topic_id: Uuid, "6+", ignorable;
        error_code: i16, "0+";
        error_message: Option<Str> = None, "5+", nullable "5+", ignorable;
    }
}
