"""The traps of the protocol that show only on the wire of a running broker; each check carries the number of its trap (G..)."""

import contextlib
import struct
import time

import records
import wire
from checks import Failed
from wire import array, compact_array, compact_blob, compact_string, string

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, SASL = 0, 1, 2, 3, 8, 9, 11, 12, 17
NOT_LEADER, NOT_COORDINATOR, UNSUPPORTED_COMPRESSION, INVALID_RECORD = 6, 16, 76, 87
TELEMETRY = (71, 72)
ZSTD = 4
LOG_APPEND_TIME = 8


def expect(found, wanted, what):
    if found != wanted:
        raise Failed(f"{what}: {found}, wanted {wanted}")


def topic_id(connection, topic):
    """Metadata v12 by name."""
    body = compact_array([bytes(16) + compact_string(topic) + wire.NO_TAGS]) + b"\0\0" + wire.NO_TAGS
    answer = connection.ask(METADATA, 12, body, flexible=True)
    answer.number("i")
    answer.compact_array(lambda: (answer.number("i"), answer.compact_string(), answer.number("i"), answer.compact_string(), answer.tags()))
    answer.compact_string(), answer.number("i")
    if answer.unsigned() != 2 or answer.number("h") != 0 or answer.compact_string() != topic:
        raise Failed(f"Metadata v12 of {topic}")
    return answer.take(16)


def fetch_body(topic, partition, offset, version, identity=None, max_wait_ms=0):
    """Of one partition, v4 to v17."""
    flexible = version >= 12
    body = struct.pack(">i", -1) if version <= 14 else b""
    body += struct.pack(">iiib", max_wait_ms, 1, 1 << 20, 0)
    body += struct.pack(">ii", 0, -1) if version >= 7 else b""
    one = struct.pack(">i", partition) + (struct.pack(">i", -1) if version >= 9 else b"") + struct.pack(">q", offset)
    one += struct.pack(">i", -1) if version >= 12 else b""
    one += (struct.pack(">q", -1) if version >= 5 else b"") + struct.pack(">i", 1 << 20)
    if not flexible:
        body += array([string(topic) + array([one])]) + (array([]) if version >= 7 else b"")
        return body + (string("") if version >= 11 else b"")
    name = identity if version >= 13 else compact_string(topic)
    body += compact_array([name + compact_array([one + wire.NO_TAGS]) + wire.NO_TAGS])
    return body + compact_array([]) + compact_string("") + wire.NO_TAGS


class Fetched:
    """The answer to a fetch of one partition."""

    def __init__(self, answer, version):
        flexible = version >= 12
        throttle = answer.number("i")
        self.error = (answer.number("h"), answer.number("i")) if version >= 7 else (0, 0)
        expect((throttle, self.error), (0, (0, 0)), "throttle time, error and session of a fetch")
        many = answer.compact_array if flexible else answer.array
        [self.topic] = many(lambda: self.read_topic(answer, version, many))
        self.endpoints = {}
        if flexible:
            for tag, data in answer.tags().items():
                expect(tag, 0, "tag of a fetch")
                self.endpoints = endpoints(wire.Reader(data))
        answer.expect_end()

    def read_topic(self, answer, version, many):
        if version >= 13:
            answer.take(16)
        elif version >= 12:
            answer.compact_string()
        else:
            answer.string()
        [_] = many(lambda: self.read_partition(answer, version))
        if version >= 12:
            answer.tags()

    def read_partition(self, answer, version):
        answer.number("i")
        self.code = answer.number("h")
        self.high, self.stable = answer.number("q"), answer.number("q")
        self.start = answer.number("q") if version >= 5 else None
        count = answer.unsigned() - 1 if version >= 12 else answer.number("i")
        for _ in range(count):
            answer.take(16)
        if version >= 11:
            expect(answer.number("i"), -1, "preferred replica")
        if version >= 12:
            self.records = answer.compact_blob()
            tags = answer.tags()
        else:
            count = answer.number("i")
            self.records = None if count < 0 else answer.take(count)
            tags = {}
        self.leader = struct.unpack(">ii", tags[1][:8]) if 1 in tags else None


