"""The log of committed offsets stays short and starts fast, however many commits there were and whenever the broker is killed; and what was
committed last is kept."""

import random
import struct
import time

import broker
import wire

GROUP, TOPIC = "bounded", "watched"
PARTITIONS = 40
METADATA = "m" * 1500
ROUNDS, COMMITS = 5, 1_000  # of a round; each is of every partition, so about 60 MB a round
IN_FLIGHT = 32
# 16 MiB are let be, the same again comes while they are looked through, a dropped segment may be kept to be written over.
DISK_BYTES_MAX = 64 << 20
START_SECONDS_MAX = 2.0


def commit(offset):
    """OffsetCommit v2 by a consumer that is no member; every partition has the same offset."""
    rows = [struct.pack(">iq", partition, offset) + wire.string(METADATA) for partition in range(PARTITIONS)]
    return wire.string(GROUP) + struct.pack(">i", -1) + wire.string("") + struct.pack(">q", -1) + wire.array([wire.string(TOPIC) + wire.array(rows)])


def committed(answer):
    for _ in range(answer.number("i")):
        answer.string()
        for _ in range(answer.number("i")):
            answer.number("i")
            wire.expect_no_error(answer.number("h"), "OffsetCommit")


def coordinator(instance):
    deadline = time.monotonic() + 30
    while True:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            code, place = connection.coordinator(GROUP)
        if code == 0:
            return wire.Connection(*place, timeout=60)
        if time.monotonic() > deadline:
            raise wire.WireError(f"no coordinator: {code}")
        time.sleep(0.05)


def log_folder(instance):
    """The folder of the group's partition: the one with bytes in it."""
    folders = instance.data.glob("__consumer_offsets-*")
    return max(folders, key=disk_bytes)


def disk_bytes(folder):
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def check():
    chance, broken = random.Random(7), []
    with broker.broker("ringlog") as instance:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            connection.create_topic(TOPIC, PARTITIONS)
        sent = acked = written = peak = 0
        slowest = 0.0
        for _ in range(ROUNDS):
            killed_at = sent + chance.randrange(COMMITS // 2, COMMITS)
            with coordinator(instance) as connection:
                first = sent
                while sent < killed_at:
                    connection.send(8, 2, commit(sent + 1))
                    sent += 1
                    written += PARTITIONS * len(METADATA)
                    if sent - first > IN_FLIGHT:
                        committed(connection.receive())
                        acked = sent - IN_FLIGHT
                    if sent % 50 == 0:
                        peak = max(peak, disk_bytes(log_folder(instance)))
                instance.kill()
            began = time.monotonic()
            instance.start()
            with coordinator(instance) as connection:
                kept = connection.committed(GROUP, TOPIC, range(PARTITIONS))
            slowest = max(slowest, time.monotonic() - began)
            values = set(kept.values())
            if len(kept) != PARTITIONS or len(values) != 1 or not acked <= min(values) <= sent:
                broken.append(f"committed {acked}, last sent {sent}, kept {kept}")
        moved = min(int(file.stem) for file in log_folder(instance).glob("*.log"))
    if moved == 0:
        broken.append("the log start never moved: nothing was made shorter")
    if peak > DISK_BYTES_MAX:
        broken.append(f"{peak >> 20} MiB on the disk, at most {DISK_BYTES_MAX >> 20} are allowed")
    if slowest > START_SECONDS_MAX:
        broken.append(f"{slowest:.2f} s to start and answer, at most {START_SECONDS_MAX} are allowed")
    return f"{sent} commits, {written >> 20} MiB, {ROUNDS} kills; at most {peak >> 20} MiB on the disk, {slowest:.2f} s to start", broken
