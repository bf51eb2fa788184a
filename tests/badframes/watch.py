"""What must hold while and after bad input comes: the broker lives, stays small, serves others, and its log does not change."""

import hashlib
import multiprocessing
import os
import pathlib
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kafka"))
import records  # noqa: E402
import wire  # noqa: E402

MEMORY_GROWTH_MAX = 64 << 20
DESCRIPTORS_BACK_SECONDS = 15
# The longest that one round of the good client may take. Its speed is printed and not judged: what a test machine's cores have left for it
# says nothing about the broker.
ROUND_SECONDS_MAX = 5.0
CALM_SECONDS = 1.0
# Less than this says nothing about speed: bad input is given again and again until it has lasted so long.
ROW_SECONDS_MIN = 1.0


def produce(connection, topic, partition, batch, acks=-1, timeout_ms=10_000):
    """The error code and the base offset, Produce v7."""
    return connection.produce(topic, partition, batch, acks, timeout_ms)[:2]


def good_client(bootstrap, topic, done, longest, stop):
    """Produces a batch and reads it back, over and over; `done` counts, `longest` is the longest round's seconds."""
    batch = records.batch([b"good" * 64] * 4)
    with wire.Connection(*wire.address(bootstrap), timeout=60) as seed:
        nodes, leaders = seed.metadata(topic)
    with wire.Connection(*nodes[leaders[0]], timeout=60) as connection:
        while not stop.is_set():
            start = time.monotonic()
            code, base = produce(connection, topic, 0, batch)
            wire.expect_no_error(code, "produce of the good client")
            high, found = connection.fetch(topic, 0, base)
            if high < base + 4 or not found or found[0].base != base:
                raise wire.WireError(f"the good client produced at {base} and read {found[:1]}, high watermark {high}")
            with done.get_lock():
                done.value += 1
                longest.value = max(longest.value, time.monotonic() - start)


class Process:
    """What /proc says about the broker."""

    def __init__(self, pid, data):
        self.folder = pathlib.Path("/proc") / str(pid)
        self.data = os.path.realpath(data) + os.sep

    def alive(self):
        try:
            return self.folder.joinpath("stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        except FileNotFoundError:
            return False

    def memory(self):
        """Without the arena, which has a size of its own and is filled by the good client too."""
        for line in self.folder.joinpath("status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return 0

    def descriptors(self):
        """Open ones but for the files of the log, which come and go with its segments."""
        count = 0
        for link in self.folder.joinpath("fd").iterdir():
            try:
                count += not os.readlink(link).startswith(self.data)
            except FileNotFoundError:
                pass
        return count


class Watch:
    def __init__(self, instance, victim, good):
        self.instance, self.victim, self.good = instance, victim, good
        self.process = Process(instance.process.pid, instance.data)
        self.done = multiprocessing.Value("q", 0)
        self.longest = multiprocessing.Value("d", 0.0, lock=False)
        self.stop = multiprocessing.Event()
        arguments = (instance.bootstrap, good, self.done, self.longest, self.stop)
        self.client = multiprocessing.Process(target=good_client, args=arguments, daemon=True)

    def __enter__(self):
        self.client.start()
        self.speed(2 * CALM_SECONDS)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.client.join(10)
        self.client.kill()

    def speed(self, seconds):
        """Rounds a second of the good client while nothing else is done."""
        before, start = self.done.value, time.monotonic()
        time.sleep(seconds)
        return (self.done.value - before) / (time.monotonic() - start)

    def digest(self):
        """Of all bytes of the victim's log."""
        digest = hashlib.sha256()
        with wire.Connection(*wire.address(self.instance.bootstrap), timeout=60) as connection:
            nodes, leaders = connection.metadata(self.victim)
        for partition, node in sorted(leaders.items()):
            with wire.Connection(*nodes[node], timeout=60) as leader:
                offset = 0
                while True:
                    high, found = leader.fetch(self.victim, partition, offset)
                    digest.update(f"{partition} {high} {found}".encode())
                    if not found or found[-1].last + 1 >= high:
                        break
                    offset = found[-1].last + 1
        return digest.hexdigest()

    def row(self, attack, memory_growth_max=MEMORY_GROWTH_MAX):
        """Runs `attack` until it has lasted long enough; ({case: failure or None}, ratio of the speed, list of broken rules)."""
        digest, descriptors = self.digest(), self.process.descriptors()
        calm, memory = self.speed(CALM_SECONDS), self.process.memory()
        peak, results = memory, {}
        before, start, self.longest.value = self.done.value, time.monotonic(), 0.0
        while True:
            for name, failure in attack():
                results[name] = results.get(name) or failure
                peak = max(peak, self.process.memory() if self.process.alive() else 0)
            if time.monotonic() - start >= ROW_SECONDS_MIN or not self.process.alive():
                break
        ratio = (self.done.value - before) / (time.monotonic() - start) / max(calm, 1)
        broken = []
        if not self.process.alive():
            return results, ratio, [f"the broker is gone\n{self.instance.log_tail()}"]
        if "panicked" in self.instance.log.read_text(errors="replace"):
            broken.append("the broker's log says 'panicked'")
        if peak - memory > memory_growth_max:
            broken.append(f"memory grew by {(peak - memory) >> 20} MiB")
        if not self.client.is_alive():
            return results, ratio, [*broken, "the good client had an error"]
        if self.longest.value > ROUND_SECONDS_MAX or self.done.value == before:
            broken.append(f"the good client had to wait {self.longest.value:.1f} s")
        deadline = time.monotonic() + DESCRIPTORS_BACK_SECONDS
        while self.process.descriptors() > descriptors and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.process.descriptors() > descriptors:
            broken.append(f"{self.process.descriptors()} descriptors open, {descriptors} before")
        if self.digest() != digest:
            broken.append("the log of the victim changed")
        return results, ratio, broken
