"""With the least memory that is taken, the largest batches are written to many partitions and read back, new and old, also after a kill."""

import multiprocessing
import os
import random
import time

import broker
import records
import wire
from watch import produce

TOPIC, WIDE = "large", "wide"
PARTITIONS = 16
BATCH_BYTES = 1_048_588 - 100  # as large as `max.message.bytes` lets it be
ROUNDS = 12
SECONDS_MAX = 20
MIB_PER_SHARD = 16  # the least


class LittleMemory(broker.Ringlog):
    def command(self):
        return [*super().command(), "--memory", f"{MIB_PER_SHARD * os.cpu_count()}MiB"]


def leaders(instance, topic):
    with wire.Connection(*wire.address(instance.bootstrap)) as connection:
        nodes, found = connection.metadata(topic)
    return {partition: nodes[node] for partition, node in found.items()}


def produces(place, partition, batch, errors):
    """Produces to one partition, one batch behind the other."""
    with wire.Connection(*place, timeout=SECONDS_MAX) as connection:
        for i in range(ROUNDS):
            code, _ = produce(connection, TOPIC, partition, batch)
            if code != 0:
                errors.put(f"batch {i} of partition {partition}: error {code}")
                return


def consumes(place, partition, batch, errors):
    """Reads a partition from its begin to where it will end."""
    at, deadline = 0, time.monotonic() + 2 * SECONDS_MAX
    with wire.Connection(*place, timeout=SECONDS_MAX) as connection:
        while at < ROUNDS and time.monotonic() < deadline:
            _, data = connection.fetch_bytes(TOPIC, partition, at)
            while len(data) >= len(batch) and data[21 : len(batch)] == batch[21:]:
                data, at = data[len(batch) :], at + 1
    if at < ROUNDS:
        errors.put(f"partition {partition} was read up to {at} of {ROUNDS}")


def runs(work, instance, batch, errors, what):
    started = []
    for function in work:
        for partition, place in leaders(instance, TOPIC).items():
            started.append(multiprocessing.Process(target=guarded, args=(function, place, partition, batch, errors), daemon=True))
    for process in started:
        process.start()
    for process in started:
        process.join(3 * SECONDS_MAX)
        if process.is_alive():
            process.kill()
            errors.put(f"{what}: no end in {3 * SECONDS_MAX} s")


def guarded(function, place, partition, batch, errors):
    try:
        function(place, partition, batch, errors)
    except Exception as error:
        errors.put(f"{function.__name__} partition {partition}: {type(error).__name__}: {error}")


def small_ones(instance, count):
    """A record into each of many partitions: each takes memory of its own."""
    for partition, place in leaders(instance, WIDE).items():
        with wire.Connection(*place, timeout=SECONDS_MAX) as connection:
            for _ in range(count):
                wire.expect_no_error(produce(connection, WIDE, partition, records.batch([b"small"]))[0], f"produce to {WIDE}-{partition}")


def check():
    chance, errors, broken = random.Random(3), multiprocessing.Queue(), []
    batch = records.batch([chance.randbytes(BATCH_BYTES)])
    began = time.monotonic()
    with LittleMemory() as instance:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            connection.create_topic(TOPIC, PARTITIONS)
            connection.create_topic(WIDE, 1000)
            connection.create_topic("huge", 1, [("max.message.bytes", str(64 << 20))])
        small_ones(instance, 1)
        runs([produces, consumes], instance, batch, errors, "writing and reading")
        instance.kill()
        instance.start()
        runs([consumes], instance, batch, errors, "reading after a kill")
        small_ones(instance, 1)
        with wire.Connection(*leaders(instance, "huge")[0], timeout=SECONDS_MAX) as connection:
            code, _ = produce(connection, "huge", 0, records.batch([bytes(MIB_PER_SHARD << 20)]))
            if code != 10:
                broken.append(f"a batch larger than the memory: error {code}, not MESSAGE_TOO_LARGE")
            wire.expect_no_error(produce(connection, "huge", 0, batch)[0], "produce after it")
    while not errors.empty():
        broken.append(errors.get())
    took = time.monotonic() - began
    return f"{MIB_PER_SHARD} MiB a shard: {PARTITIONS * ROUNDS} batches of 1 MiB written and read twice in {took:.1f} s", broken
