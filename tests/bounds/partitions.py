"""Ten thousand partitions: an idle one costs little memory, and they start fast, after a stop and after a kill."""

import re
import struct
import threading
import time

import broker
import records
import wire
from request_memory import anonymous_bytes

TOPIC = "many"
PARTITIONS = 10_000
AT_ONCE = 100
BYTES_MAX = 8 << 10
START_SECONDS_MAX = 2.0
IDLE_SECONDS = 3


def write_each(instance):
    """One record into each partition."""
    batch = records.batch([b"one"])
    with wire.Connection(*wire.address(instance.bootstrap), timeout=60) as connection:
        nodes, leaders = connection.metadata(TOPIC)

    def write(node):
        own = [partition for partition, leader in leaders.items() if leader == node]
        with wire.Connection(*nodes[node], timeout=60) as connection:
            for at in range(0, len(own), AT_ONCE):
                rows = [struct.pack(">ii", partition, len(batch)) + batch for partition in own[at : at + AT_ONCE]]
                body = wire.string(None) + struct.pack(">hi", -1, 60_000) + wire.array([wire.string(TOPIC) + wire.array(rows)])
                answer = connection.ask(0, 7, body)
                answer.number("i"), answer.string()
                for _ in range(answer.number("i")):
                    partition, code = answer.number("i"), answer.number("h")
                    wire.expect_no_error(code, f"produce to partition {partition}")
                    answer.take(24)

    writers = [threading.Thread(target=write, args=(node,)) for node in nodes]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with wire.Connection(*wire.address(instance.bootstrap), timeout=60) as connection:
        nodes, leaders = connection.metadata(TOPIC)
    with wire.Connection(*nodes[leaders[PARTITIONS - 1]]) as connection:
        return connection.end_offset(TOPIC, PARTITIONS - 1)


def told_seconds(instance, seen):
    """How long the slowest shard took to start, as it says, and the log's length now."""
    text = instance.log.read_text()
    return max(int(ms) for ms in re.findall(r"offline, in (\d+) ms", text[seen:])) / 1000, len(text)


def check():
    with broker.broker("ringlog") as instance:
        time.sleep(IDLE_SECONDS)
        empty = anonymous_bytes(instance)
    broken, starts, costs = [], [], []
    with broker.broker("ringlog") as instance:
        with wire.Connection(*wire.address(instance.bootstrap), timeout=60) as connection:
            connection.create_topic(TOPIC, PARTITIONS)
        if write_each(instance) != 1:
            broken.append("the last partition has not got its record")
        costs.append((anonymous_bytes(instance) - empty) / PARTITIONS)
        seen = len(instance.log.read_text())
        for end in (instance.stop, instance.kill):
            end()
            instance.start()
            seconds, seen = told_seconds(instance, seen)
            starts.append(seconds)
            time.sleep(IDLE_SECONDS)
            costs.append((anonymous_bytes(instance) - empty) / PARTITIONS)
    if max(starts) > START_SECONDS_MAX:
        broken.append(f"{max(starts):.2f} s to start, at most {START_SECONDS_MAX} are allowed")
    if max(costs) > BYTES_MAX:
        broken.append(f"{max(costs):.0f} bytes a partition, at most {BYTES_MAX} are allowed")
    shown = [f"{cost / 1024:.1f}" for cost in costs]
    return f"{PARTITIONS} partitions start in {starts[0]:.2f} s after a stop, {starts[1]:.2f} s after a kill; {', '.join(shown)} KiB each when written, and after these", broken
