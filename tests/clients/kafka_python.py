"""Driver verbs that both generations of kafka-python share; their admin calls differ too much."""

import sys
import time

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

import driving
from driving import COMMIT_EVERY, PARTITIONS, QUIET_SECONDS, say, text


def say_record(record):
    headers = ",".join(f"{name}={text(value)}" for name, value in record.headers)
    say("R", record.partition, record.offset, record.timestamp, text(record.key), text(record.value), headers)


def offsets(bootstrap, topic):
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    places = [TopicPartition(topic, partition) for partition in sorted(consumer.partitions_for_topic(topic))]
    begins, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    for place in places:
        say("O", place.partition, begins[place], ends[place])
    consumer.close()


def produce(bootstrap, topic, **more):
    producer, sent = None, []
    for step, *what in driving.steps_to_produce():
        if step == "open":
            codec, acks, idempotent = what
            options = dict(more)
            if more and not idempotent:
                options["enable_idempotence"] = False  # it is the default with acks=all
            producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks=acks if acks == "all" else int(acks),
                linger_ms=20,
                batch_size=64 << 10,
                **{name: value for name, value in options.items() if value is not None},
            )
            sent = []
        elif step == "close":
            producer.flush(60)
            for future in sent:
                future.get(10)
            producer.close()
            driving.say_sent(*what)
        else:
            key, value, headers = what
            sent.append(producer.send(topic, value, key, headers=headers))


def read(bootstrap, topic, count, *options):
    wanted = dict(option.split("=") for option in options)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none", consumer_timeout_ms=QUIET_SECONDS * 1000)
    partitions = [int(wanted["partition"])] if "partition" in wanted else PARTITIONS
    places = [TopicPartition(topic, partition) for partition in partitions]
    consumer.assign(places)
    if "timestamp" in wanted:
        found = consumer.offsets_for_times({place: int(wanted["timestamp"]) for place in places})
        for place, start in found.items():
            consumer.seek(place, start.offset)
    elif "offset" in wanted:
        consumer.seek(places[0], int(wanted["offset"]))
    else:
        consumer.seek_to_beginning(*places)
    left = int(count)
    for record in consumer:
        say_record(record)
        left -= 1
        if left == 0:
            break
    consumer.close()


def next_offset(offset):
    """OffsetAndMetadata has grown a field between the generations."""
    return OffsetAndMetadata(*[offset, ""] + [-1] * (len(OffsetAndMetadata._fields) - 2))


def member(bootstrap, topic, group, *options, assignors=None, commits_when_revoked=True):
    """From generation 3 on a listener runs where it must not wait for an answer: it cannot commit."""
    wanted = dict(option.split("=") for option in options)
    config = {}
    if "instance" in wanted:
        config["group_instance_id"] = wanted["instance"]
    if "assignor" in wanted:
        config["partition_assignment_strategy"] = [assignors[wanted["assignor"]]]
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=int(wanted["session"]),
        heartbeat_interval_ms=500,
        **config,
    )
    orders = driving.Orders()
    taken, owned = {}, set()

    def commit():
        due = {place: next_offset(offset) for place, offset in taken.items() if place in owned}
        if due:
            consumer.commit(due)
            taken.clear()

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            owned.update(assigned)
            for place in set(taken) - owned:
                del taken[place]
            say("ASSIGNED", ",".join(str(place.partition) for place in assigned))
            sys.stdout.flush()

        def on_partitions_revoked(self, revoked):
            if commits_when_revoked:
                commit()
            owned.difference_update(revoked)
            say("REVOKED", ",".join(str(place.partition) for place in revoked))
            sys.stdout.flush()

    consumer.subscribe([topic], listener=Listener())
    since = 0
    while not orders.leave.is_set():
        for place, part in consumer.poll(timeout_ms=200).items():
            for record in part:
                say_record(record)
            taken[place] = part[-1].offset + 1
            since += len(part)
        sys.stdout.flush()
        if since >= COMMIT_EVERY or orders.commit.is_set():
            commit()
            since = 0
    commit()
    consumer.close()
    say("CLOSED")


def consume_one(bootstrap, topic, group, while_there):
    """Joins the group, takes a record, calls `while_there`, commits what it took and leaves."""
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False, max_poll_records=1)
    deadline = time.monotonic() + QUIET_SECONDS
    while not (polled := consumer.poll(timeout_ms=500)):
        assert time.monotonic() < deadline, "no record"
    while_there()
    consumer.commit({place: next_offset(part[-1].offset + 1) for place, part in polled.items()})
    consumer.close()


def send_hundred(bootstrap, topic):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(100):
        producer.send(topic, str(number).encode(), partition=0)
    producer.flush(30)
    producer.close()
