"""Driver of the confluent-kafka client: the verbs of scenario.py."""

import os
import sys
import time

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicPartition,
    OFFSET_BEGINNING,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import driving  # noqa: E402
from driving import COMMIT_EVERY, PARTITIONS, QUIET_SECONDS, say, text  # noqa: E402


def say_record(message):
    headers = ",".join(f"{name}={text(value)}" for name, value in message.headers() or [])
    say("R", message.partition(), message.offset(), message.timestamp()[1], text(message.key()), text(message.value()), headers)


def create(bootstrap, topic, partitions):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, int(partitions), 1)]).values():
        future.result(30)


def offsets(bootstrap, topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    for partition in sorted(consumer.list_topics(topic, 10).topics[topic].partitions):
        begin, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
        say("O", partition, begin, end)
    consumer.close()


def produce(bootstrap, topic):
    lost = []
    producer = None
    for step, *what in driving.steps_to_produce():
        if step == "open":
            codec, acks, idempotent = what
            producer = Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "compression.type": codec,
                    "acks": acks,
                    "enable.idempotence": idempotent,
                    "linger.ms": 20,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        elif step == "close":
            left = producer.flush(60)
            if left or lost:
                sys.exit(f"{left} records left, {len(lost)} failed: {lost[:3]}")
            driving.say_sent(*what)
        else:
            key, value, headers = what
            producer.produce(
                topic,
                value,
                key,
                headers=headers,
                on_delivery=lambda error, _message: lost.append(error) if error else None,
            )
            producer.poll(0)


def read(bootstrap, topic, count, *options):
    wanted = dict(option.split("=") for option in options)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    partitions = [int(wanted["partition"])] if "partition" in wanted else PARTITIONS
    if "timestamp" in wanted:
        places = consumer.offsets_for_times([TopicPartition(topic, p, int(wanted["timestamp"])) for p in partitions], 10)
    else:
        places = [TopicPartition(topic, p, int(wanted.get("offset", OFFSET_BEGINNING))) for p in partitions]
    consumer.assign(places)
    left, deadline = int(count), time.monotonic() + QUIET_SECONDS
    while left > 0 and time.monotonic() < deadline:
        for message in consumer.consume(min(left, 1000), 1.0):
            if message.error():
                raise KafkaException(message.error())
            say_record(message)
            left -= 1
            deadline = time.monotonic() + QUIET_SECONDS
    consumer.close()


def member(bootstrap, topic, group, *options):
    wanted = dict(option.split("=") for option in options)
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": int(wanted["session"]),
        "heartbeat.interval.ms": 500,
    }
    if "instance" in wanted:
        config["group.instance.id"] = wanted["instance"]
    if "assignor" in wanted:
        config["partition.assignment.strategy"] = wanted["assignor"]
    orders = driving.Orders()
    taken = {}  # partition -> next offset, not yet committed

    def commit(consumer):
        if taken:
            consumer.commit(offsets=[TopicPartition(topic, p, o) for p, o in taken.items()], asynchronous=False)
            taken.clear()

    def assigned(_consumer, partitions):
        say("ASSIGNED", ",".join(str(place.partition) for place in partitions))
        sys.stdout.flush()

    def revoked(consumer, partitions):
        commit(consumer)
        say("REVOKED", ",".join(str(place.partition) for place in partitions))
        sys.stdout.flush()

    consumer = Consumer(config)
    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked)
    since = 0
    while not orders.leave.is_set():
        for message in consumer.consume(500, 0.2):
            if message.error():
                say("TROUBLE", message.error())
                continue
            say_record(message)
            taken[message.partition()] = message.offset() + 1
            since += 1
        sys.stdout.flush()
        if since >= COMMIT_EVERY or orders.commit.is_set():
            commit(consumer)
            since = 0
    commit(consumer)
    consumer.close()
    say("CLOSED")


