"""Large requests share a bounded memory: many that send most of one and stall are ended and cost no more than that; those that send all of
theirs are all answered, and small requests go on as ever."""

import os
import selectors
import socket
import struct
import threading
import time

import broker
import records
import wire
from watch import produce

MIB_PER_SHARD = 32  # an eighth of it is for requests
FRAME_BYTES = 24 << 20
STALLED = 24
GOOD, NAMES = 6, 30_000  # of 200 bytes each: more than is for requests
# An eighth of the memory and the one that goes beyond, on each shard; what the kernel and malloc add.
GROWTH_MAX = os.cpu_count() * ((MIB_PER_SHARD << 20) // 8 + FRAME_BYTES) + (48 << 20)
ROUND_SECONDS_MAX = 3.0
ENDED_SECONDS_MAX = 60.0


class LittleMemory(broker.Ringlog):
    def command(self):
        return [*super().command(), "--memory", f"{MIB_PER_SHARD * os.cpu_count()}MiB"]


def anonymous_bytes(instance):
    """Memory of its own, without the arenas."""
    with open(f"/proc/{instance.process.pid}/status") as status:
        line = next(line for line in status if line.startswith("RssAnon:"))
    return int(line.split()[1]) << 10


class Small(threading.Thread):
    """Writes a record, over and over."""

    def __init__(self, instance):
        super().__init__(daemon=True)
        self.instance, self.stop, self.longest, self.rounds, self.error = instance, threading.Event(), 0.0, 0, None

    def run(self):
        try:
            with wire.Connection(*wire.address(self.instance.bootstrap)) as connection:
                nodes, leaders = connection.metadata("small")
            with wire.Connection(*nodes[leaders[0]], timeout=30) as connection:
                while not self.stop.is_set():
                    began = time.monotonic()
                    wire.expect_no_error(produce(connection, "small", 0, records.batch([b"small"]))[0], "a small produce")
                    self.longest, self.rounds = max(self.longest, time.monotonic() - began), self.rounds + 1
        except Exception as error:
            self.error = error


def large_request(place, answered, errors):
    """Metadata v4 of many topics that are not there."""
    try:
        names = [wire.string(f"{i:0200d}") for i in range(NAMES)]
        with wire.Connection(*place, timeout=90) as connection:
            answer = connection.ask(3, 4, wire.array(names) + b"\0")
            answer.number("i")
            answered.append(len(answer.data))
    except Exception as error:
        errors.append(f"a large request: {type(error).__name__}: {error}")


def stalling(places):
    """Connections that each have sent most of a large frame, as far as they were read."""
    head = struct.pack(">ihhi", FRAME_BYTES, 3, 4, 1) + wire.string("stalls") + struct.pack(">i", 1)
    found = {}
    for i in range(STALLED):
        one = socket.create_connection(places[i % len(places)])
        one.setblocking(False)
        found[one] = [head, FRAME_BYTES * 9 // 10]
    return found


def send_on(stalled, seconds):
    """Sends what is taken; gives those that were ended."""
    ended, filler, deadline = [], bytes(1 << 20), time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for one in stalled:
            selector.register(one, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while selector.get_map() and time.monotonic() < deadline:
            for key, events in selector.select(0.1):
                one = key.fileobj
                try:
                    if events & selectors.EVENT_READ and one.recv(1) == b"":
                        raise ConnectionResetError
                    if events & selectors.EVENT_WRITE:
                        head, left = stalled[one]
                        sent = one.send(head or filler[: min(left, len(filler))])
                        stalled[one] = [head[sent:], left - (0 if head else sent)]
                        if stalled[one][1] <= 0:
                            selector.modify(one, selectors.EVENT_READ)
                except (ConnectionResetError, BrokenPipeError):
                    selector.unregister(one)
                    ended.append(one)
    return ended


def check():
    broken, answered, errors = [], [], []
    with LittleMemory() as instance:
        with wire.Connection(*wire.address(instance.bootstrap)) as connection:
            connection.create_topic("small", 1)
            places = list(connection.metadata("small")[0].values())
        small = Small(instance)
        small.start()
        time.sleep(0.5)
        before = most = anonymous_bytes(instance)
        stalled = stalling(places)
        left, began = dict(stalled), time.monotonic()
        good = [threading.Thread(target=large_request, args=(places[i % len(places)], answered, errors), daemon=True) for i in range(GOOD)]
        while left and time.monotonic() < began + ENDED_SECONDS_MAX:
            for one in send_on(left, 0.5):
                left.pop(one)
            most = max(most, anonymous_bytes(instance))
            if time.monotonic() > began + 1 and not good[0].ident:
                for one in good:
                    one.start()
        took = time.monotonic() - began
        for one in good:
            one.join(90)
        for one in stalled:
            one.close()
        small.stop.set()
        small.join()
    growth = most - before
    broken += errors
    if len(answered) != GOOD:
        broken.append(f"{len(answered)} of {GOOD} large requests were answered")
    if left:
        broken.append(f"{len(left)} of {STALLED} that stalled are still there after {took:.0f} s")
    if growth > GROWTH_MAX:
        broken.append(f"memory grew by {growth >> 20} MiB, at most {GROWTH_MAX >> 20} are allowed")
    if small.error or small.longest > ROUND_SECONDS_MAX:
        broken.append(f"the small client: {small.error}, longest round {small.longest:.2f} s")
    claimed = STALLED * FRAME_BYTES >> 20
    return f"{STALLED} stalled in {claimed} MiB, ended in {took:.0f} s; {GOOD} large requests; {small.rounds} small, longest {small.longest:.2f} s; {growth >> 20} MiB more", broken
