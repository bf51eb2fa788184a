"""With few descriptors, a log of hundreds of segments is written and read, while more clients come than there are descriptors for."""

import contextlib
import pathlib
import socket
import time

import broker
import records
import wire
from watch import produce

TOPIC = "rolled"
SEGMENTS = 500
SEGMENT_BYTES = 1 << 20  # the least there is
PARTITIONS = 60
LIMIT = 192
CHECKED = 21  # bytes of a batch before what its checksum covers: where the broker stamps it


class FewDescriptors(broker.Ringlog):
    def command(self):
        return ["prlimit", f"--nofile={LIMIT}:{LIMIT}", "--", *super().command()]


def open_descriptors(instance):
    """How many are open, and of how many segments."""
    links = []
    for link in pathlib.Path(f"/proc/{instance.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            links.append(str(link.readlink()))
    return len(links), sum(link.endswith(".log") for link in links)


def leader(instance, topic, partition):
    deadline = time.monotonic() + 10
    while True:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            nodes, leaders = connection.metadata(topic)
        if partition in leaders:
            return wire.Connection(*nodes[leaders[partition]], timeout=60)
        if time.monotonic() > deadline:
            raise wire.WireError(f"{topic}-{partition} has no leader")


def read_all(instance, batch):
    """How many of these batches are there, one behind the other."""
    at = 0
    with leader(instance, TOPIC, 0) as connection:
        while True:
            high, data = connection.fetch_bytes(TOPIC, 0, at)
            before = at
            while len(data) >= len(batch) and int.from_bytes(data[:8]) == at and data[CHECKED:len(batch)] == batch[CHECKED:]:
                data, at = data[len(batch):], at + 1
            if at >= high or at == before:
                return at


def check():
    broken, most = [], (0, 0)
    with FewDescriptors() as instance, contextlib.ExitStack() as held:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            connection.create_topic(TOPIC, 1, [("segment.bytes", str(SEGMENT_BYTES))])
            connection.create_topic("wide", PARTITIONS)
        # Two do not fit into a segment.
        batch = records.batch([b"many segments" * (SEGMENT_BYTES // 20)])
        with leader(instance, TOPIC, 0) as connection:
            for i in range(SEGMENTS):
                code, _ = produce(connection, TOPIC, 0, batch)
                if code != 0:
                    broken.append(f"produce of record {i}: error {code}")
                    break
                if i % 50 == 0:
                    most = max(most, open_descriptors(instance))
        for partition in range(PARTITIONS):
            with leader(instance, "wide", partition) as connection:
                code, _ = produce(connection, "wide", partition, records.batch([b"one"]))
                if code != 0:
                    broken.append(f"produce to wide-{partition}: error {code}")
        most = max(most, open_descriptors(instance))
        # More than there are descriptors for.
        for _ in range(2 * LIMIT):
            held.enter_context(socket.create_connection(wire.address(instance.bootstrap), timeout=5))
        time.sleep(0.2)
        most = max(most, open_descriptors(instance))
        held.close()
        deadline = time.monotonic() + 10
        while open_descriptors(instance)[0] > LIMIT // 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        segments = len(list((instance.data / f"{TOPIC}-0").glob("*.log")))
        if segments < SEGMENTS:
            broken.append(f"only {segments} segments")
        for what in ("while it is written to", "after a restart"):
            read = read_all(instance, batch)
            if read != SEGMENTS:
                broken.append(f"{read} records are read {what}, {SEGMENTS} were written")
            most = max(most, open_descriptors(instance))
            if what == "while it is written to":
                instance.kill()
                instance.start()
        offline = [line for line in instance.log.read_text().splitlines() if "offline:" in line]
        broken += offline[:3]
    if most[1] > LIMIT // 2:
        broken.append(f"{most[1]} segment files were open, out of {LIMIT} descriptors")
    return f"{segments} segments and {PARTITIONS} partitions with {LIMIT} descriptors; at most {most[0]} open, {most[1]} of them segments", broken
