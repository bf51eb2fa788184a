"""Who crosses from shard to shard: nobody who follows metadata, and on a node of several shards only what it must. Seen in the metrics."""

import re
import struct
import subprocess
import time
import urllib.request

import records
import topic as topics
import wire
from broker import REPO
from checks import Failed
from gotchas import expect, fetch

CROSSINGS = ("cross_shard_produce", "cross_shard_fetch")
LINES = 6000
POPULAR_READS = 12


def described(place):
    """The name, kind and meaning of each metric."""
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (.+)$", text, re.M))
    return {(name, kinds[name], meaning) for name, meaning in re.findall(r"^# HELP (\S+) (.+)$", text, re.M)}


def named_in_the_readme(broker, report):
    """What README.md says of metrics is what is served."""
    with report.check("README.md names the metrics that are served, and no others") as note:
        table = re.findall(r"^\| `(ringlog_\w+)` \| (\w+) \| (.+) \|$", (REPO / "README.md").read_text(), re.M)
        served = described(broker.metrics)
        expect(sorted(table, key=lambda row: row[0]), sorted(served), "the table")
        note.detail = f"{len(table)} metrics"


def metrics(place):
    """{name: {shard: value}}"""
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    types = dict(re.findall(r"^# TYPE ringlog_(\w+) (counter|gauge)$", text, re.M))
    found = {}
    for name, shard, value in re.findall(r'^ringlog_(\w+)\{shard="(\d+)"\} (\d+)$', text, re.M):
        found.setdefault(name, {})[int(shard)] = int(value)
    untyped = set(found) - set(types)
    if untyped or types["requests"] != "counter" or types["connections_open"] != "gauge":
        raise Failed(f"the types of metrics are {types}")
    buffered = re.search(r"^ringlog_buffered (\d)$", text, re.M)
    found["buffered"] = {0: int(buffered[1])}
    return found


def kcat(*arguments, data=None, seconds=60):
    return subprocess.run(["kcat", "-q", *arguments], input=data, stdout=subprocess.PIPE, timeout=seconds, check=True).stdout


def following_metadata(broker, report):
    """Real clients on a machine with a node for each shard."""
    topic = "straight"
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        connection.create_topic(topic, 6)
    with report.check("clients that follow metadata never cross to another shard") as note:
        lines = b"".join(b"key-%d\tvalue-%d\n" % (i, i) for i in range(LINES))
        for acks in ("1", "all"):
            kcat("-b", broker.bootstrap, "-P", "-t", topic, "-K", "\t", "-X", f"acks={acks}", data=lines)
        kcat("-b", broker.bootstrap, "-P", "-t", topic, "-K", "\t", "-X", "enable.idempotence=true", "-z", "lz4", data=lines)
        read = kcat("-b", broker.bootstrap, "-C", "-t", topic, "-e", "-K", "\t").splitlines()
        expect(sorted(read), sorted(lines.splitlines() * 3), "what was read")
        # A group, too.
        read = kcat("-b", broker.bootstrap, "-X", "auto.offset.reset=earliest", "-G", "straight-group", "-c", str(3 * LINES), "-K", "\t", topic)
        expect(len(read.splitlines()), 3 * LINES, "records read by a group")
        counted = metrics(broker.metrics)
        for name in ("produce_records", "fetch_bytes"):
            if min(counted[name].values()) == 0 or len(counted[name]) < 2:
                raise Failed(f"{name} by shard: {counted[name]}: not every shard had to do with it")
        for name in CROSSINGS:
            expect(sum(counted[name].values()), 0, name)
        note.detail = f"{sum(counted['produce_records'].values())} records over {len(counted['produce_records'])} shards"


def read_by_many(broker, report):
    """What is read often goes to the socket without a copy."""
    topic = "popular"
    with report.check("records read by many go by sendfile, those read by few do not; both are what was sent") as note:
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            connection.create_topic(topic, 1)
        counted = lambda: sum(metrics(broker.metrics)["fetch_sendfile_bytes"].values())  # noqa: E731
        nodes, leaders = topics.until(lambda: topics.seed(broker).metadata(topic))
        with wire.Connection(*nodes[leaders[0]]) as connection:
            values = [bytes([65 + number]) * (512 << 10) for number in range(4)]
            for value in values:
                expect(connection.produce(topic, 0, records.batch([value]))[0], 0, "produce")
            before = counted()
            for turn in range(POPULAR_READS):
                for offset, value in enumerate(values):
                    _, data = connection.fetch_bytes(topic, 0, offset)
                    [(_, found), *_] = records.read_batches(data)
                    expect(found[0].value == value, True, f"record {offset} in turn {turn}")
                if turn == 0:
                    expect(counted() - before, 0, "bytes by sendfile in the first turn")
            note.detail = f"{(counted() - before) >> 20} MiB by sendfile"
            if counted() == before:
                raise Failed("nothing went by sendfile")


