//! The records of `__cluster_metadata` (KRaft): what a value of its log means, as one enum.
//! Plain values; written by the controller, read at start and by the image.
//! Always: `decode(encode(r)) == r`, and the bytes are Kafka's: frame version 1, type, version, flexible fields.
//! Batches around them are `record`'s; what a record changes is the image's.

use std::fmt;

use bytes::Bytes;

use crate::wire::messages::metadata_records::{
    BrokerRegistrationChangeRecord, ConfigRecord, FeatureLevelRecord, NoOpRecord,
    PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, RegisterBrokerRecord,
    RemoveTopicRecord, TopicRecord, UnregisterBrokerRecord,
};
use crate::wire::{DecodeError, Message, Reader, Writer};

/// Declares the enum, its types' numbers and the versions written, once.
macro_rules! metadata_records {
    ($($variant:ident = $type:ident, $key:literal, version $version:literal;)*) => {
        /// A metadata record.
        #[derive(Clone, PartialEq, Debug)]
        pub enum MetadataRecord {
            $($variant($type),)*
        }

        impl MetadataRecord {
            /// The value of the record in the log.
            pub fn encode(&self) -> Bytes {
                let mut writer = Writer::new();
                writer.uvarint(FRAME_VERSION);
                let written = match self {
                    $(MetadataRecord::$variant(record) => {
                        writer.uvarint($key);
                        writer.uvarint($version);
                        record.encode(&mut writer, $version)
                    })*
                };
                match written {
                    Ok(()) => writer.into_bytes(),
                    Err(error) => panic!("metadata record can't be written: {error}: {self:?}"),
                }
            }

            /// Reads the value of a record of the log.
            pub fn decode(value: Bytes) -> Result<MetadataRecord, RecordError> {
                let mut reader = Reader::new(value);
                let frame = reader.uvarint()?;
                if frame != FRAME_VERSION {
                    return Err(RecordError::FrameVersion(frame));
                }
                let key = reader.uvarint()?;
                let version = reader.uvarint()?;
                match key {
                    $($key => {
                        let version = i16::try_from(version)
                            .map_err(|_| RecordError::Version { key, version })?;
                        Ok(MetadataRecord::$variant($type::decode(&mut reader, version)?))
                    })*
                    _ => Err(RecordError::Type { key, version }),
                }
            }
        }

        $(impl From<$type> for MetadataRecord {
            fn from(record: $type) -> MetadataRecord {
                MetadataRecord::$variant(record)
            }
        })*
    };
}

metadata_records! {
    RegisterBroker = RegisterBrokerRecord, 0, version 4;
    UnregisterBroker = UnregisterBrokerRecord, 1, version 0;
    Topic = TopicRecord, 2, version 0;
    Partition = PartitionRecord, 3, version 2;
    Config = ConfigRecord, 4, version 0;
    PartitionChange = PartitionChangeRecord, 5, version 2;
    RemoveTopic = RemoveTopicRecord, 9, version 0;
    FeatureLevel = FeatureLevelRecord, 12, version 0;
    ProducerIds = ProducerIdsRecord, 15, version 0;
    BrokerRegistrationChange = BrokerRegistrationChangeRecord, 17, version 3;
    NoOp = NoOpRecord, 20, version 0;
}

/// Kafka's `MetadataRecordSerde` frame.
const FRAME_VERSION: u32 = 1;

/// Why a value is no metadata record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordError {
    FrameVersion(u32),
    /// A type this version of ringlog does not know.
    Type {
        key: u32,
        version: u32,
    },
    Version {
        key: u32,
        version: u32,
    },
    Malformed(DecodeError),
}

impl From<DecodeError> for RecordError {
    fn from(error: DecodeError) -> RecordError {
        RecordError::Malformed(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::FrameVersion(version) => write!(
                f,
                "metadata record in frame version {version}, {FRAME_VERSION} is known"
            ),
            RecordError::Type { key, version } => write!(
                f,
                "metadata record of type {key} version {version}, which this ringlog does not know; was the directory written by a newer one?"
            ),
            RecordError::Version { key, version } => {
                write!(f, "metadata record of type {key} in version {version}")
            }
            RecordError::Malformed(error) => write!(f, "metadata record: {error}"),
        }
    }
}

