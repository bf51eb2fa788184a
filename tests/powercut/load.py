"""The load a power cut interrupts: producers, consumers and committers, each noting what it was promised.

A promise is written to a journal (on a file system that keeps its power) before it is counted: "acked" records, "read" records,
"committed" offsets. Values say who they are, so that any change shows.
"""

import os
import random
import struct
import sys
import threading
import time
from collections import defaultdict

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kafka"))
import records  # noqa: E402
import wire  # noqa: E402

TIMEOUT_SECONDS = 20
READY_SECONDS = 60
IN_FLIGHT = 5
RECORDS_IN_A_BATCH = 12
VALUE_BYTES = 1500
FETCH_BYTES = 1 << 20
NEVER = float("inf")
FILL = bytes(range(32, 127)) * 20


class Lost(Exception):
    """The broker is gone, or says that it cannot: what was sent and not answered is unknown."""


def value_of(name):
    """The value of a record with this name: its length and its bytes follow from the name."""
    head = name.encode() + b"|"
    shift = sum(head) % 95
    return head + FILL[shift : shift + hash_number(head) % VALUE_BYTES]


def hash_number(data):
    number = 2166136261
    for byte in data:
        number = (number ^ byte) * 16777619 & 0xFFFFFFFF
    return number


def name_of(value):
    """The name in a value; a value that is not what the name says is damage."""
    name = value.split(b"|", 1)[0].decode()
    if value_of(name) != value:
        raise ValueError(f"the value of {name} is damaged: {value[:60]}...")
    return name


