"""Driver of kafka-python 3: the verbs of scenario.py."""

import functools
import os
import sys
import time

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import TopicAlreadyExistsError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driving  # noqa: E402
import kafka_python  # noqa: E402


def create(bootstrap, topic, partitions):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    client.create_topics({topic: {"num_partitions": int(partitions), "replication_factor": 1}})
    client.close()


def admin(bootstrap, prefix):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    topic, group = f"{prefix}-topic", f"{prefix}-group"
    place = TopicPartition(topic, 0)

    def resource(configs=None):
        return ConfigResource(ConfigResourceType.TOPIC, topic, configs)

    def config(name):
        return client.describe_configs([resource()], config_filter="all")["topic"][topic][name]["value"]

    def describe_cluster():
        cluster = client.describe_cluster()
        assert cluster["brokers"] and cluster["cluster_id"] and cluster["controller_id"] >= 0, cluster
        return f"{len(cluster['brokers'])} nodes"

    def describe_log_dirs():
        found = client.describe_log_dirs()
        assert found, found

    def create_with_config():
        client.create_topics({topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "3600000"}}})
        assert config("retention.ms") == "3600000", config("retention.ms")

    def create_again_is_refused():
        try:
            client.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
        except TopicAlreadyExistsError:
            return
        raise AssertionError("created twice")

    def describe_topics():
        assert topic in client.list_topics()
        (found,) = client.describe_topics([topic])
        assert len(found["partitions"]) == 2, found

    def incremental_alter():
        client.alter_configs([resource({"retention.bytes": "1000000"})], incremental=True)
        assert config("retention.bytes") == "1000000" and config("retention.ms") == "3600000"

    def alter_all():
        client.alter_configs([resource({"max.message.bytes": "500000"})], incremental=False)
        assert config("max.message.bytes") == "500000", config("max.message.bytes")

    def create_partitions():
        client.create_partitions({topic: 4})
        deadline = time.monotonic() + 10
        while len(client.describe_topics([topic])[0]["partitions"]) != 4:
            assert time.monotonic() < deadline, "partitions do not show up"

    def list_offsets():
        kafka_python.send_hundred(bootstrap, topic)
        assert client.list_partition_offsets({place: OffsetSpec.LATEST})[place].offset == 100
        newest = client.list_partition_offsets({place: OffsetSpec.MAX_TIMESTAMP})[place]
        assert 0 <= newest.offset < 100 and newest.timestamp > 0, newest

    def delete_records():
        client.delete_records({place: 40})
        assert client.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 40

    def groups():
        def look():
            described = client.describe_groups([group])[group]
            assert described["group_state"] == "Stable" and len(described["members"]) == 1, described

        kafka_python.consume_one(bootstrap, topic, group, look)
        assert group in [one["group_id"] for one in client.list_groups()]

    def group_offsets():
        assert client.list_group_offsets({group: None})[group][place].offset == 41
        client.alter_group_offsets(group, {place: OffsetAndMetadata(77, "moved", -1)})
        kept = client.list_group_offsets({group: [place]})[group][place]
        assert (kept.offset, kept.metadata) == (77, "moved"), kept
        client.delete_group_offsets(group, [place])
        assert client.list_group_offsets({group: [place]})[group][place].offset == -1

    def delete_group():
        client.delete_groups([group])
        assert group not in [one["group_id"] for one in client.list_groups()]

    def delete_topic():
        client.delete_topics([topic])
        deadline = time.monotonic() + 10
        while topic in client.list_topics():
            assert time.monotonic() < deadline, "topic still there"

    steps = [describe_cluster, describe_log_dirs, create_with_config, create_again_is_refused, describe_topics]
    steps += [incremental_alter, alter_all, create_partitions, list_offsets, delete_records, groups, group_offsets]
    driving.run_steps([*steps, delete_group, delete_topic])
    client.close()


if __name__ == "__main__":
    driving.main(
        create=create,
        offsets=kafka_python.offsets,
        produce=functools.partial(kafka_python.produce, enable_idempotence=None),
        read=kafka_python.read,
        member=functools.partial(
            kafka_python.member,
            assignors={"cooperative-sticky": CooperativeStickyAssignor},
            commits_when_revoked=False,
        ),
        admin=admin,
    )
