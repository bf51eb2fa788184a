"""What a restart keeps: with other cores and nodes, after kill -9, on a file system without direct I/O (`--buffered`), and where a partition is gone."""

import pathlib
import shutil
import struct
import tempfile

import records
import topic as topics
import wire
from broker import Ringlog
from checks import Failed
from gotchas import coordinator_of, expect
from shards import kcat, metrics
from wire import array, string

TOPIC, GROUP, PARTITIONS = "kept", "kept-group", 6
DUPLICATE, OUT_OF_ORDER = 0, 45
LEADER_NOT_AVAILABLE = 5


def another_shape(report):
    """One data directory, started in turn as different machines."""
    shapes = [((), "a node a core"), (("--cores", "0"), "one core"), (("--nodes", "1"), "one node of all cores"), ((), "a node a core again")]
    broker = Ringlog(settings=["group.initial.rebalance.delay.ms=0"])
    kept = {}
    for number, (arguments, what) in enumerate(shapes):
        broker.arguments = arguments
        with report.check(f"restart as {what} keeps records, committed offsets and sequences" if number else f"start as {what}") as note:
            broker.start()
            with wire.Connection(*wire.address(broker.bootstrap)) as connection:
                if not number:
                    connection.create_topic(TOPIC, PARTITIONS)
                nodes, leaders = connection.metadata(TOPIC)
                expect(sorted(leaders), list(range(PARTITIONS)), "partitions")
                for partition in range(PARTITIONS):
                    with wire.Connection(*nodes[leaders[partition]]) as leader:
                        add_and_look(leader, partition, number, kept)
                commit_and_look(connection, number)
            note.detail = f"{len(nodes)} nodes"
        # Now and then not cleanly.
        broker.kill() if number == 1 else broker.stop()
    shutil.rmtree(broker.home)


def add_and_look(leader, partition, number, kept):
    """
    A batch for each start, by one idempotent producer; all before it are there, and the last of them sent again is known.
    (Of those before the last a snapshot of producers says nothing, in Kafka's format.)
    """
    if partition not in kept:
        # InitProducerId v0
        answer = leader.ask(22, 0, string(None) + struct.pack(">i", 1000))
        answer.number("i")
        expect(answer.number("h"), 0, "InitProducerId")
        kept[partition] = (answer.number("q"), [])
    producer, sent = kept[partition]
    for base, batch in sent[-1:]:
        expect(leader.produce(TOPIC, partition, batch)[:2], (DUPLICATE, base), f"batch of partition {partition} sent again")
    sequence = 3 * number
    far = records.batch([b"far"], producer_id=producer, epoch=0, sequence=sequence + 7)
    if number:
        expect(leader.produce(TOPIC, partition, far)[0], OUT_OF_ORDER, "a sequence that is not next")
    values = [b"%d-%d-%d" % (partition, number, at) for at in range(3)]
    batch = records.batch(values, producer_id=producer, epoch=0, sequence=sequence)
    expect(leader.produce(TOPIC, partition, batch)[:2], (0, 3 * number), f"the next batch of partition {partition}")
    sent.append((3 * number, batch))
    found = [one.value for one in all_records(leader, TOPIC, partition)]
    expect(found, [b"%d-%d-%d" % (partition, start, at) for start in range(number + 1) for at in range(3)], f"records of partition {partition}")


def all_records(leader, topic, partition):
    found, offset = [], 0
    while True:
        body = struct.pack(">iiiib", -1, 0, 0, 8 << 20, 0)
        body += array([string(topic) + array([struct.pack(">iqi", partition, offset, 1 << 20)])])
        answer = leader.ask(1, 4, body)
        answer.number("i"), answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        wire.expect_no_error(answer.number("h"), f"Fetch of {topic}-{partition}")
        high, _ = answer.number("q"), answer.number("q")
        answer.array(lambda: answer.take(16))
        for fields, part in records.read_batches(answer.blob()):
            found += [one for one in part if one.offset >= offset]
            offset = fields["last"] + 1
        if offset >= high:
            return found


