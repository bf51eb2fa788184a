//! Records as bytes: what is written is what Kafka 4.4.0 wrote, what it wrote is read.
//! The bytes are from a real broker's `__consumer_offsets`, with Kafka's Java consumer as the client.

use super::*;

/// Kafka's metadata of a consumer of topic `t` (`ConsumerProtocolSubscription` version 3).
const SUBSCRIPTION: &str = "000300000001000174ffffffff00000000ffffffffffff";
/// Kafka's assignment of `t`-0.
const ASSIGNMENT: &str = "0003000000010001740000000100000000ffffffff";
/// The id of topic `t`.
const TOPIC_ID: &str = "8156d0ab2ab946318157bff6199663d6";

fn unhex(hex: &str) -> Bytes {
    let digits: Vec<char> = hex.chars().collect();
    let byte = |pair: &[char]| {
        let pair: String = pair.iter().collect();
        u8::from_str_radix(&pair, 16).expect("it is hex")
    };
    digits.chunks(2).map(byte).collect::<Vec<u8>>().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn topic_id() -> Uuid {
    Uuid(unhex(TOPIC_ID)[..].try_into().expect("16 bytes"))
}

impl Bench {
    fn at(&mut self, wall_ms: i64) {
        self.now.wall = Timestamp(wall_ms);
    }

    /// Key and value of a record that was written.
    fn written(&self, index: usize) -> (String, Option<String>) {
        let record = &self.log[index];
        (hex(&record.key), record.value.as_deref().map(hex))
    }
}

fn commit(group: &str, offset: i64, leader_epoch: i32, metadata: &str) -> OffsetCommit {
    OffsetCommit {
        group_id: group.into(),
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: topic_id(),
            partitions: vec![CommitPartition {
                partition: PartitionIndex(0),
                offset,
                leader_epoch,
                metadata: Some(metadata.into()),
            }],
        }],
        ..simple_commit(0)
    }
}

const SIMPLE_KEY: &str = "0001000673696d706c6500017400000000";
const SIMPLE_VALUE: &str =
    "0004000000000000002a00000007056e6f7465000001a22a705ae20100108156d0ab2ab946318157bff6199663d6";

#[test]
fn a_committed_offset_is_written_as_kafka_writes_it() {
    let mut bench = Bench::eager();
    bench.at(0x01a2_2a70_5ae2);
    bench.commit_one(commit("simple", 42, 7, "note"));
    let expected = (SIMPLE_KEY.to_owned(), Some(SIMPLE_VALUE.to_owned()));
    assert_eq!(bench.written(0), expected);
}

#[test]
fn a_deleted_group_is_written_as_kafka_writes_it() {
    let mut bench = Bench::eager();
    bench.commit_one(commit("simple", 42, 7, "note"));
    let token = bench.token();
    bench
        .coordinator
        .delete_groups(bench.now, &["simple"], token);
    bench.run();
    assert_eq!(bench.written(1), (SIMPLE_KEY.to_owned(), None));
    assert_eq!(bench.written(2), ("0002000673696d706c65".to_owned(), None));
}

const GROUP_KEY: &str = "0002000167";
const GROUP_NEW: &str = "0003000000000000ffffffff000001a22a70610d00000000";
const MEMBER_ID: &str = "one-108d701d-36f6-4014-a6be-e131468cbcc3";

/// The stable group of the static member `one`.
fn group_stable() -> String {
    format!(
        "00030008636f6e73756d657200000001000572616e67650028{id}000001a22a706161\
         000000010028{id}00036f6e650006676f6c64656e000a2f3132372e302e302e31000493e000002710\
         00000017{SUBSCRIPTION}00000015{ASSIGNMENT}",
        id = hex(MEMBER_ID.as_bytes()),
    )
}

#[test]
fn a_group_is_written_as_kafka_writes_it() {
    let mut bench = Bench::eager();
    let random = unhex("108d701d36f64014a6bee131468cbcc3");
    let random = Uuid(random[..].try_into().expect("16 bytes"));
    let golden = RequestContext {
        client_id: "golden".into(),
        ..context(9)
    };
    let request = JoinRequest {
        group_instance_id: Some("one".into()),
        protocols: vec![Protocol {
            name: "range".into(),
            metadata: unhex(SUBSCRIPTION),
        }],
        rebalance_timeout_ms: 300_000,
        ..consumer()
    };
    bench.at(0x01a2_2a70_610d);
    let token = bench.token();
    bench
        .coordinator
        .join(bench.now, random, &golden, request, token);
    bench.at(0x01a2_2a70_6161);
    bench.run();
    assert_eq!(bench.joined(token).member_id, MEMBER_ID);
    let token = bench.token();
    let request = SyncRequest {
        group_id: "g".into(),
        generation: 1,
        member_id: MEMBER_ID.into(),
        group_instance_id: Some("one".into()),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: vec![(MEMBER_ID.into(), unhex(ASSIGNMENT))],
    };
    bench
        .coordinator
        .sync(bench.now, &context(5), request, token);
    bench.run();
    let expected = (GROUP_KEY.to_owned(), Some(GROUP_NEW.to_owned()));
    assert_eq!(bench.written(0), expected);
    let expected = (GROUP_KEY.to_owned(), Some(group_stable()));
    assert_eq!(bench.written(1), expected);
}

