"""A consumer that takes its time gets the whole answer, although its records are deleted meanwhile; the file goes afterwards."""

import socket
import struct

import records
import topic as topics
import wire
from gotchas import expect

SEGMENT_BYTES = 20 << 20
ANSWER_BYTES = 16 << 20  # more than sockets hold
BATCH = records.batch([bytes(range(256)) * 3600])
BATCHES = SEGMENT_BYTES // len(BATCH)


def fill(topic, partition):
    """One segment, and the first batch of the next; the offset after it."""
    for _ in range(BATCHES + 1):
        code, base = topic.produce(BATCH, partition)
        expect(code, 0, "produce")
    return base + 1


def is_whole(sent):
    """Whether these are the batches from offset 0 on."""
    for number, at in enumerate(range(0, len(sent) - len(BATCH) + 1, len(BATCH))):
        expect(struct.unpack_from(">q", sent, at), (number,), "the offset of a batch")
        # What follows is its leader epoch.
        expect(sent[at + 8 : at + 12] == BATCH[8:12] and sent[at + 16 : at + len(BATCH)] == BATCH[16:], True, f"batch {number} is what was sent")


def slow_answer(topic, partition, settles=None):
    """Asks for most of a segment, has it deleted, and only then reads what it was sent."""
    first = topic.directory(partition) / f"{0:020}.log"
    nodes, leaders = topics.until(lambda: topics.seed(topic.instance).metadata(topic.name))
    with wire.Connection(*nodes[leaders[partition]]) as slow:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        if settles is not None:
            expect(slow.produce(topic.name, settles, records.batch([b"settles"]))[0], 0, "produce")
        end = fill(topic, partition)
        asked = wire.array([struct.pack(">iqi", partition, 0, ANSWER_BYTES)])
        slow.send(1, 4, struct.pack(">iiiib", -1, 500, 1, 64 << 20, 0) + wire.array([wire.string(topic.name) + asked]))
        size = struct.unpack(">i", slow.read(4))[0]
        expect(topic.delete_records(end, partition), end, "the start of the log")
        # Each new segment would be written over a file that is not needed any more.
        for turn in range(2):
            end = fill(topic, partition)
            expect(first.exists(), True, f"the file is there after {turn + 1} more segments")
        answer = slow.read(size)
        is_whole(answer[-ANSWER_BYTES:])
        topic.delete_records(end, partition)
        topics.until(lambda: fill(topic, partition) and not first.exists())
    return f"{len(answer) >> 20} MiB"


def on_two_nodes(broker, report):
    with report.check("an answer that is read slowly comes whole, although its records are deleted meanwhile") as note:
        note.detail = slow_answer(topics.create(broker, "slow", segment_bytes=SEGMENT_BYTES), 0)


def on_one_node(broker, report):
    with report.check("--nodes 1: an answer with records of another shard, too") as note:
        topic = topics.create(broker, "slow", 2, segment_bytes=SEGMENT_BYTES)
        topics.until(topic.partitions)
        # Neighbours are on two shards.
        note.detail = slow_answer(topic, 1, settles=0)