def sharing_a_node(broker, report):
    """`--nodes 1`: connections arrive anywhere and are given to the shard they ask for."""
    topic = "shared"
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        connection.create_topic(topic, 6)
    counted = lambda name: metrics(broker.metrics)[name]  # noqa: E731
    owners = {}
    with report.check("--nodes 1: a connection goes to the shard of its partition, and crosses no more") as note:
        handed = sum(counted("connections_handed_over").values())
        for number in range(24):
            partition = number % 6
            before = counted("produce_batches")
            with wire.Connection(*wire.address(broker.bootstrap)) as connection:
                code, base, *_ = connection.produce(topic, partition, records.batch([b"%d" % number]))
                expect(code, 0, f"produce to partition {partition}")
                after = counted("produce_batches")
                [owner] = [shard for shard in after if after[shard] > before[shard]]
                expect(owners.setdefault(partition, owner), owner, f"shard of partition {partition}")
                got = fetch(connection, topic, partition, base, 11)
                [(_, found)] = records.read_batches(got.records)
                expect(found[0].value, b"%d" % number, f"fetch of partition {partition}")
        # What is read first decides as well.
        for partition in range(6):
            with wire.Connection(*wire.address(broker.bootstrap)) as connection:
                expect(fetch(connection, topic, partition, 0, 11).code, 0, f"fetch of partition {partition}")
        handed = sum(counted("connections_handed_over").values()) - handed
        if not 0 < handed <= 30:
            raise Failed(f"{handed} of 30 connections were handed over")
        for name in CROSSINGS:
            expect(sum(counted(name).values()), 0, name)
        if len(set(owners.values())) < 2:
            raise Failed(f"all partitions on one shard: {owners}")
        note.detail = f"{handed} of 30 handed over"
    with report.check("--nodes 1: what belongs to another shard crosses, and is counted"):
        here, there = 0, next(partition for partition in owners if owners[partition] != owners[0])
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            expect(connection.produce(topic, here, records.batch([b"settles"]))[0], 0, "produce here")
            code, base, *_ = connection.produce(topic, there, records.batch([b"crosses"]))
            expect(code, 0, "produce there")
            got = fetch(connection, topic, there, base, 11)
            [(_, found)] = records.read_batches(got.records)
            expect(found[0].value, b"crosses", "fetch from there")
        for name in CROSSINGS:
            expect(counted(name)[owners[here]], 1, name)
    with report.check("--nodes 1: large records of another shard are sent from its memory, time after time"):
        value = bytes(range(256)) * 2048
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            expect(connection.produce(topic, here, records.batch([b"settles"]))[0], 0, "produce here")
            code, base, *_ = connection.produce(topic, there, records.batch([value]))
            expect(code, 0, "produce there")
            before = sum(counted("fetch_sendfile_bytes").values())
            for turn in range(3):
                _, data = connection.fetch_bytes(topic, there, base)
                [(_, found)] = records.read_batches(data)
                expect(found[0].value == value, True, f"the record in turn {turn}")
            by_sendfile = sum(counted("fetch_sendfile_bytes").values()) - before
            if by_sendfile < 3 * len(value) - (64 << 10):
                raise Failed(f"{by_sendfile} bytes by sendfile")
    with report.check("--nodes 1: a fetch that waits is woken by the other shard"):
        with wire.Connection(*wire.address(broker.bootstrap)) as waiting, wire.Connection(*wire.address(broker.bootstrap)) as other:
            expect(waiting.produce(topic, here, records.batch([b"settles"]))[0], 0, "produce here")
            end = waiting.end_offset(topic, there)
            body = struct.pack(">iiiib", -1, 9000, 1, 1 << 20, 0)
            waiting.send(1, 4, body + wire.array([wire.string(topic) + wire.array([struct.pack(">iqi", there, end, 1 << 20)])]))
            time.sleep(0.1)  # it may wait by now; the check holds if it does not
            begun = time.monotonic()
            expect(other.produce(topic, there, records.batch([b"wakes"]))[:2], (0, end), "produce there")
            waiting.receive()
            took = time.monotonic() - begun
            if took > 4:
                raise Failed(f"woken after {took:.1f} s")
    with report.check("--nodes 1: a batch whose topic is made again on another shard while it is received is appended there"):
        received_and_moved(broker)


def received_and_moved(broker):
    def made():
        """The topic is made; its shard, seen by a first record."""
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            connection.create_topic("moved", 1)
            before = metrics(broker.metrics)["produce_batches"]
            expect(connection.produce("moved", 0, records.batch([b"first"]))[:2], (0, 0), "the first record")
            after = metrics(broker.metrics)["produce_batches"]
        [owner] = [shard for shard in after if after[shard] > before[shard]]
        return owner

    first = made()
    value = bytes(range(256)) * 512
    with wire.Connection(*wire.address(broker.bootstrap)) as slow, wire.Connection(*wire.address(broker.bootstrap)) as other:
        expect(slow.produce("moved", 0, records.batch([b"settles"]))[0], 0, "produce")
        body = wire.produce_body("moved", 0, records.batch([value]))
        head = struct.pack(">hhi", 0, 7, 2) + wire.string("slow")
        frame = struct.pack(">i", len(head) + len(body)) + head + body
        slow.socket.sendall(frame[: len(frame) // 2])
        for number in range(10):
            topics.delete(broker, "moved")
            # Shards take turns; one in between moves them on.
            if number % 2:
                other.create_topic(f"moved-{number}", 1)
            if made() != first:
                break
        else:
            raise Failed("the topic always comes to the same shard")
        slow.socket.sendall(frame[len(frame) // 2 :])
        slow.sent += 1
        expect(wire.produced(slow.receive())[:2], (0, 1), "error and offset")
        got = fetch(other, "moved", 0, 1, 11)
        [(_, found)] = records.read_batches(got.records)
        expect(found[0].value, value, "what was read")