def endpoints(reader):
    """{node: port} of the tag with the endpoints of leaders."""
    found = {}
    for _ in range(reader.unsigned() - 1):
        node, _host, port, _rack = reader.number("i"), reader.compact_string(), reader.number("i"), reader.compact_string()
        reader.tags()
        found[node] = port
    return found


def fetch(connection, topic, partition, offset, version, identity=None):
    body = fetch_body(topic, partition, offset, version, identity)
    return Fetched(connection.ask(FETCH, version, body, flexible=version >= 12), version)


def zstd_batch(text):
    """A batch of one record in a zstd frame that holds it as it is (RFC 8878: one segment, one raw block)."""
    plain = records.record(0, text)
    assert len(plain) < 256
    block = struct.pack("<I", len(plain) << 3 | 1)[:3] + plain
    return records.batch([text], attributes=ZSTD, body=b"\x28\xb5\x2f\xfd\x20" + bytes([len(plain)]) + block)


def on_one_node(broker, report):
    """What any connection must keep to; on a node of several shards, where an answer may come from another shard."""
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        for topic, configs in (("order", ()), ("stamped", [("message.timestamp.type", "LogAppendTime")]), ("packed", [("compression.type", "zstd")])):
            connection.create_topic(topic, 6 if topic == "order" else 1, configs)
        with report.check("G7: answers come in the order of the requests, and so do appends, across shards"):
            answers_in_order(broker, "order", range(6), sequence_of=lambda round: round % 6)
        with report.check("G10: SASL is not offered, and asking for it closes the connection"):
            no_sasl(broker)
        with report.check("G44: telemetry is not offered, and asking for it closes the connection"):
            not_offered(broker, TELEMETRY)
        with report.check("G11: nothing is throttled"):
            no_throttling(broker)
        with report.check("G12: one batch a partition; zstd only where the version has it"):
            one_batch_and_zstd(connection)
        with report.check("G14: LogAppendTime is stamped, told and checked"):
            append_time(connection)
        with report.check("G26: the offsets of a partition are told with every answer, after DeleteRecords too"):
            offsets_are_told(connection, broker)
        with report.check("G33: nothing is unstable without transactions"):
            stable_offsets(connection)


def answers_in_order(broker, topic, partitions, sequence_of):
    """Produce, Metadata and Fetch over and over without reading an answer; then all answers."""
    ends = dict.fromkeys(partitions, 0)
    rounds = 60
    with leader_of(broker, topic, partitions[0]) as connection:
        for number in range(rounds):
            partition = sequence_of(number)
            connection.send(PRODUCE, 7, wire.produce_body(topic, partition, records.batch([b"%d" % number] * (1 + number % 3))))
            connection.send(METADATA, 1, array([string(topic)]))
            connection.send(FETCH, 5, fetch_body(topic, partition, ends[partition], 5))
            ends[partition] += 1 + number % 3
        ends = dict.fromkeys(partitions, 0)
        for number in range(rounds):
            partition = sequence_of(number)
            expect(wire.produced(connection.receive())[:2], (0, ends[partition]), f"produce {number} of partition {partition}")
            answer = connection.receive()
            answer.array(lambda: (answer.number("i"), answer.string(), answer.number("i"), answer.string()))
            answer.number("i"), answer.number("i"), answer.number("h")
            expect(answer.string(), topic, f"metadata {number}")
            got = Fetched(connection.receive(), 5)
            expect(got.code, 0, f"fetch {number}")
            # The produce before it is answered when it is on the disk, so that the fetch may have seen less, never other records.
            for fields, found in records.read_batches(got.records):
                expect((fields["base"], found[0].value), (ends[partition], b"%d" % number), f"fetch {number}")
            ends[partition] += 1 + number % 3
        for partition in partitions:
            expect(connection.end_offset(topic, partition), ends[partition], f"end of partition {partition}")


