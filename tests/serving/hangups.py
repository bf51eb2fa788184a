"""Clients that send a request and hang up: what they asked for is done whole or not at all, and nobody else notices."""

import contextlib
import socket
import struct
import threading

import records
import topic
import wire
from checks import Failed
from gotchas import expect

TURNS = 40
COLD_BATCHES = 48
COLD_BATCH_BYTES = 256 << 10
BROKER_COPIES = 200_000


def send_and_leave(place, *requests):
    """Requests, each (api key, version, body); the connection is closed at once."""
    with wire.Connection(*place, timeout=topic.TIMEOUT_SECONDS) as connection:
        for request in requests:
            connection.send(*request)


def create_body(name, partitions=1):
    """CreateTopics v3."""
    spec = wire.string(name) + struct.pack(">ih", partitions, 1) + wire.array([]) + wire.array([])
    return wire.array([spec]) + struct.pack(">i?", 30000, False)


def changes(name):
    """Requests that change the metadata, as they would be repeated by a client that lost its connection."""
    create = (19, 3, create_body(name))
    delete = (20, 1, wire.array([wire.string(name)]) + struct.pack(">i", 30000))
    more = (37, 0, wire.array([wire.string(name) + struct.pack(">ii", 3, -1)]) + struct.pack(">i?", 30000, False))
    configs = wire.array([wire.string("retention.ms") + wire.string("77777777")])
    alter = (33, 0, wire.array([b"\2" + wire.string(name) + configs]) + b"\0")
    new_id = (22, 0, wire.string(None) + struct.pack(">i", 1000))
    coordinator = (10, 1, wire.string("group") + b"\0")
    on_demand = (3, 1, wire.array([wire.string(f"{name}-on-demand")]))
    return [create, create, more, alter, new_id, coordinator, delete, create, on_demand, more]


def metadata(instance, report):
    """Every change is sent on a connection of its own that is closed at once, to the controller's node and to others."""
    with report.check("changes of the metadata whose askers hang up are made whole: the broker starts again") as note:
        topic.create(instance, "first")
        nodes = sorted(topic.until(lambda: topic.seed(instance).metadata("first"))[0].items())
        nodes = [nodes[0][1], nodes[0][1], nodes[-1][1]]
        for turn in range(TURNS):
            for request in changes(f"left-{turn}"):
                send_and_leave(nodes[turn % 3], request)
        # Whoever asks now is served after them.
        last = topic.create(instance, "last")
        instance.check_alive()
        instance.kill()
        last.forget()
        instance.start()
        names = topic.names(instance)
        for turn in range(TURNS):
            name = f"left-{turn}"
            if name in names:
                one = topic.Topic(instance, name)
                expect(topic.until(lambda one=one: [one.write("value")]), [0], f"first offset of {name}")
                expect(topic.until(lambda one=one: one.read()), {0: "value"}, f"records of {name}")
        instance.restart()
        note.detail = f"{sum(name.startswith('left-') for name in names)} topics"


def cold_reads(instance, report):
    """Reads from the disk that nobody waits for any more: the next reader gets the same bytes."""
    with report.check("a reader that hangs up while its data is read from the disk harms no other reader"):
        topic.create(instance, "cold")
        nodes, leaders = topic.until(lambda: topic.seed(instance).metadata("cold"))
        place = nodes[leaders[0]]
        value = bytes(COLD_BATCH_BYTES)
        with wire.Connection(*place, timeout=topic.TIMEOUT_SECONDS) as connection:
            for number in range(COLD_BATCHES):
                code, base, *_ = connection.produce("cold", 0, records.batch([value]))
                expect((code, base), (0, number), "error and offset")
        instance.restart()
        for offset in range(COLD_BATCHES):
            for _ in range(3):
                send_and_leave(place, (1, 4, fetch_body("cold", offset)))
        for offset in range(COLD_BATCHES):
            with wire.Connection(*place, timeout=topic.TIMEOUT_SECONDS) as connection:
                _high, found = connection.fetch("cold", 0, offset)
                expect(found[0].base, offset, "first batch")
        # The end of the log, whose last block is read before it is appended to.
        with wire.Connection(*place, timeout=topic.TIMEOUT_SECONDS) as connection:
            expect(connection.produce("cold", 0, records.batch([b"next"]))[:2], (0, COLD_BATCHES), "error and offset")