def admin(bootstrap, prefix):
    client = AdminClient({"bootstrap.servers": bootstrap})
    topic, group = f"{prefix}-topic", f"{prefix}-group"
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def only(futures):
        (future,) = futures.values()
        return future.result(30)

    def config(name):
        return only(client.describe_configs([resource]))[name].value

    def describe_cluster():
        cluster = client.describe_cluster().result(30)
        assert cluster.nodes and cluster.cluster_id and cluster.controller, cluster
        return f"{len(cluster.nodes)} nodes"

    def create_with_config():
        only(client.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "3600000"})]))
        assert config("retention.ms") == "3600000", config("retention.ms")

    def create_again_is_refused():
        try:
            only(client.create_topics([NewTopic(topic, 2, 1)]))
        except KafkaException as error:
            assert error.args[0].name() == "TOPIC_ALREADY_EXISTS", error
            return
        raise AssertionError("created twice")

    def describe_topic():
        from confluent_kafka import TopicCollection

        found = only(client.describe_topics(TopicCollection([topic])))
        assert len(found.partitions) == 2 and found.name == topic, found
        assert all(part.leader is not None for part in found.partitions), found

    def incremental_alter():
        entry = ConfigEntry("retention.bytes", "1000000", incremental_operation=AlterConfigOpType.SET)
        only(client.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))
        assert config("retention.bytes") == "1000000" and config("retention.ms") == "3600000"

    def alter_all():
        only(client.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"max.message.bytes": "500000"})]))
        assert config("max.message.bytes") == "500000"
        assert config("retention.bytes") == "-1", "alter_configs replaces the whole"

    def create_partitions():
        only(client.create_partitions([NewPartitions(topic, 4)]))
        deadline = time.monotonic() + 10
        while len(client.list_topics(topic, 10).topics[topic].partitions) != 4:
            assert time.monotonic() < deadline, "partitions do not show up"

    def list_offsets():
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(100):
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(30) == 0
        latest = only(client.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()}))
        assert latest.offset == 100, latest.offset
        newest = only(client.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}))
        assert 0 <= newest.offset < 100 and newest.timestamp > 0, (newest.offset, newest.timestamp)

    def delete_records():
        result = only(client.delete_records([TopicPartition(topic, 0, 40)]))
        assert result.low_watermark == 40, result.low_watermark
        found = only(client.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()}))
        assert found.offset == 40, found.offset

    def groups():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        deadline = time.monotonic() + 30
        while consumer.poll(0.5) is None:
            assert time.monotonic() < deadline, "no record"
        described = only(client.describe_consumer_groups([group]))
        assert described.state.name == "STABLE" and len(described.members) == 1, described.state
        consumer.commit(asynchronous=False)
        consumer.close()
        listed = client.list_consumer_groups().result(30)
        assert group in [one.group_id for one in listed.valid], listed.valid
        return described.coordinator.id

    def group_offsets():
        asked = ConsumerGroupTopicPartitions(group)
        kept = only(client.list_consumer_group_offsets([asked])).topic_partitions
        assert [place.offset for place in kept if place.partition == 0] == [41], kept
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 77)])
        only(client.alter_consumer_group_offsets([wanted]))
        kept = only(client.list_consumer_group_offsets([asked])).topic_partitions
        assert [place.offset for place in kept if place.partition == 0] == [77], kept

    def delete_group():
        only(client.delete_consumer_groups([group]))
        listed = client.list_consumer_groups().result(30)
        assert group not in [one.group_id for one in listed.valid], listed.valid

    def delete_topic():
        only(client.delete_topics([topic]))
        deadline = time.monotonic() + 10
        while topic in client.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline, "topic still there"

    steps = [describe_cluster, create_with_config, create_again_is_refused, describe_topic, incremental_alter, alter_all]
    steps += [create_partitions, list_offsets, delete_records, groups, group_offsets, delete_group, delete_topic]
    driving.run_steps(steps)


if __name__ == "__main__":
    driving.main(create=create, offsets=offsets, produce=produce, read=read, member=member, admin=admin)