@contextlib.contextmanager
def leader_of(broker, topic, partition):
    with wire.Connection(*wire.address(broker.bootstrap)) as seed:
        nodes, leaders = seed.metadata(topic)
    with wire.Connection(*nodes[leaders[partition]]) as connection:
        yield connection


def no_sasl(broker):
    not_offered(broker, [SASL])


def not_offered(broker, keys):
    for key in keys:
        with wire.Connection(*wire.address(broker.bootstrap)) as connection:
            offered = connection.api_versions()
            if key in offered:
                raise Failed(f"api key {key} is offered: {offered[key]}")
            connection.send(key, 0, string("PLAIN"))
            rest = connection.socket.recv(100)
            expect(rest, b"", f"answer to api key {key}")


def no_throttling(broker):
    """`produced` and `Fetched` look at the throttle time of their answers."""
    with leader_of(broker, "order", 0) as connection:
        begun = time.monotonic()
        for number in range(100):
            code, base, *_ = connection.produce("order", 0, records.batch([b"x"]))
            expect(code, 0, "produce")
            expect(fetch(connection, "order", 0, base, 11).code, 0, "fetch")
            answer = connection.ask(METADATA, 3, array([string("order")]))
            expect(answer.number("i"), 0, "throttle time of metadata")
        took = time.monotonic() - begun
        if took > 5:
            raise Failed(f"300 requests one after the other took {took:.1f} s")


def one_batch_and_zstd(connection):
    one = records.batch([b"a"])
    expect(connection.produce("order", 0, one + records.batch([b"b"]))[:2], (INVALID_RECORD, -1), "two batches")
    packed = zstd_batch(b"packed")
    expect(connection.produce("packed", 0, packed, version=6)[:2], (UNSUPPORTED_COMPRESSION, -1), "zstd in Produce 6")
    expect(connection.produce("packed", 0, packed)[:2], (0, 0), "zstd in Produce 7")
    # As Apache Kafka 4.4 does (oracle case zstd-topic-old-fetch): the batch as it is, in old versions too.
    for version in (4, 9, 10):
        got = fetch(connection, "packed", 0, 0, version)
        [batch] = wire.batches(got.records)
        expect((got.code, batch.codec), (0, "zstd"), f"Fetch {version}")


def append_time(connection):
    before = int(time.time() * 1000)
    code, base, stamp, _ = connection.produce("stamped", 0, records.batch([b"a", b"b"], timestamp=5))
    after = int(time.time() * 1000)
    if code or not before <= stamp <= after:
        raise Failed(f"error {code}, appended at {stamp} between {before} and {after}")
    got = fetch(connection, "stamped", 0, base, 11)
    [(_, found)] = records.read_batches(got.records)  # looks at the checksum
    attributes, = struct.unpack_from(">h", got.records, 21)
    top, = struct.unpack_from(">q", got.records, 35)
    expect((attributes, top, [one.value for one in found]), (LOG_APPEND_TIME, stamp, [b"a", b"b"]), "attributes, largest timestamp, values")
    expect(connection.produce("order", 0, records.batch([b"a"]))[2], -1, "append time where the client stamps")