impl std::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Uuid;
    use crate::wire::Str;
    use crate::wire::messages::metadata_records::{BrokerEndpoint, BrokerFeature};

    fn hex(text: &str) -> Bytes {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// Golden: `MetadataRecordSerde` of Apache Kafka 4.4.0.
    #[test]
    fn bytes_are_kafkas() {
        let id = Uuid::parse("MkU3OEVBNTcwNTJENDM2Qg").unwrap();
        let orders = Str::from("orders");
        let config = |value: Option<Str>| ConfigRecord {
            resource_type: 2,
            resource_name: orders.clone(),
            name: Str::from("retention.ms"),
            value,
        };
        let golden: [(MetadataRecord, &str); 12] = [
            (
                RegisterBrokerRecord {
                    broker_id: 1,
                    incarnation_id: id,
                    broker_epoch: 5,
                    end_points: vec![BrokerEndpoint {
                        name: Str::from("PLAINTEXT"),
                        host: Str::from("127.0.0.1"),
                        port: 9093,
                        security_protocol: 0,
                    }],
                    features: Vec::<BrokerFeature>::new(),
                    rack: Some(Str::from("r1")),
                    fenced: false,
                    log_dirs: vec![id],
                    ..RegisterBrokerRecord::default()
                }
                .into(),
                "0100040000000100324537384541353730353244343336420000000000000005020a504c41494e544558540a3132372e302e302e3123850000000103723100000100110232453738454135373035324434333642",
            ),
            (
                UnregisterBrokerRecord {
                    broker_id: 1,
                    broker_epoch: 5,
                }
                .into(),
                "01010000000001000000000000000500",
            ),
            (
                TopicRecord {
                    name: orders.clone(),
                    topic_id: id,
                }
                .into(),
                "010200076f72646572733245373845413537303532443433364200",
            ),
            (
                PartitionRecord {
                    partition_id: 3,
                    topic_id: id,
                    replicas: vec![1],
                    isr: vec![1],
                    leader: 1,
                    leader_epoch: 0,
                    partition_epoch: 0,
                    directories: vec![id],
                    ..PartitionRecord::default()
                }
                .into(),
                "0103020000000332453738454135373035324434333642020000000102000000010101000000010000000000000000023245373845413537303532443433364200",
            ),
            (
                PartitionChangeRecord {
                    partition_id: 3,
                    topic_id: id,
                    isr: Some(vec![2]),
                    replicas: Some(vec![2]),
                    leader: 2,
                    directories: Some(vec![id]),
                    ..PartitionChangeRecord::default()
                }
                .into(),
                "010502000000033245373845413537303532443433364204000502000000020104000000020205020000000208110232453738454135373035324434333642",
            ),
            (
                config(Some(Str::from("1000"))).into(),
                "01040002076f72646572730d726574656e74696f6e2e6d73053130303000",
            ),
            (
                config(None).into(),
                "01040002076f72646572730d726574656e74696f6e2e6d730000",
            ),
            (
                RemoveTopicRecord { topic_id: id }.into(),
                "0109003245373845413537303532443433364200",
            ),
            (
                FeatureLevelRecord {
                    name: Str::from("metadata.version"),
                    feature_level: 33,
                }
                .into(),
                "010c00116d657461646174612e76657273696f6e002100",
            ),
            (
                ProducerIdsRecord {
                    broker_id: 1,
                    broker_epoch: 5,
                    next_producer_id: 2000,
                }
                .into(),
                "010f0000000001000000000000000500000000000007d000",
            ),
            (
                BrokerRegistrationChangeRecord {
                    broker_id: 1,
                    broker_epoch: 5,
                    fenced: 1,
                    ..BrokerRegistrationChangeRecord::default()
                }
                .into(),
                "01110300000001000000000000000501000101",
            ),
            (NoOpRecord::default().into(), "01140000"),
        ];
        for (record, bytes) in golden {
            assert_eq!(record.encode(), hex(bytes), "{record:?}");
            assert_eq!(MetadataRecord::decode(hex(bytes)), Ok(record));
        }
    }

    #[test]
    fn what_is_no_record_is_named() {
        let decode = |bytes: &'static [u8]| MetadataRecord::decode(Bytes::from_static(bytes));
        assert_eq!(decode(&[0, 2, 0]), Err(RecordError::FrameVersion(0)));
        assert_eq!(
            decode(&[1, 99, 7]),
            Err(RecordError::Type {
                key: 99,
                version: 7
            })
        );
        assert!(matches!(
            decode(&[1, 2, 9, 0]),
            Err(RecordError::Malformed(_))
        ));
        assert!(matches!(decode(&[1, 2]), Err(RecordError::Malformed(_))));
        assert!(matches!(
            decode(&[1, 2, 0, 5, b'a']),
            Err(RecordError::Malformed(_))
        ));
    }
}
