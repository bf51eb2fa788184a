"""SIGTERM in the middle of work: exit code 0 in under 2 s, and nothing lost that was acknowledged."""

import contextlib
import re
import shutil
import signal
import struct
import threading
import time

import records
import wire
from broker import Ringlog
from checks import Failed
from gotchas import expect
from restarts import all_records
from wire import array, string

TOPIC, PARTITIONS, PRODUCERS = "stopped", 4, 8
SECONDS_MAX = 2.0


def under_load(report):
    for arguments, what in (((), "a node a core"), (("--nodes", "1"), "one node")):
        broker = Ringlog(settings=["group.initial.rebalance.delay.ms=60000"])
        broker.arguments = arguments
        with report.check(f"SIGTERM under load, a reader that does not read, a join that waits ({what}): exit 0 in 2 s, nothing lost") as note:
            broker.start()
            acked, took = one_stop(broker)
            broker.start()
            lost = missing(broker, acked)
            if lost:
                raise Failed(f"{len(lost)} of {len(acked)} acknowledged records are lost, such as {lost[:3]}")
            broker.stop()
            shutil.rmtree(broker.home)
            note.detail = f"{took:.2f} s, {len(acked)} records acknowledged"
            if took >= SECONDS_MAX:
                raise Failed(f"the stop took {took:.2f} s")


def when_idle(report):
    """^C, with connections that do nothing."""
    broker = Ringlog()
    with report.check("^C with idle connections: exit 0 at once") as note:
        broker.start()
        with contextlib.ExitStack() as held:
            connections = [held.enter_context(wire.Connection(*wire.address(broker.bootstrap))) for _ in range(20)]
            connections[0].create_topic(TOPIC, PARTITIONS)
            for connection in connections:
                connection.api_versions()
            begun = time.monotonic()
            broker.process.send_signal(signal.SIGINT)
            code = broker.process.wait(30)
            note.detail = f"{time.monotonic() - begun:.2f} s"
            expect(code, 0, "exit code")
            if time.monotonic() - begun > 1:
                raise Failed(f"the stop took {note.detail}")
            expect(connections[1].socket.recv(1), b"", "what an idle connection sees")
        broker.check_log()
        told(broker, "SIGINT")
        broker.start()
        broker.stop()
        shutil.rmtree(broker.home)


def told(broker, by):
    """A line when the stop begins, and one that says what was done."""
    lines = broker.log.read_text().splitlines()
    stop = [line for line in lines if line.startswith("stop")]
    done = r"stopped: \d+ partitions, 0 offline, \d+ bytes of log still written, checkpoint written, in \d+ ms"
    if len(stop) != 2 or not stop[0].startswith(f"stopping on {by}: ") or not re.fullmatch(done, stop[1]) or lines[-1] != stop[1]:
        raise Failed(f"what is said of the stop: {lines[-5:]}")


def one_stop(broker):
    """(the records that were acknowledged, the seconds from SIGTERM to the end)."""
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        connection.create_topic(TOPIC, PARTITIONS)
        connection.create_topic("bulk", 1)
        nodes, leaders = connection.metadata(TOPIC)
        bulk_nodes, bulk_leaders = connection.metadata("bulk")
        bulk = bulk_nodes[bulk_leaders[0]]
        acked, lock = [], threading.Lock()
        threads = [
            threading.Thread(target=produce, args=(nodes[leaders[number % PARTITIONS]], served_with(number % PARTITIONS, leaders), number, acked, lock))
            for number in range(PRODUCERS)
        ]
        threads.append(threading.Thread(target=produce_bulk, args=(bulk,)))
        for thread in threads:
            thread.start()
        held = [hold_join(connection), slow_reader(bulk)]
        deadline = time.monotonic() + 10
        while len(acked) < 2000:
            if time.monotonic() > deadline:
                raise Failed(f"only {len(acked)} records acknowledged in 10 s")
            time.sleep(0.05)
        begun = time.monotonic()
        broker.process.terminate()
        code = broker.process.wait(30)
        took = time.monotonic() - begun
        for thread in threads:
            thread.join()
        for one in held:
            one.__exit__()
    broker.check_log()
    expect(code, 0, "exit code")
    told(broker, "SIGTERM")
    return acked, took


def served_with(partition, leaders):
    """The partitions of the same node: where shards share one, most of them are another shard's."""
    return [other for other in leaders if leaders[other] == leaders[partition]]


def produce(place, partitions, number, acked, lock):
    """Several requests in flight, until the connection ends; notes what was acknowledged."""
    waiting, count = [], 0
    try:
        with wire.Connection(*place) as connection:
            while True:
                while len(waiting) < 4:
                    value, partition = b"%d/%d" % (number, count), partitions[count % len(partitions)]
                    count += 1
                    connection.send(0, 7, wire.produce_body(TOPIC, partition, records.batch([value])))
                    waiting.append((partition, value))
                code, base, *_ = wire.produced(connection.receive())
                partition, value = waiting.pop(0)
                if code == 0:
                    with lock:
                        acked.append((partition, base, value))
    except (OSError, wire.WireError):
        return


def produce_bulk(place):
    """Megabytes, so that the stop finds writes under way."""
    large = records.batch([b"x" * 4096] * 30)
    try:
        with wire.Connection(*place) as connection:
            for _ in range(4):
                connection.send(0, 7, wire.produce_body("bulk", 0, large))
            while True:
                wire.produced(connection.receive())
                connection.send(0, 7, wire.produce_body("bulk", 0, large))
    except (OSError, wire.WireError):
        return


def hold_join(seed):
    """A JoinGroup that waits for the first rebalance."""
    deadline = time.monotonic() + 20
    while (found := seed.coordinator("held"))[0] != 0:
        if time.monotonic() > deadline:
            raise Failed(f"no coordinator: {found}")
        time.sleep(0.05)
    connection = wire.Connection(*found[1])
    protocol = string("range") + struct.pack(">i", 0)
    connection.send(11, 1, string("held") + struct.pack(">ii", 60_000, 60_000) + string("") + string("consumer") + array([protocol]))
    return connection


def slow_reader(place):
    """Asks for much, over and over, and reads nothing."""
    connection = wire.Connection(*place)
    body = struct.pack(">iiiib", -1, 0, 0, 50 << 20, 0)
    body += array([string("bulk") + array([struct.pack(">iqi", 0, 0, 50 << 20)])])
    for _ in range(50):
        connection.send(1, 4, body)
    return connection


def missing(broker, acked):
    """Acknowledged records that are not where they were said to be."""
    there = {}
    with wire.Connection(*wire.address(broker.bootstrap)) as connection:
        nodes, leaders = connection.metadata(TOPIC)
    for partition in range(PARTITIONS):
        with wire.Connection(*nodes[leaders[partition]]) as leader:
            there.update(((partition, one.offset), one.value) for one in all_records(leader, TOPIC, partition))
    return [one for one in acked if there.get(one[:2]) != one[2]]