def offsets_are_told(connection, broker):
    topic = "trimmed"
    connection.create_topic(topic, 1)
    with leader_of(broker, topic, 0) as leader:
        for version in (4, 5, 11):
            got = fetch(leader, topic, 0, 0, version)
            expect((got.code, got.high, got.stable, got.records), (0, 0, 0, b""), f"Fetch {version} of an empty partition")
        expect(leader.produce(topic, 0, records.batch([b"a", b"b", b"c"]))[3], 0, "log start told by a produce")
        leader.produce(topic, 0, records.batch([b"d", b"e"]))
        # DeleteRecords v0
        answer = leader.ask(21, 0, array([string(topic) + array([struct.pack(">iq", 0, 2)])]) + struct.pack(">i", 5000))
        answer.number("i")
        low, code = answer.array(lambda: (answer.string(), answer.array(lambda: (answer.number("i"), answer.number("q"), answer.number("h")))))[0][1][0][1:]
        expect((code, low), (0, 2), "DeleteRecords")
        for version in (4, 5, 11):
            for offset in (2, 5):
                got = fetch(leader, topic, 0, offset, version)
                start = None if version < 5 else 2
                expect((got.code, got.high, got.stable, got.start), (0, 5, 5, start), f"Fetch {version} at {offset}")
                expect(got.records is not None and bool(got.records), offset == 2, f"records of Fetch {version} at {offset}")
            expect(fetch(leader, topic, 0, 1, version).code, 1, f"Fetch {version} below the log start")
        expect(leader.produce(topic, 0, records.batch([b"f"])), (0, 5, -1, 2), "a produce after DeleteRecords")


def stable_offsets(connection):
    group = "steady"
    place = struct.pack(">iq", 3, 77) + string("note")
    commit = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + array([string("order") + array([place])])
    with coordinator_of(connection, group) as coordinator:
        answer = coordinator.ask(OFFSET_COMMIT, 2, commit)
        expect(answer.array(lambda: (answer.string(), answer.array(lambda: (answer.number("i"), answer.number("h"))))), [("order", [(3, 0)])], "commit")
        topics = compact_array([compact_string("order") + compact_array([struct.pack(">i", 3)]) + wire.NO_TAGS])
        for stable in (b"\0", b"\1"):
            answer = coordinator.ask(OFFSET_FETCH, 7, compact_string(group) + topics + stable + wire.NO_TAGS, flexible=True)
            answer.number("i")
            expect(committed(answer), [("order", [(3, 77, "note", 0)])], "OffsetFetch 7")
            expect(answer.number("h"), 0, "OffsetFetch 7")
            groups = compact_array([compact_string(group) + topics + wire.NO_TAGS])
            answer = coordinator.ask(OFFSET_FETCH, 8, groups + stable + wire.NO_TAGS, flexible=True)
            answer.number("i")
            found = answer.compact_array(lambda: (answer.compact_string(), committed(answer), answer.number("h"), answer.tags()))
            expect(found, [(group, [("order", [(3, 77, "note", 0)])], 0, {})], "OffsetFetch 8")


def committed(answer):
    def partition():
        index, offset, _epoch = answer.number("i"), answer.number("q"), answer.number("i")
        found = index, offset, answer.compact_string(), answer.number("h")
        answer.tags()
        return found

    def topic():
        found = answer.compact_string(), answer.compact_array(partition)
        answer.tags()
        return found

    return answer.compact_array(topic)


@contextlib.contextmanager
def coordinator_of(connection, group):
    deadline = time.monotonic() + 20
    while True:
        code, place = connection.coordinator(group)
        if code == 0:
            break
        if time.monotonic() > deadline:
            raise Failed(f"no coordinator of {group}: error {code}")
        time.sleep(0.05)
    with wire.Connection(*place) as coordinator:
        yield coordinator


def on_two_nodes(broker, report):
    """What the wrong node says, and that a pipeline keeps its order where each shard is a node."""
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        connection.create_topic("led", 6)
        nodes, leaders = connection.metadata("led")
        identity = topic_id(connection, "led")
    with report.check("G7: answers come in the order of the requests on the node of the partition"):
        own = [partition for partition, leader in leaders.items() if leader == leaders[0]]
        answers_in_order(broker, "led", own, sequence_of=lambda number: own[number % len(own)])
    with report.check("G17: the wrong node says who leads, and where the version has room") as note:
        partition = 0
        leader = leaders[partition]
        other = next((node for node in nodes if node != leader), None)
        if other is None:
            raise Failed(f"one node only: {nodes}")
        wrong_node(nodes, other, leader, "led", identity, partition)
        note.detail = f"node {other} for {leader}"
    with report.check("G17: the wrong node is not the coordinator"):
        wrong_coordinator(broker, nodes)