#[test]
fn a_group_that_became_empty_is_written_as_kafka_writes_it() {
    let mut bench = Bench::eager();
    let (member_id, join) = bench.enter(consumer());
    bench.joined(join);
    bench.at(0x01a2_2a70_736c);
    bench.leave(&member_id);
    let empty = "00030008636f6e73756d657200000002ffffffff000001a22a70736c00000000";
    let last = bench.log.len() - 1;
    let expected = (GROUP_KEY.to_owned(), Some(empty.to_owned()));
    assert_eq!(bench.written(last), expected);
}

#[test]
fn what_kafka_wrote_is_read() {
    let mut bench = Bench::eager();
    let record = |key: &str, value: &str| Record {
        key: unhex(key),
        value: Some(unhex(value)),
    };
    bench.log = vec![
        record(SIMPLE_KEY, SIMPLE_VALUE),
        record(GROUP_KEY, GROUP_NEW),
        record(GROUP_KEY, &group_stable()),
        record(
            "000100016700017400000000",
            "00040000000000000005ffffffff01000001a22a7068e90100108156d0ab2ab946318157bff6199663d6",
        ),
    ];
    bench.at(0x01a2_2a70_7000);
    bench.restart();
    assert_eq!(bench.offset(), 5);
    let described = bench.coordinator.describe(&context(6), "g");
    assert_eq!(described.state, "Stable");
    assert_eq!(described.protocol_data, "range");
    let member = &described.members[0];
    assert_eq!(member.member_id, MEMBER_ID);
    assert_eq!(member.group_instance_id.as_deref(), Some("one"));
    assert_eq!(member.client_host, "/127.0.0.1");
    assert_eq!(hex(&member.assignment), ASSIGNMENT);
    assert_eq!(hex(&member.metadata), SUBSCRIPTION);
    // The subscription says that the group reads `t`.
    assert!(bench.coordinator.groups["g"].is_subscribed("t"));
    assert!(!bench.coordinator.groups["g"].is_subscribed("u"));
    let token = bench.fetch(OffsetFetch {
        group_id: "simple".into(),
        ..fetch_one()
    });
    let partition = bench.fetched(token).topics.remove(0).partitions.remove(0);
    assert_eq!((partition.offset, partition.leader_epoch), (42, 7));
    assert_eq!(partition.metadata, "note");
}

#[test]
fn an_offset_with_its_own_expiry_is_written_in_the_version_that_has_one() {
    let mut bench = Bench::eager();
    bench.at(1_000);
    bench.commit_one(OffsetCommit {
        retention_time_ms: 500,
        ..commit("simple", 42, 7, "note")
    });
    let (_, value) = bench.written(0);
    // Version 1: offset, metadata, commit time, expire time.
    let expected = "0001000000000000002a00046e6f746500000000000003e800000000000005dc";
    assert_eq!(value.as_deref(), Some(expected));
}

#[test]
fn damaged_records_are_refused_and_those_of_other_protocols_left_out() {
    let mut coordinator = Coordinator::new(Config::default());
    for (key, value) in [
        ("", "0003"),
        ("00", "0003"),
        ("0002", "0003"),
        ("000200", GROUP_NEW),
        (GROUP_KEY, ""),
        (GROUP_KEY, "0063"),
        (GROUP_KEY, &GROUP_NEW[..40]),
        (GROUP_KEY, "ffff"),
        (SIMPLE_KEY, "0004000000"),
    ] {
        let replayed = coordinator.replay(&unhex(key), Some(&unhex(value)));
        assert!(replayed.is_err(), "{key} {value}");
    }
    assert_eq!(coordinator.group_count(), 0);
    // A consumer group of the newer protocol (key version 3).
    let replayed = coordinator.replay(&unhex("0003000167"), Some(&unhex("00000000000100")));
    assert_eq!(replayed, Ok(()));
    assert_eq!(coordinator.group_count(), 0);
}

#[test]
fn records_that_contradict_themselves_do_not_break_the_coordinator() {
    // Two members of one id, a leader that is none of them, no protocol, and the last generation there is.
    let member = "00016dffff00016300016800002710000027100000000000000000";
    let value = format!(
        "00030008636f6e73756d65727fffffffffff000178000000000000000000000002{member}{member}"
    );
    let mut bench = Bench::eager();
    bench.log = vec![Record {
        key: unhex(GROUP_KEY),
        value: Some(unhex(&value)),
    }];
    bench.restart();
    let described = bench.coordinator.describe(&context(6), "g");
    assert_eq!((described.state, described.members.len()), ("Stable", 1));
    bench.advance(20_000);
    assert_eq!(bench.state(), "Empty");
}