def commit_and_look(connection, number):
    partitions = list(range(PARTITIONS))
    with coordinator_of(connection, GROUP) as coordinator:
        before = {partition: 100 * (number - 1) + partition if number else -1 for partition in partitions}
        expect(coordinator.committed(GROUP, TOPIC, partitions), before, "committed offsets")
        places = [struct.pack(">iq", partition, 100 * number + partition) + string("") for partition in partitions]
        commit = string(GROUP) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + array([string(TOPIC) + array(places)])
        answer = coordinator.ask(8, 2, commit)
        answer.array(lambda: (answer.string(), answer.array(lambda: expect((answer.number("i"), answer.number("h"))[1], 0, "commit"))))


def without_direct_io(report):
    """A data directory in memory."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="ringlog-serving-", dir="/dev/shm"))
    broker = Ringlog(data=home / "data", settings=["buffered=true"])
    broker.settings.append(f"metrics=127.0.0.1:{broker.port + 9}")
    lines = b"".join(b"line %d\n" % number for number in range(5000))
    try:
        with report.check("--buffered says so at start and in the metrics"):
            broker.start()
            if "buffered: ordinary writes and fdatasync" not in broker.log.read_text():
                raise Failed(f"it does not say so at start\n{broker.log_tail()}")
            expect(metrics(f"127.0.0.1:{broker.port + 9}")["buffered"], {0: 1}, "buffered in the metrics")
        with report.check("--buffered keeps what a client was told is there over kill -9") as note:
            kcat("-b", broker.bootstrap, "-P", "-t", "memory", "-X", "acks=all", data=lines)
            read = kcat("-b", broker.bootstrap, "-G", "memory-group", "-X", "auto.offset.reset=earliest", "-c", "5000", "memory")
            expect(read, lines, "what a group read")
            broker.kill()
            broker.start()
            expect(kcat("-b", broker.bootstrap, "-C", "-t", "memory", "-e"), lines, "what is there after kill -9")
            expect(wire.committed_offsets(broker.bootstrap, "memory-group", "memory", [0]), {0: 5000}, "committed offsets")
            kcat("-b", broker.bootstrap, "-P", "-t", "memory", "-X", "acks=all", data=b"one more\n")
            expect(kcat("-b", broker.bootstrap, "-C", "-t", "memory", "-e", "-o", "5000"), b"one more\n", "what came after")
            note.detail = f"{len(lines.splitlines())} lines"
        broker.stop()
        shutil.rmtree(broker.home)
    finally:
        if broker.process and broker.process.poll() is None:
            broker.process.kill()
        shutil.rmtree(home)


def without_a_partition(report):
    """A directory is removed while the broker is stopped: that partition is offline for all who watch, the other one serves."""
    broker = Ringlog()
    place = f"127.0.0.1:{broker.port + 9}"
    broker.settings.append(f"metrics={place}")

    def offline():
        return sum(metrics(place)["partitions_offline"].values())

    with report.check("a partition whose directory is gone is counted, and has no leader until its topic is deleted"), broker:
        for partition in range(2):
            with wire.Connection(*wire.address(broker.bootstrap)) as connection:
                if not partition:
                    connection.create_topic("gone", 2)
                nodes, leaders = connection.metadata("gone")
            with wire.Connection(*nodes[leaders[partition]]) as leader:
                expect(leader.produce("gone", partition, records.batch([b"kept"]))[:2], (0, 0), "a record")
        expect(offline(), 0, "partitions offline before")
        broker.stop()
        shutil.rmtree(broker.data / "gone-0")
        broker.start()
        expect(offline(), 1, "partitions offline")
        # Every node knows.
        for host, port in nodes.values():
            with wire.Connection(host, port) as connection:
                node, other = leaders[0], leaders[1]
                wanted = {0: (LEADER_NOT_AVAILABLE, -1, [node], [], [node]), 1: (0, other, [other], [other], [])}
                expect(connection.partition_states("gone"), wanted, f"Metadata at port {port}")
        with wire.Connection(*nodes[leaders[1]]) as leader:
            expect([one.value for one in all_records(leader, "gone", 1)], [b"kept"], "records of the other partition")
            expect(leader.produce("gone", 1, records.batch([b"more"]))[:2], (0, 1), "a record to it")
        topics.delete(broker, "gone")
        expect(offline(), 0, "partitions offline when the topic is deleted")
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            connection.create_topic("gone", 2)
            codes = [state[0] for state in connection.partition_states("gone").values()]
            expect(codes, [0, 0], "errors of the topic that is made again")