def until(attempt):
    """The first answer that is not an error; a broker that just started may need a moment."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            return attempt()
        except (OSError, wire.WireError, Lost):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Journal:
    """Promises, on disk before they count. Thread-safe.

    A real power cut stops everything at once, the ioctl does not: while it runs, a sync that finds its file's log items already thrown away
    succeeds. An answer noted after the ioctl began is therefore no answer.
    """

    def __init__(self, path):
        self.file = open(path, "ab", buffering=0)
        self.lock = threading.Lock()
        self.records = defaultdict(dict)  # partition -> offset -> name
        self.since = defaultdict(dict)  # partition -> offset -> when it was first promised
        self.cut_began = NEVER
        self.commits = {}  # (group, partition) -> [acknowledged, tried]
        self.acked = self.read = self.committed = 0
        self.changed = []

    def note(self, kind, partition, offsets_and_names):
        lines = "".join(f"{kind} {partition} {offset} {name}\n" for offset, name in offsets_and_names)
        with self.lock:
            now = self.before_the_cut()
            self.file.write(lines.encode())
            for offset, name in offsets_and_names:
                known = self.records[partition].setdefault(offset, name)
                self.since[partition].setdefault(offset, now)
                if known != name:
                    self.changed.append(f"partition {partition} offset {offset} was {known} and is {name} ({kind})")
            if kind == "acked":
                self.acked += len(offsets_and_names)
            else:
                self.read += len(offsets_and_names)

    def before_the_cut(self):
        now = time.monotonic()
        if now >= self.cut_began:
            raise Lost("the power is being cut")
        return now

    def trying(self, group, partition, offset):
        with self.lock:
            self.commits.setdefault((group, partition), [-1, -1])[1] = offset

    def note_commit(self, group, partition, offset):
        with self.lock:
            self.before_the_cut()
            self.file.write(f"committed {group} {partition} {offset}\n".encode())
            self.commits[(group, partition)][0] = offset
            self.committed += 1


class Client:
    """Connections to the leaders of one topic."""

    def __init__(self, bootstrap, topic):
        self.topic = topic
        self.connections = {}
        self.seed = wire.Connection(*wire.address(bootstrap), timeout=TIMEOUT_SECONDS)
        self.nodes, self.leaders = self.seed.metadata(topic)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in [self.seed, *self.connections.values()]:
            connection.socket.close()

    def at(self, node):
        if node not in self.connections:
            self.connections[node] = wire.Connection(*self.nodes[node], timeout=TIMEOUT_SECONDS)
        return self.connections[node]

    def of(self, partition):
        return self.at(self.leaders[partition])

    def producer_id(self):
        """InitProducerId v1."""
        answer = self.seed.ask(22, 1, wire.string(None) + struct.pack(">i", 60000))
        answer.number("i")
        wire.expect_no_error(answer.number("h"), "InitProducerId")
        return answer.number("q"), answer.number("h")

    def send_batch(self, partition, batch):
        """Produce v7, acks=all; the answer is taken by `base_offset`."""
        body = wire.string(None) + struct.pack(">hi", -1, 30000)
        body += wire.array([wire.string(self.topic) + wire.array([struct.pack(">ii", partition, len(batch)) + batch])])
        self.of(partition).send(0, 7, body)

    def base_offset(self, partition):
        answer = self.of(partition).receive()
        answer.number("i"), answer.string(), answer.number("i")
        told, code, base = answer.number("i"), answer.number("h"), answer.number("q")
        if told != partition:
            raise wire.WireError(f"answer for partition {told}, not {partition}")
        if code != 0:
            raise Lost(f"produce error {code}")
        return base

    def fetch(self, partition, offset, wait_ms=100):
        """(high watermark, bytes), Fetch v4."""
        body = struct.pack(">iiiib", -1, wait_ms, 1, 64 << 20, 0)
        body += wire.array([wire.string(self.topic) + wire.array([struct.pack(">iqi", partition, offset, FETCH_BYTES)])])
        answer = self.of(partition).ask(1, 4, body)
        answer.number("i"), answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        code, high, _stable = answer.number("h"), answer.number("q"), answer.number("q")
        if code != 0:
            raise Lost(f"fetch of partition {partition} at {offset}: error {code}")
        answer.array(lambda: answer.take(16))
        return high, answer.blob()

    def coordinator(self, group):
        code, (host, port) = self.seed.coordinator(group)
        wire.expect_no_error(code, f"FindCoordinator of {group}")
        return wire.Connection(host, port, timeout=TIMEOUT_SECONDS)

    def commit(self, coordinator, group, partition, offset):
        """OffsetCommit v7 of a simple consumer."""
        entry = struct.pack(">iqi", partition, offset, -1) + wire.string("")
        body = wire.string(group) + struct.pack(">i", -1) + wire.string("") + wire.string(None)
        body += wire.array([wire.string(self.topic) + wire.array([entry])])
        answer = coordinator.ask(8, 7, body)
        answer.number("i"), answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        code = answer.number("h")
        if code != 0:
            raise Lost(f"commit error {code}")


class Producer:
    """Names its records PRODUCER.NUMBER. An idempotent one sends again, after a cut, what it has no answer for."""

    def __init__(self, name, seed, idempotent):
        self.name, self.idempotent = name, idempotent
        self.random = random.Random(f"{seed}-{name}")
        self.number = 0
        self.id = None
        self.sequences = defaultdict(int)
        self.unanswered = []  # (partition, names, batch) in the order sent

    def make(self, partition):
        names = [f"{self.name}.{self.number + i}" for i in range(self.random.randint(1, RECORDS_IN_A_BATCH))]
        self.number += len(names)
        fields = {}
        if self.idempotent:
            fields = dict(producer_id=self.id[0], epoch=self.id[1], sequence=self.sequences[partition])
            self.sequences[partition] += len(names)
        return partition, names, records.batch([value_of(name) for name in names], **fields)

    def run(self, client, journal):
        if self.idempotent and self.id is None:
            self.id = client.producer_id()
        if not self.idempotent:
            self.unanswered = []  # sent again they would be there twice
        waiting, self.unanswered = self.unanswered, []
        while True:
            if not waiting:
                partitions = [self.random.choice(list(client.leaders)) for _ in range(self.random.randint(1, IN_FLIGHT))]
                waiting = [self.make(partition) for partition in partitions]
            self.unanswered = waiting
            for partition, _, batch in waiting:
                client.send_batch(partition, batch)
            # Answers come in the order of the requests on each connection.
            for partition, names, _ in list(waiting):
                base = client.base_offset(partition)
                journal.note("acked", partition, [(base + i, name) for i, name in enumerate(names)])
                self.unanswered = self.unanswered[1:]
            waiting = []


class Consumer:
    """Reads its partitions to the end, over and over, from where it was."""

    def __init__(self, partitions):
        self.next = dict.fromkeys(partitions, 0)

    def run(self, client, journal):
        while True:
            for partition in self.next:
                _high, data = client.fetch(partition, self.next[partition])
                found = [(r.offset, name_of(r.value)) for _, batch in records.read_batches(data) for r in batch if r.offset >= self.next[partition]]
                if found:
                    journal.note("read", partition, found)
                    self.next[partition] = found[-1][0] + 1


class Committer:
    """Commits growing offsets for a group."""

    def __init__(self, group, partitions):
        self.group, self.partitions, self.number = group, partitions, 0

    def run(self, client, journal):
        with client.coordinator(self.group) as coordinator:
            while True:
                for partition in self.partitions:
                    self.number += 1
                    journal.trying(self.group, partition, self.number)
                    client.commit(coordinator, self.group, partition, self.number)
                    journal.note_commit(self.group, partition, self.number)


class Load:
    """All of it, in threads, until the broker is gone."""

    def __init__(self, topic, partitions, seed, journal):
        self.topic, self.journal = topic, journal
        self.actors = [Producer(f"p{i}", seed, idempotent=i % 2 == 0) for i in range(4)]
        self.actors += [Consumer(list(partitions)), Consumer(list(reversed(partitions)))]
        self.actors += [Committer(f"group-{i}", list(partitions)) for i in range(2)]
        self.threads = []
        self.errors = []

    def start(self, bootstrap):
        self.cut = False
        self.threads = [threading.Thread(target=self.drive, args=(actor, bootstrap), daemon=True) for actor in self.actors]
        for thread in self.threads:
            thread.start()

    def drive(self, actor, bootstrap):
        """An end before the cut is an error of the broker; after it, it is what a power cut looks like."""
        try:
            with Client(bootstrap, self.topic) as client:
                actor.run(client, self.journal)
        except (OSError, Lost, wire.WireError) as error:
            if not self.cut:
                self.errors.append(f"{type(actor).__name__} before the cut: {type(error).__name__} {error}")
        except Exception as error:  # anything else is a broken promise, such as a damaged value
            self.errors.append(f"{type(actor).__name__}: {type(error).__name__} {error}")

    def wait_for_acks(self, more_than):
        """The load has reached the disk; False where it does not."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.journal.acked <= more_than and not self.errors:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def join(self):
        for thread in self.threads:
            thread.join(TIMEOUT_SECONDS * 2)
            if thread.is_alive():
                self.errors.append("a client does not notice that the broker is gone")