def wrong_node(nodes, other, leader, topic, identity, partition):
    where = {leader: nodes[leader][1]}
    batch = records.batch([b"x"])
    with wire.Connection(*nodes[other]) as connection:
        for version in (9, 10):
            one = struct.pack(">i", partition) + compact_blob(batch) + wire.NO_TAGS
            body = compact_string(None) + struct.pack(">hi", -1, 1000)
            body += compact_array([compact_string(topic) + compact_array([one]) + wire.NO_TAGS]) + wire.NO_TAGS
            answer = connection.ask(PRODUCE, version, body, flexible=True)
            expect((answer.unsigned(), answer.compact_string(), answer.unsigned(), answer.number("i")), (2, topic, 2, partition), f"Produce {version}")
            code, base, _, _ = answer.number("h"), answer.number("q"), answer.number("q"), answer.number("q")
            answer.unsigned(), answer.compact_blob()
            tags = answer.tags()
            answer.tags(), answer.number("i")
            rest = answer.tags()
            answer.expect_end()
            expect((code, base), (NOT_LEADER, -1), f"Produce {version}")
            told = struct.unpack(">ii", tags[0][:8])[0] if 0 in tags else None
            there = endpoints(wire.Reader(rest[0])) if 0 in rest else {}
            expect((told, there), (None, {}) if version == 9 else (leader, where), f"leader and endpoints of Produce {version}")
        for version in (11, 12, 16):
            got = fetch(connection, topic, partition, 0, version, identity)
            expect((got.code, got.high), (NOT_LEADER, -1), f"Fetch {version}")
            if got.records != b"":
                raise Failed(f"records of Fetch {version}: {got.records}")
            expect(got.leader and got.leader[0], None if version == 11 else leader, f"leader of Fetch {version}")
            expect(got.endpoints, where if version == 16 else {}, f"endpoints of Fetch {version}")
        answer = connection.ask(LIST_OFFSETS, 1, struct.pack(">i", -1) + array([string(topic) + array([struct.pack(">iq", partition, -1)])]))
        found = answer.array(lambda: (answer.string(), answer.array(lambda: (answer.number("i"), answer.number("h"), answer.number("q"), answer.number("q")))))
        expect(found, [(topic, [(partition, NOT_LEADER, -1, -1)])], "ListOffsets")


def wrong_coordinator(broker, nodes):
    group = "elsewhere"
    with wire.Connection(*wire.address(broker.bootstrap)) as seed, coordinator_of(seed, group) as right:
        port = right.socket.getpeername()[1]
    wrong = next(place for place in nodes.values() if place[1] != port)
    with wire.Connection(*wrong) as connection:
        answer = connection.ask(HEARTBEAT, 0, string(group) + struct.pack(">i", 1) + string("m"))
        expect(answer.number("h"), NOT_COORDINATOR, "Heartbeat")
        join = string(group) + struct.pack(">ii", 10_000, 10_000) + string("") + string("consumer") + array([string("range") + struct.pack(">i", 0)])
        expect(connection.ask(JOIN, 1, join).number("h"), NOT_COORDINATOR, "JoinGroup")
        place = string("led") + array([struct.pack(">iq", 0, 1) + string("")])
        commit = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1) + array([place])
        answer = connection.ask(OFFSET_COMMIT, 2, commit)
        expect(answer.array(lambda: (answer.string(), answer.array(lambda: (answer.number("i"), answer.number("h"))))), [("led", [(0, NOT_COORDINATOR)])], "OffsetCommit")
        answer = connection.ask(OFFSET_FETCH, 2, string(group) + array([string("led") + array([struct.pack(">i", 0)])]))
        answer.array(lambda: (answer.string(), answer.array(lambda: (answer.number("i"), answer.number("q"), answer.string(), answer.number("h")))))
        expect(answer.number("h"), NOT_COORDINATOR, "OffsetFetch")
