"""One topic of a running broker, as the suites about its disk see it: what is written and read, what is deleted, what files there are.

Answers are given with their error codes: a full or a broken disk answers with one.
"""

import struct
import time

import records
import wire

STORAGE_ERROR = 56
TIMEOUT_SECONDS = 15
FETCH_BYTES = 8 << 20


def until(attempt, seconds=TIMEOUT_SECONDS, every=0.05):
    """The first answer that is true and no error; the last error, or a TimeoutError, after that time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if answer := attempt():
                return answer
            error = TimeoutError(f"not within {seconds} s")
        except (OSError, KeyError, wire.WireError) as failed:
            error = failed
        if time.monotonic() > deadline:
            raise error
        time.sleep(every)


def seed(instance):
    return wire.Connection("127.0.0.1", instance.port, timeout=TIMEOUT_SECONDS)


def create(instance, name, partitions=1, **configs):
    with seed(instance) as connection:
        connection.create_topic(name, partitions, [(key.replace("_", "."), str(value)) for key, value in configs.items()])
    return Topic(instance, name)


def delete(instance, name):
    """DeleteTopics v1."""
    with seed(instance) as connection:
        answer = connection.ask(20, 1, wire.array([wire.string(name)]) + struct.pack(">i", 30000))
    answer.number("i"), answer.number("i"), answer.string()
    wire.expect_no_error(answer.number("h"), f"DeleteTopics of {name}")


def names(instance):
    """Of all topics, Metadata v1."""
    with seed(instance) as connection:
        answer = connection.ask(3, 1, struct.pack(">i", -1))
    answer.array(lambda: (answer.number("i"), answer.string(), answer.number("i"), answer.string()))
    answer.number("i")
    found = []
    for _ in range(answer.number("i")):
        _code, name, _internal = answer.number("h"), answer.string(), answer.take(1)
        found.append(name)
        for _ in range(answer.number("i")):
            answer.number("h"), answer.number("i"), answer.number("i")
            answer.array(lambda: answer.number("i"))
            answer.array(lambda: answer.number("i"))
    return found


class Topic:
    def __init__(self, instance, name):
        self.instance, self.name = instance, name
        self.connections = {}

    def partitions(self):
        with seed(self.instance) as connection:
            return connection.metadata(self.name)[1]

    def leader(self, partition):
        """A connection to the partition's leader, kept until something goes wrong with it."""
        if partition not in self.connections:
            with seed(self.instance) as connection:
                nodes, leaders = connection.metadata(self.name)
            self.connections[partition] = wire.Connection(*nodes[leaders[partition]], timeout=TIMEOUT_SECONDS)
        return self.connections[partition]

    def ask(self, partition, api_key, version, body):
        try:
            return self.leader(partition).ask(api_key, version, body)
        except (OSError, wire.WireError):
            self.forget()
            raise

    def forget(self):
        for connection in self.connections.values():
            connection.socket.close()
        self.connections = {}

    def produce(self, batch, partition=0):
        """(error code, offset of the first record), Produce v7 with acks=all."""
        body = wire.string(None) + struct.pack(">hi", -1, 10000)
        body += wire.array([wire.string(self.name) + wire.array([struct.pack(">ii", partition, len(batch)) + batch])])
        answer = self.ask(partition, 0, 7, body)
        answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        return answer.number("h"), answer.number("q")

    def write(self, *values, partition=0, **fields):
        """Appends records that must be taken; the offset of the first."""
        code, base = self.produce(records.batch([value.encode() for value in values], **fields), partition)
        wire.expect_no_error(code, f"Produce to {self.name}")
        return base

    def fetch(self, offset, partition=0):
        """(high watermark, bytes), Fetch v4."""
        body = struct.pack(">iiiib", -1, 0, 1, FETCH_BYTES, 0)
        body += wire.array([wire.string(self.name) + wire.array([struct.pack(">iqi", partition, offset, FETCH_BYTES)])])
        answer = self.ask(partition, 1, 4, body)
        answer.number("i"), answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        code, high, _stable = answer.number("h"), answer.number("q"), answer.number("q")
        wire.expect_no_error(code, f"Fetch of {self.name}-{partition} at {offset}")
        answer.array(lambda: answer.take(16))
        return high, answer.blob()

    def read(self, partition=0):
        """{offset: value} of every record there is; the checksums are looked at."""
        found, at = {}, self.offset_at(-2, partition)
        while True:
            high, data = self.fetch(at, partition)
            for _, batch in records.read_batches(data):
                found.update((record.offset, record.value.decode()) for record in batch if record.offset >= at)
            if at >= high:
                return found
            if not found or max(found) < at:
                raise wire.WireError(f"nothing to read at {at} of {self.name}-{partition}, the high watermark is {high}")
            at = max(found) + 1

    def offset_at(self, timestamp, partition=0):
        """ListOffsets v1: -2 is the start of the log, -1 its end."""
        body = struct.pack(">i", -1) + wire.array([wire.string(self.name) + wire.array([struct.pack(">iq", partition, timestamp)])])
        answer = self.ask(partition, 2, 1, body)
        answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        wire.expect_no_error(answer.number("h"), f"ListOffsets of {self.name}-{partition}")
        answer.number("q")
        return answer.number("q")

    def delete_records(self, before, partition=0):
        """The new start of the log, DeleteRecords v1."""
        body = wire.array([wire.string(self.name) + wire.array([struct.pack(">iq", partition, before)])]) + struct.pack(">i", 30000)
        answer = self.ask(partition, 21, 1, body)
        answer.number("i"), answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        low, code = answer.number("q"), answer.number("h")
        wire.expect_no_error(code, f"DeleteRecords of {self.name}-{partition}")
        return low

    def directory(self, partition=0):
        return self.instance.data / f"{self.name}-{partition}"

    def segments(self, partition=0):
        """Base offsets of its segment files."""
        return sorted(int(path.stem) for path in self.directory(partition).glob("*.log"))
