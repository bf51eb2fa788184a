"""Driver of kafka-python 2.0.2: the verbs of scenario.py."""

import os
import sys
import time

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driving  # noqa: E402
import kafka_python  # noqa: E402


def create(bootstrap, topic, partitions):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    client.create_topics([NewTopic(topic, int(partitions), 1)])
    client.close()


def admin(bootstrap, prefix):
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    topic, group = f"{prefix}-topic", f"{prefix}-group"

    def config(name):
        (answer,) = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        code, text, _kind, _name, entries = answer.resources[0]
        assert code == 0, text
        return {entry[0]: entry[1] for entry in entries}[name]

    def describe_cluster():
        cluster = client.describe_cluster()
        assert cluster["brokers"] and cluster["cluster_id"] and cluster["controller_id"] >= 0, cluster
        return f"{len(cluster['brokers'])} nodes"

    def create_with_config():
        client.create_topics([NewTopic(topic, 2, 1, topic_configs={"retention.ms": "3600000"})])
        assert config("retention.ms") == "3600000", config("retention.ms")

    def create_again_is_refused():
        try:
            client.create_topics([NewTopic(topic, 2, 1)])
        except TopicAlreadyExistsError:
            return
        raise AssertionError("created twice")

    def describe_topics():
        assert topic in client.list_topics()
        (found,) = client.describe_topics([topic])
        assert found["error_code"] == 0 and len(found["partitions"]) == 2, found

    def alter_configs():
        answer = client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "500000"})])
        assert answer.resources[0][0] == 0, answer
        assert config("max.message.bytes") == "500000", config("max.message.bytes")
        assert config("retention.ms") == "604800000", config("retention.ms")

    def create_partitions():
        client.create_partitions({topic: NewPartitions(4)})
        deadline = time.monotonic() + 10
        while len(client.describe_topics([topic])[0]["partitions"]) != 4:
            assert time.monotonic() < deadline, "partitions do not show up"

    def groups():
        kafka_python.send_hundred(bootstrap, topic)

        def look():
            (described,) = client.describe_consumer_groups([group])
            assert described.state == "Stable" and len(described.members) == 1, described

        kafka_python.consume_one(bootstrap, topic, group, look)
        assert group in [name for name, _kind in client.list_consumer_groups()]

    def group_offsets():
        kept = client.list_consumer_group_offsets(group)
        assert kept[TopicPartition(topic, 0)].offset == 1, kept

    def delete_group():
        ((name, error),) = client.delete_consumer_groups([group])
        assert name == group and error.errno == 0, error
        assert group not in [name for name, _kind in client.list_consumer_groups()]

    def delete_topic():
        client.delete_topics([topic])
        deadline = time.monotonic() + 10
        while topic in client.list_topics():
            assert time.monotonic() < deadline, "topic still there"

    steps = [describe_cluster, create_with_config, create_again_is_refused, describe_topics, alter_configs]
    driving.run_steps([*steps, create_partitions, groups, group_offsets, delete_group, delete_topic])
    client.close()


if __name__ == "__main__":
    driving.main(
        create=create,
        offsets=kafka_python.offsets,
        produce=kafka_python.produce,
        read=kafka_python.read,
        member=kafka_python.member,
        admin=admin,
    )
