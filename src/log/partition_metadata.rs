//! `partition.metadata`: the file in a partition's directory that says which topic it belongs to.
//! A value; text is Kafka's (`PartitionMetadataFile`), so Kafka's tools accept the directory.
//! Always: `parse(to_text(x)) == Some(x)`.
//! Reading and writing the file is the shard's.

use crate::base::TopicId;

/// Contents of `partition.metadata`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionMetadata {
    pub topic_id: TopicId,
}

impl PartitionMetadata {
    pub fn to_text(&self) -> String {
        format!("version: 0\ntopic_id: {}", self.topic_id)
    }

    /// `None` unless it is version 0 with an id that is not zero.
    pub fn parse(text: &str) -> Option<PartitionMetadata> {
        let mut lines = text.lines();
        if lines.next()?.strip_prefix("version:")?.trim() != "0" {
            return None;
        }
        let topic_id = TopicId::parse(lines.next()?.strip_prefix("topic_id:")?.trim())?;
        (lines.next().is_none() && !topic_id.is_zero()).then_some(PartitionMetadata { topic_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kafkas() {
        // Golden: as a Kafka broker writes it.
        let text = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ";
        let metadata = PartitionMetadata {
            topic_id: TopicId::METADATA_TOPIC,
        };
        assert_eq!(metadata.to_text(), text);
        assert_eq!(
            PartitionMetadata::parse(&format!("{text}\n")),
            Some(metadata)
        );
        for bad in [
            "",
            "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
            "version: 0",
        ] {
            assert_eq!(PartitionMetadata::parse(bad), None);
        }
    }
}