def first_append(instance, report):
    """The first batch after a start needs the last block of the log: a producer that leaves does not stop the next one."""
    with report.check("a producer that hangs up during its first append after a start blocks nobody"):
        one = topic.create(instance, "tail")
        one.write("first")
        nodes, leaders = topic.seed(instance).metadata("tail")
        place = nodes[leaders[0]]
        one.forget()
        instance.restart()
        batch = records.batch([b"left"])
        send_and_leave(place, (0, 7, wire.produce_body("tail", 0, batch)))
        topic.until(lambda: one.write("after"))


def fetch_body(name, offset):
    body = struct.pack(">iiiib", -1, 500, 1, 64 << 20, 0)
    return body + wire.array([wire.string(name) + wire.array([struct.pack(">iqi", 0, offset, 1 << 20)])])


def unanswered_records(instance, report):
    """acks=0: a producer may leave as soon as it has sent; what arrived is kept, whichever shard it is for."""
    with report.check("acks=0: records of a producer that hangs up are kept"):
        partitions, batches = 4, 200
        topic.create(instance, "unanswered", partitions)
        nodes, leaders = topic.until(lambda: topic.seed(instance).metadata("unanswered"))
        by_node = {}
        for partition, node in leaders.items():
            by_node.setdefault(node, []).append(partition)
        for node, led in by_node.items():
            requests = []
            for number in range(batches):
                batch = records.batch([b"%d" % number])
                requests += [(0, 7, wire.produce_body("unanswered", partition, batch, acks=0)) for partition in led]
            send_and_leave(nodes[node], *requests)
        for partition, node in leaders.items():
            with wire.Connection(*nodes[node]) as connection:
                topic.until(lambda p=partition, c=connection: c.end_offset("unanswered", p) == batches)


def idle_requests(instance, report):
    """Requests that are never answered and need no wait: other connections of the shard go on."""
    with report.check("a flood of requests without answers leaves others their turn"):
        place = ("127.0.0.1", instance.port)
        empty = wire.string(None) + struct.pack(">hi", 0, 1000) + wire.array([])
        head = struct.pack(">hhi", 0, 7, 1) + wire.string("flood")
        frame = struct.pack(">i", len(head) + len(empty)) + head + empty
        flood, ended = socket.create_connection(place), threading.Event()

        def run():
            with contextlib.suppress(OSError):
                while not ended.is_set():
                    flood.sendall(frame * 4096)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            with wire.Connection(*place, timeout=5) as connection:
                for _ in range(50):
                    connection.api_versions()
        finally:
            ended.set()
            flood.close()
            thread.join(topic.TIMEOUT_SECONDS)


def large_answers(instance, report):
    """A request that names the same thing again and again: the connection ends before the answer fills the memory."""
    with report.check("a small request can't ask for an answer of gigabytes") as note:
        before = memory_bytes(instance)
        resource = b"\4" + wire.string("0") + struct.pack(">i", -1)
        with wire.Connection("127.0.0.1", instance.port, timeout=60) as connection:
            asked = struct.pack(">i", BROKER_COPIES) + resource * BROKER_COPIES + b"\1\1"
            try:
                connection.ask(32, 3, asked)
                raise Failed("it is answered")
            except (wire.WireError, ConnectionError):
                pass
            expect(connection_is_served(instance), True, "another connection")
        grown = memory_bytes(instance) - before
        if grown > 512 << 20:
            raise Failed(f"memory grew by {grown >> 20} MiB")
        note.detail = f"memory grew by {grown >> 20} MiB"


def connection_is_served(instance):
    with topic.seed(instance) as connection:
        return bool(connection.api_versions())


def memory_bytes(instance):
    """The most that the process has had in memory."""
    with open(f"/proc/{instance.process.pid}/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) << 10


def all_of_them(instance, report):
    for one in (metadata, cold_reads, first_append, unanswered_records, idle_requests, large_answers):
        one(instance, report)
