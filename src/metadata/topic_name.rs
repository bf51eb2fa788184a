//! Which topic names there may be, and which topics are the broker's own (Kafka's `Topic`).
//! Pure functions.
//! Always: a valid name is also a safe file name.
//! Whether a topic exists is the image's.

use crate::base::limits;

/// Where group coordinators keep their state.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// Where transaction coordinators keep theirs.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// The log of the controller; not a topic that clients see.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// True for a topic that the broker itself writes.
pub fn is_internal(name: &str) -> bool {
    name == CONSUMER_OFFSETS || name == TRANSACTION_STATE
}

/// Refuses a name in Kafka's words.
pub fn check(name: &str) -> Result<(), String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let reason = if name.is_empty() {
        "the empty string is not allowed".to_string()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.len() > limits::TOPIC_NAME_BYTES_MAX {
        format!(
            "the length of '{name}' is longer than the max allowed length {}",
            limits::TOPIC_NAME_BYTES_MAX
        )
    } else if !name.bytes().all(allowed) {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    } else {
        return Ok(());
    };
    Err(format!("Topic name is invalid: {reason}"))
}

/// The form in which names collide: metrics of Kafka's tools write `.` as `_`. `None` if the name has neither.
pub fn collision_form(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts as Apache Kafka 4.4.0 answers them to CreateTopics.
    #[test]
    fn refused_names_have_kafkas_words() {
        for (name, text) in [
            ("", "the empty string is not allowed"),
            (".", "'.' is not allowed"),
            ("..", "'..' is not allowed"),
            (
                "a b",
                "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (
                "é",
                "'é' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            ),
        ] {
            assert_eq!(check(name), Err(format!("Topic name is invalid: {text}")));
        }
        let long = "x".repeat(250);
        assert_eq!(
            check(&long),
            Err(format!(
                "Topic name is invalid: the length of '{long}' is longer than the max allowed length 249"
            ))
        );
        assert_eq!(check(&long[..249]), Ok(()));
        assert_eq!(check("a.b_c-D9"), Ok(()));
    }
}
