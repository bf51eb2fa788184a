"""The few raw Kafka requests the tests make themselves, most at one old, non-flexible version.

They look at what no client shows: whether a node answers at all, what a group has committed, how the
stored batches are compressed, what a node says that is not asked by its clients. Standard library only.
"""

import socket
import struct
from collections import namedtuple

Batch = namedtuple("Batch", "base last codec producer_id count size")
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class WireError(Exception):
    """The other side answered with an error code, or not as the protocol says."""


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise WireError(f"answer ends early: {count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind):
        return struct.unpack(">" + kind, self.take(struct.calcsize(">" + kind)))[0]

    def string(self):
        count = self.number("h")
        return None if count < 0 else self.take(count).decode()

    def blob(self):
        count = self.number("i")
        return b"" if count < 0 else self.take(count)

    def array(self, item):
        return [item() for _ in range(self.number("i"))]

    # What flexible versions have instead (KIP-482).
    def unsigned(self):
        shift = result = 0
        while True:
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def compact_blob(self):
        """None for null."""
        count = self.unsigned() - 1
        return None if count < 0 else self.take(count)

    def compact_string(self):
        data = self.compact_blob()
        return None if data is None else data.decode()

    def compact_array(self, item):
        return [item() for _ in range(self.unsigned() - 1)]

    def tags(self):
        """{tag: its bytes}"""
        return {self.unsigned(): self.take(self.unsigned()) for _ in range(self.unsigned())}

    def expect_end(self):
        if self.at != len(self.data):
            raise WireError(f"{len(self.data) - self.at} bytes behind the answer")


def string(text):
    if text is None:
        return struct.pack(">h", -1)
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def unsigned(number):
    """An unsigned varint, as compact lengths and tags use it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def compact_blob(data):
    return unsigned(0) if data is None else unsigned(len(data) + 1) + data


def compact_string(text):
    return compact_blob(None if text is None else text.encode())


def compact_array(items):
    return unsigned(len(items) + 1) + b"".join(items)


NO_TAGS = b"\0"


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


class Connection:
    """One connection to one node; a request is answered before the next is sent."""

    def __init__(self, host, port, timeout=10.0):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.sent = self.received = 0  # correlation ids

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def ask(self, api_key, version, body, flexible=False):
        self.send(api_key, version, body, flexible)
        return self.receive(flexible)

    def send(self, api_key, version, body, flexible=False):
        """A request whose answer is taken later; answers come in the order of the requests."""
        self.sent += 1
        head = struct.pack(">hhi", api_key, version, self.sent) + string("ringlog-tests")
        frame = head + (NO_TAGS if flexible else b"") + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, flexible=False):
        answer = Reader(self.read(struct.unpack(">i", self.read(4))[0]))
        self.received += 1
        if answer.number("i") != self.received:
            raise WireError("answer to another request")
        if flexible:
            answer.tags()
        return answer

    def read(self, count):
        parts = []
        while count > 0:
            part = self.socket.recv(min(count, 1 << 20))
            if not part:
                raise WireError("connection closed in the middle of an answer")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def api_versions(self):
        """{api key: (min, max)}, ApiVersions v0."""
        answer = self.ask(18, 0, b"")
        expect_no_error(answer.number("h"), "ApiVersions")
        return dict(answer.array(lambda: (answer.number("h"), (answer.number("h"), answer.number("h")))))

    def metadata(self, topic):
        """({node: (host, port)}, {partition: leader node}), Metadata v1."""
        answer = self.ask(3, 1, array([string(topic)]))
        nodes = {}
        for _ in range(answer.number("i")):
            node, host, port, _rack = answer.number("i"), answer.string(), answer.number("i"), answer.string()
            nodes[node] = (host, port)
        answer.number("i")
        leaders = {}
        for _ in range(answer.number("i")):
            expect_no_error(answer.number("h"), f"Metadata of {answer.string()}")
            answer.take(1)
            for _ in range(answer.number("i")):
                expect_no_error(answer.number("h"), f"Metadata of a partition of {topic}")
                partition, leader = answer.number("i"), answer.number("i")
                answer.array(lambda: answer.number("i"))
                answer.array(lambda: answer.number("i"))
                leaders[partition] = leader
        return nodes, leaders

    def partition_states(self, topic):
        """{partition: (error code, leader, replicas, in sync, offline)}, Metadata v5."""
        answer = self.ask(3, 5, array([string(topic)]) + b"\0")
        answer.number("i")
        answer.array(lambda: (answer.number("i"), answer.string(), answer.number("i"), answer.string()))
        answer.string(), answer.number("i")
        nodes = lambda: answer.array(lambda: answer.number("i"))  # noqa: E731
        found = {}
        for _ in range(answer.number("i")):
            expect_no_error(answer.number("h"), f"Metadata of {answer.string()}")
            answer.take(1)
            for _ in range(answer.number("i")):
                code, partition, leader = answer.number("h"), answer.number("i"), answer.number("i")
                found[partition] = (code, leader, nodes(), nodes(), nodes())
        answer.expect_end()
        return found

    def topics(self):
        """The names of all topics, Metadata v1."""
        answer = self.ask(3, 1, struct.pack(">i", -1))
        answer.array(lambda: (answer.number("i"), answer.string(), answer.number("i"), answer.string()))
        answer.number("i")
        names = []
        for _ in range(answer.number("i")):
            answer.number("h")
            names.append(answer.string())
            answer.take(1)
            for _ in range(answer.number("i")):
                answer.take(struct.calcsize(">hii"))
                answer.array(lambda: answer.number("i"))
                answer.array(lambda: answer.number("i"))
        return names

    def create_topic(self, topic, partitions, configs=()):
        """CreateTopics v3."""
        config = array([string(name) + string(value) for name, value in configs])
        spec = string(topic) + struct.pack(">ih", partitions, 1) + array([]) + config
        answer = self.ask(19, 3, array([spec]) + struct.pack(">i?", 30000, False))
        answer.number("i")
        for _ in range(answer.number("i")):
            name, code, text = answer.string(), answer.number("h"), answer.string()
            expect_no_error(code, f"CreateTopics {name}: {text}")

    def produce(self, topic, partition, batch, acks=-1, timeout_ms=10_000, version=7):
        """(error code, base offset, log append time, log start offset), Produce v5 to v7."""
        self.send(0, version, produce_body(topic, partition, batch, acks, timeout_ms))
        return produced(self.receive())

    def end_offset(self, topic, partition):
        """The high watermark, ListOffsets v1."""
        answer = self.ask(2, 1, struct.pack(">i", -1) + array([string(topic) + array([struct.pack(">iq", partition, -1)])]))
        answer.take(4 + 2 + len(topic.encode()) + 4 + 4)
        expect_no_error(answer.number("h"), f"ListOffsets of {topic}-{partition}")
        answer.number("q")
        return answer.number("q")

    def coordinator(self, group):
        """(error, (host, port)), FindCoordinator v1."""
        answer = self.ask(10, 1, string(group) + b"\0")
        answer.number("i")
        code = answer.number("h")
        answer.string()
        answer.number("i")
        return code, (answer.string(), answer.number("i"))

    def committed(self, group, topic, partitions):
        """{partition: offset, -1 for none}, OffsetFetch v1."""
        wanted = string(topic) + array([struct.pack(">i", partition) for partition in partitions])
        answer = self.ask(9, 1, string(group) + array([wanted]))
        found = {}
        for _ in range(answer.number("i")):
            answer.string()
            for _ in range(answer.number("i")):
                partition, offset, _metadata = answer.number("i"), answer.number("q"), answer.string()
                expect_no_error(answer.number("h"), f"OffsetFetch of {group}")
                found[partition] = offset
        return found

    def fetch(self, topic, partition, offset):
        """(high watermark, the headers of the batches from that offset)."""
        high, data = self.fetch_bytes(topic, partition, offset)
        return high, list(batches(data))

    def fetch_bytes(self, topic, partition, offset):
        """(high watermark, the bytes from that offset), Fetch v4."""
        body = struct.pack(">iiiib", -1, 500, 1, 64 << 20, 0)
        body += array([string(topic) + array([struct.pack(">iqi", partition, offset, 16 << 20)])])
        answer = self.ask(1, 4, body)
        answer.number("i")
        high, data = -1, b""
        for _ in range(answer.number("i")):
            answer.string()
            for _ in range(answer.number("i")):
                answer.number("i")
                expect_no_error(answer.number("h"), f"Fetch of {topic}-{partition} at {offset}")
                high = answer.number("q")
                answer.number("q")
                answer.array(lambda: answer.take(16))
                data = answer.blob()
        return high, data


def produce_body(topic, partition, batch, acks=-1, timeout_ms=10_000):
    """Produce v3 to v7, not transactional."""
    body = string(None) + struct.pack(">hi", acks, timeout_ms)
    return body + array([string(topic) + array([struct.pack(">ii", partition, len(batch)) + batch])])


def produced(answer):
    """(error code, base offset, log append time, log start offset) of the one partition, Produce v5 to v7."""
    answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
    fields = answer.number("h"), answer.number("q"), answer.number("q"), answer.number("q")
    throttle = answer.number("i")
    answer.expect_end()
    if throttle != 0:
        raise WireError(f"throttled by {throttle} ms")
    return fields


def batches(data):
    """The headers of the whole record batches in these bytes."""
    at = 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        if at + 12 + length > len(data):
            return
        magic = data[at + 16]
        if magic != 2:
            raise WireError(f"batch at offset {base} has magic {magic}")
        attributes, last_delta = struct.unpack_from(">hi", data, at + 21)
        producer_id = struct.unpack_from(">q", data, at + 43)[0]
        count = struct.unpack_from(">i", data, at + 57)[0]
        yield Batch(base, base + last_delta, CODECS[attributes & 7], producer_id, count, length + 12)
        at += 12 + length


def expect_no_error(code, what):
    if code != 0:
        raise WireError(f"{what}: error code {code}")


def stored_batches(bootstrap, topic, partition):
    """The header of every batch of a partition, from its leader."""
    with Connection(*address(bootstrap)) as connection:
        nodes, leaders = connection.metadata(topic)
    found, offset = [], 0
    with Connection(*nodes[leaders[partition]]) as leader:
        while True:
            high, part = leader.fetch(topic, partition, offset)
            if not part:
                if offset < high:
                    raise WireError(f"nothing at offset {offset} below the high watermark {high}")
                return found
            found += [batch for batch in part if batch.last >= offset]
            offset = part[-1].last + 1
            if offset >= high:
                return found


def committed_offsets(bootstrap, group, topic, partitions):
    """What the group's coordinator has as committed, asked of the coordinator itself."""
    with Connection(*address(bootstrap)) as connection:
        code, place = connection.coordinator(group)
    expect_no_error(code, f"FindCoordinator of {group}")
    with Connection(*place) as coordinator:
        return coordinator.committed(group, topic, partitions)
