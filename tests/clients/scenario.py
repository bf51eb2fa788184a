"""What every client must do against a broker, whatever language it is written in.

A client is a *driver*: a program with a few verbs that only moves records between the client library and its
standard input and output. All data is made here, and everything a driver prints is checked here, record by record.

    create TOPIC PARTITIONS
    offsets TOPIC                 prints  O <partition> <begin> <end>
    produce TOPIC                 reads   @open CODEC ACKS IDEMPOTENT, then key <tab> value <tab> h=v,h=v lines, then @close;
                                  prints  SENT <count> for each @close, once everything is flushed and the producer closed
    read TOPIC COUNT [partition=P] [offset=O] [timestamp=MS]     prints the records, then ends
    member TOPIC GROUP [session=MS] [instance=ID] [assignor=NAME]   prints ASSIGNED/REVOKED p,p and the records it gets;
                                  commits after every 1,000 of them (or as often as it can be told to), and once its
                                  standard input said "commit" after each poll; leaves at the end of it, and prints CLOSED
    admin PREFIX                  the client's own admin calls: prints  ok|fail <name> <detail>

All fields are separated by tabs. A record is  R <partition> <offset> <timestamp> <key> <value> <h=v,h=v>.
"""

import collections
import contextlib
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "kafka"))
import broker  # noqa: E402
import wire  # noqa: E402
from checks import FULL, Failed, Report, on_targets  # noqa: E402

PARTITIONS = 6
KEYS = 1009
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ACKS = ["0", "1", "all"]
SESSION_MS = 6000  # the shortest a broker allows by default
STATIC_SESSION_MS = 30000  # time to start a client again on a busy machine
STEP_SECONDS = 900 if FULL else 300
CACHE = broker.CACHE

Record = collections.namedtuple("Record", "partition offset timestamp key value headers")
Cell = collections.namedtuple("Cell", "codec acks idempotent first count")


class Client:
    """One client library: how its driver is started and what the library can do."""

    def __init__(self, name, driver, codecs=CODECS, idempotent=True, instance=True, cooperative=None, header_each=True, default_idempotent=False):
        self.name = name
        self.driver = [str(part) for part in driver]
        self.codecs = codecs
        self.idempotent = idempotent
        self.instance = instance  # static membership
        self.cooperative = cooperative  # name of its cooperative assignor
        self.header_each = header_each  # each record can have headers of its own
        self.default_idempotent = default_idempotent  # idempotent unless it is told not to be: the driver says nothing where it should be


class Driver:
    """A running driver process."""

    def __init__(self, client, bootstrap, verb, *arguments, feed=False):
        command = [*client.driver, bootstrap, verb, *map(str, arguments)]
        self.what = f"{client.name} {verb} {' '.join(map(str, arguments))}"
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if feed else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.errors = []
        self.error_reader = threading.Thread(target=self.read_errors, daemon=True)
        self.error_reader.start()

    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line.decode(errors="replace"))

    def error_tail(self):
        self.error_reader.join(2)
        return "".join(self.errors[-15:]).strip()

    def lines(self):
        for line in self.process.stdout:
            yield line.rstrip(b"\n").decode().split("\t")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self, timeout=STEP_SECONDS):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise Failed(f"{self.what}: still running after {timeout} s; {self.error_tail()}") from error
        if code != 0:
            raise Failed(f"{self.what}: exit code {code}; {self.error_tail()}")


def run(client, bootstrap, verb, *arguments, timeout=STEP_SECONDS):
    """All lines of a driver that ends by itself."""
    driver = Driver(client, bootstrap, verb, *arguments)
    guard = threading.Timer(timeout, driver.kill)
    guard.start()
    try:
        lines = list(driver.lines())
        driver.finish()
        return lines
    finally:
        guard.cancel()


def records(lines):
    found = []
    for fields in lines:
        if fields[0] == "R":
            if len(fields) != 7:
                raise Failed(f"a record line of {len(fields)} fields: {fields}")
            found.append(Record(int(fields[1]), int(fields[2]), int(fields[3]), fields[4], fields[5], fields[6]))
    return found


class Producing:
    """A produce driver that is fed record by record."""

    def __init__(self, client, bootstrap, topic):
        self.driver = Driver(client, bootstrap, "produce", topic, feed=True)
        self.answers = self.driver.lines()

    def cell(self, work, cell):
        """Produces one cell; returns when the client says all is sent."""
        sink = self.driver.process.stdin
        flag = "1" if cell.idempotent else "0"
        parts = [f"@open\t{cell.codec}\t{cell.acks}\t{flag}\n"]
        for number in range(cell.first, cell.first + cell.count):
            parts.append(work.line(number, cell))
        parts.append("@close\n")
        guard = threading.Timer(STEP_SECONDS, self.driver.kill)
        guard.start()
        try:
            sink.write("".join(parts).encode())
            sink.flush()
            answer = next(self.answers, None)
        except BrokenPipeError as error:
            raise Failed(f"{self.driver.what}: ended early; {self.driver.error_tail()}") from error
        finally:
            guard.cancel()
        if answer != ["SENT", str(cell.count)]:
            raise Failed(f"{cell}: answered {answer}; {self.driver.error_tail()}")

    def close(self):
        self.driver.process.stdin.close()
        self.driver.finish()


class Work:
    """The records of one topic: what number N must look like, and in which cell of the matrix it was sent."""

    def __init__(self, client, topic):
        self.client, self.topic, self.cells, self.total = client, topic, [], 0

    def add(self, codec, acks, idempotent, count):
        cell = Cell(codec, acks, idempotent, self.total, count)
        self.cells.append(cell)
        self.total += count
        return cell

    def key(self, number):
        return f"key-{number * 7919 % KEYS}"

    def value(self, number):
        return f"{number:08d}:" + "a record of ringlög " * (number % 9)

    def headers(self, number, cell):
        shared = f"codec={cell.codec},acks={cell.acks},ü=ß"
        return f"{shared},n={number}" if self.client.header_each else shared

    def line(self, number, cell):
        return f"{self.key(number)}\t{self.value(number)}\t{self.headers(number, cell)}\n"

    def cell_of(self, number):
        for cell in self.cells:
            if cell.first <= number < cell.first + cell.count:
                return cell
        raise Failed(f"record number {number} was never sent")

    def number(self, record):
        """Which record this is; its key, value and headers must be the very ones that were sent."""
        number = int(record.value[:8])
        cell = self.cell_of(number)
        seen = (record.key, record.value, record.headers)
        sent = (self.key(number), self.value(number), self.headers(number, cell))
        if seen != sent:
            raise Failed(f"record {number} at {record.partition}/{record.offset} came back as {seen}, not {sent}")
        return number

    def check_whole(self, found):
        """Every record once, offsets without gaps, each key in one partition, order kept in each partition."""
        next_offset, last_number, place, seen = {}, {}, {}, set()
        for record in found:
            number = self.number(record)
            if number in seen:
                raise Failed(f"record {number} twice, again at {record.partition}/{record.offset}")
            seen.add(number)
            if record.offset != next_offset.get(record.partition, 0):
                raise Failed(f"offset {record.offset} in {record.partition}, expected {next_offset.get(record.partition, 0)}")
            next_offset[record.partition] = record.offset + 1
            if last_number.get(record.partition, -1) > number:
                raise Failed(f"record {number} behind {last_number[record.partition]} in partition {record.partition}")
            last_number[record.partition] = number
            if place.setdefault(record.key, record.partition) != record.partition:
                raise Failed(f"key {record.key} in partitions {place[record.key]} and {record.partition}")
        if len(seen) != self.total:
            missing = sorted(set(range(self.total)) - seen)
            raise Failed(f"{len(seen)} of {self.total} records, missing {missing[:5]}...")
        if set(next_offset) != set(range(PARTITIONS)):
            raise Failed(f"records only in partitions {sorted(next_offset)}")


class Member:
    """One group member in a process of its own, and what it has told so far."""

    def __init__(self, group, number, *options):
        self.group, self.number, self.options = group, number, options
        self.owned, self.got, self.closed = set(), [], False
        self.rebalances, self.revoked = 0, set()
        self.first_after_assign = {}
        self.driver = Driver(group.client, group.bootstrap, "member", group.topic, group.name, *options, feed=True)
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()

    def listen(self):
        try:
            for fields in self.driver.lines():
                with self.group.news:
                    self.note(fields)
                    if len(self.got) % 500 == 0 or fields[0] != "R":
                        self.group.news.notify_all()
        except Exception as error:
            self.group.troubles.put(f"member {self.number}: {type(error).__name__}: {error}")
        with self.group.news:
            self.closed = True
            self.group.news.notify_all()

    def note(self, fields):
        kind = fields[0]
        if kind == "R":
            record = records([fields])[0]
            self.got.append(record)
            self.group.note(self, record)
        elif kind in ("ASSIGNED", "REVOKED"):
            partitions = {int(part) for part in fields[1].split(",") if part}
            self.rebalances += 1
            if kind == "ASSIGNED":
                self.owned |= partitions
                for partition in partitions:
                    self.first_after_assign.pop(partition, None)
            else:
                self.owned -= partitions
                self.revoked |= partitions
        elif kind == "TROUBLE":
            self.group.troubles.put(f"member {self.number}: {fields[1:]}")

    def kill(self):
        self.driver.kill()
        self.reader.join(10)

    def leave(self):
        """Asks it to leave; `Group.wait_left` waits for it."""
        with contextlib.suppress(OSError):
            self.driver.process.stdin.close()


class Group:
    """The members of one consumer group on one topic, and the record of who was given what."""

    def __init__(self, client, bootstrap, topic, name, work):
        self.client, self.bootstrap, self.topic, self.name, self.work = client, bootstrap, topic, name, work
        self.members, self.news = [], threading.Condition()
        self.troubles = queue.Queue()
        self.delivered = collections.defaultdict(set)  # partition -> offsets
        self.numbers = set()
        self.again = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            if member.driver.process.poll() is None:
                member.driver.kill()

    def join(self, *options):
        if not any(option.startswith("session=") for option in options):
            options += (f"session={SESSION_MS}",)
        member = Member(self, len(self.members) + 1, *options)
        self.members.append(member)
        return member

    def note(self, member, record):
        """One record reached one member. Offsets may come again after a rebalance, but a gap is a loss."""
        partition, offset = record.partition, record.offset
        number = self.work.number(record)
        self.numbers.add(number)
        if partition not in member.first_after_assign:
            member.first_after_assign[partition] = offset
        if offset in self.delivered[partition]:
            self.again += 1
        elif offset > 0 and offset - 1 not in self.delivered[partition]:
            raise Failed(f"offset {offset} of partition {partition} given before {offset - 1}")
        self.delivered[partition].add(offset)

    def wait(self, what, holds, timeout=60):
        """Until `holds()` is true; every news of a member is a reason to look again."""
        deadline = time.monotonic() + timeout
        with self.news:
            while True:
                if not self.troubles.empty():
                    raise Failed(self.troubles.get())
                if holds():
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed(f"not within {timeout} s: {what}; {self.state()}")
                self.news.wait(min(left, 1.0))

    def wait_spread(self, members, timeout=60):
        """Until the given members own all partitions between them, each at least one."""
        def spread():
            owned = [partition for member in members for partition in member.owned]
            return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in members)
        self.wait(f"{len(members)} members share {PARTITIONS} partitions", spread, timeout)

    def wait_delivered(self):
        self.wait("all records reached the group", lambda: len(self.numbers) >= self.work.total, STEP_SECONDS)

    def wait_left(self, members):
        for member in members:
            member.leave()
        self.wait("members left", lambda: all(member.closed for member in members), 60)
        for member in members:
            member.driver.finish(30)

    def wait_committed(self, partitions, timeout=30):
        """Until the coordinator has an offset for each of them."""
        deadline = time.monotonic() + timeout
        while any((committed := self.committed())[partition] < 0 for partition in partitions):
            if time.monotonic() > deadline:
                raise Failed(f"nothing committed within {timeout} s: {committed}")

    def commit(self, members, ends):
        """Has the members commit all they got, and sees that the coordinator has it."""
        for member in members:
            member.driver.process.stdin.write(b"commit\n")
            member.driver.process.stdin.flush()
        deadline = time.monotonic() + 30
        while (committed := self.committed()) != ends:
            if time.monotonic() > deadline:
                raise Failed(f"committed in the end: {committed}, ends {ends}")

    def committed(self):
        return wire.committed_offsets(self.bootstrap, self.name, self.topic, range(PARTITIONS))

    def state(self):
        told = [f"{member.number}: owns {sorted(member.owned)}, got {len(member.got)}{', ended' if member.closed else ''}" for member in self.members]
        errors = " ".join(member.driver.error_tail()[-300:] for member in self.members if member.closed)
        return f"{len(self.numbers)} of {self.work.total} records; members {told} {errors}"


class Scenario:
    """All checks of one client against one broker."""

    def __init__(self, client, bootstrap, report, records_a_cell=None):
        self.client, self.bootstrap, self.report = client, bootstrap, report
        self.topic = f"{client.name}-matrix"
        self.work = Work(client, self.topic)
        cells = len(client.codecs) * len(ACKS)
        self.records_a_cell = records_a_cell or -(-100_000 // cells)
        self.whole = []
        self.boundary = None

    def run(self):
        check = self.report.check
        with check("creates a topic with 6 partitions"):
            self.driver("create", self.topic, PARTITIONS)
            self.topic_has_partitions()
        self.produce_matrix()
        with check("list offsets agrees with what was sent") as note:
            note.detail = self.offsets_agree()
        with check("replay from the beginning gives every record, whole and in order") as note:
            self.whole = records(self.driver("read", self.topic, self.work.total))
            self.work.check_whole(self.whole)
            note.detail = f"{len(self.whole)} records"
        with check("stored batches are compressed as asked") as note:
            note.detail = self.batches_are_compressed()
        if self.client.default_idempotent:
            with check("G18: a producer that was asked for nothing is idempotent") as note:
                note.detail = self.idempotent_by_default()
        with check("replay from an offset") as note:
            note.detail = self.replay_from_offset()
        with check("replay from a timestamp") as note:
            note.detail = self.replay_from_timestamp()
        with check("group of three: one is killed, the others go on from the committed offset") as note:
            note.detail = self.group_of_three()
        if self.client.instance:
            with check("static member comes back without a rebalance") as note:
                note.detail = self.static_member()
        if self.client.cooperative:
            with check("cooperative assignor keeps what need not move") as note:
                note.detail = self.cooperative_group()
        self.admin()

    def driver(self, verb, *arguments, timeout=STEP_SECONDS):
        return run(self.client, self.bootstrap, verb, *arguments, timeout=timeout)

    def topic_has_partitions(self):
        """As many as asked for, each known to its leader: without that, records sent with acks=0 may go nowhere."""
        with wire.Connection(*wire.address(self.bootstrap)) as connection:
            _nodes, leaders = connection.metadata(self.topic)
        if sorted(leaders) != list(range(PARTITIONS)):
            raise Failed(f"the topic has partitions {sorted(leaders)}")
        deadline = time.monotonic() + 20
        while True:
            try:
                self.high_watermarks()
                return
            except wire.WireError:
                if time.monotonic() > deadline:
                    raise

    def produce_matrix(self):
        """Every codec with every acks, idempotent where acks=all and the client can."""
        producing = Producing(self.client, self.bootstrap, self.topic)
        try:
            for codec in self.client.codecs:
                for acks in ACKS:
                    idempotent = self.client.idempotent and acks == "all"
                    cell = self.work.add(codec, acks, idempotent, self.records_a_cell)
                    name = f"produces {codec}, acks {acks}{', idempotent' if idempotent else ''}"
                    with self.report.check(name) as note:
                        producing.cell(self.work, cell)
                        self.wait_stored()
                        note.detail = f"{cell.count} records"
                    if cell.acks == "all" and codec == self.client.codecs[len(self.client.codecs) // 2]:
                        self.mark_boundary()
            with self.report.check("producer ends cleanly"):
                producing.close()
        finally:
            producing.driver.kill()

    def mark_boundary(self):
        """A time between two cells: the later one is stamped at it or after."""
        self.boundary = (int(time.time() * 1000) + 1, self.work.total)
        while time.time() * 1000 < self.boundary[0]:
            pass

    def high_watermarks(self):
        ends = {}
        with wire.Connection(*wire.address(self.bootstrap)) as connection:
            nodes, leaders = connection.metadata(self.topic)
        for node in set(leaders.values()):
            with wire.Connection(*nodes[node]) as leader:
                for partition in (p for p, at in leaders.items() if at == node):
                    ends[partition] = leader.end_offset(self.topic, partition)
        return ends

    def wait_stored(self):
        """Until everything sent can be read: with acks=0 the client does not wait for it."""
        deadline = time.monotonic() + 20
        while (stored := sum(self.high_watermarks().values())) != self.work.total:
            if stored > self.work.total or time.monotonic() > deadline:
                raise Failed(f"{stored} records stored, {self.work.total} sent")

    def offsets_agree(self):
        told = {int(p): (int(b), int(e)) for kind, p, b, e in self.driver("offsets", self.topic) if kind == "O"}
        if sorted(told) != list(range(PARTITIONS)) or any(begin != 0 for begin, _ in told.values()):
            raise Failed(f"offsets {told}")
        if sum(end for _, end in told.values()) != self.work.total:
            raise Failed(f"ends {told} do not add up to {self.work.total}")
        return f"{self.work.total} records"

    def batches_are_compressed(self):
        """Each batch has the codec of the cell its records came from. One too small to shrink may stay plain."""
        self.expect_whole()
        codec_at = {(r.partition, r.offset): self.work.cell_of(int(r.value[:8])) for r in self.whole}
        counts = collections.Counter()
        for partition in range(PARTITIONS):
            for batch in wire.stored_batches(self.bootstrap, self.topic, partition):
                cell = codec_at[partition, batch.base]
                if batch.codec != cell.codec and (batch.codec != "none" or batch.count >= 5):
                    raise Failed(f"batch of {batch.count} records at {partition}/{batch.base} is {batch.codec}, sent as {cell.codec}")
                if cell.idempotent != (batch.producer_id >= 0):
                    raise Failed(f"batch at {partition}/{batch.base} has producer id {batch.producer_id}, cell {cell}")
                counts[batch.codec] += 1
        if set(counts) != set(self.client.codecs):
            raise Failed(f"batches by codec: {dict(counts)}")
        return f"batches by codec {dict(counts)}"

    def idempotent_by_default(self):
        """The batches sent with acks=all have a producer id, though no driver asked for it."""
        self.expect_whole()
        asked = {(r.partition, r.offset) for r in self.whole if self.work.cell_of(int(r.value[:8])).idempotent}
        found = {
            (partition, batch.base)
            for partition in range(PARTITIONS)
            for batch in wire.stored_batches(self.bootstrap, self.topic, partition)
            if batch.producer_id >= 0
        }
        if not found or not found <= asked or len({partition for partition, _ in found}) < PARTITIONS:
            raise Failed(f"{len(found)} batches with a producer id, {len(found - asked)} of them sent otherwise")
        return f"{len(found)} batches"

    def expect_whole(self):
        if len(self.whole) != self.work.total:
            raise Failed("there is no whole read to compare with")

    def replay_from_offset(self):
        self.expect_whole()
        partition = self.whole[-1].partition
        there = [record for record in self.whole if record.partition == partition]
        start = len(there) // 3
        found = records(self.driver("read", self.topic, len(there) - start, f"partition={partition}", f"offset={start}"))
        same_records(found, there[start:])
        return f"{len(found)} records of partition {partition} from {start}"

    def replay_from_timestamp(self):
        self.expect_whole()
        stamp, first = self.boundary
        wanted = [record for record in self.whole if int(record.value[:8]) >= first]
        early = [r for r in self.whole if int(r.value[:8]) < first and r.timestamp >= stamp]
        late = [r for r in wanted if r.timestamp < stamp]
        if early or late:
            raise Failed(f"records are not stamped when they were sent: {(early + late)[0]}, boundary {stamp}")
        found = records(self.driver("read", self.topic, len(wanted), f"timestamp={stamp}"))
        same_records(found, wanted)
        return f"{len(found)} records"

    def group_of_three(self):
        """
        Three members take everything there is. One is killed with records it never committed, more is produced while
        it is dead: its partitions go to the others, who start exactly at what the coordinator had as committed.
        """
        name = f"{self.client.name}-three"
        with Group(self.client, self.bootstrap, self.topic, name, self.work) as group:
            members = [group.join() for _ in range(3)]
            group.wait_spread(members)
            group.wait_delivered()
            planned = group.again
            victim, rest = members[0], members[1:]
            moving = set(victim.owned)
            group.wait_committed(moving)
            victim.kill()
            with group.news:
                for member in rest:
                    member.first_after_assign.clear()
            committed = group.committed()
            self.produce_more("none", "all", 3000)
            group.wait_spread(rest, 60)
            group.wait_delivered()
            for partition in moving:
                owner = next(member for member in rest if partition in member.owned)
                start = owner.first_after_assign.get(partition)
                if start != committed[partition]:
                    raise Failed(f"partition {partition} went on from {start}, committed was {committed[partition]}")
            replayed = group.again - planned
            group.commit(rest, self.high_watermarks())
            group.wait_left(rest)
        self.whole = []
        return f"{self.work.total} records, partitions {sorted(moving)} moved, {replayed} records came again, {planned} before the kill"

    def produce_more(self, codec, acks, count):
        producing = Producing(self.client, self.bootstrap, self.topic)
        try:
            producing.cell(self.work, self.work.add(codec, acks, False, count))
            producing.close()
        finally:
            producing.driver.kill()

    def static_member(self):
        """Killed and started again within its session time, a static member gets its partitions back, others keep theirs."""
        name = f"{self.client.name}-static"
        with Group(self.client, self.bootstrap, self.topic, name, self.work) as group:
            session = f"session={STATIC_SESSION_MS}"
            members = [group.join(session, f"instance=static-{number}") for number in range(3)]
            group.wait_spread(members)
            group.wait_delivered()
            victim, rest = members[0], members[1:]
            before = [member.rebalances for member in rest]
            had = set(victim.owned)
            victim.kill()
            back = group.join(session, "instance=static-0")
            group.wait("the static member has its partitions again", lambda: back.owned == had)
            self.produce_more("none", "1", 600)
            group.wait_delivered()
            if [member.rebalances for member in rest] != before:
                raise Failed("the other members saw a rebalance")
            group.wait_left([back, *rest])
        return f"partitions {sorted(had)} kept"

    def cooperative_group(self):
        """A third member joins two: only what it is given moves, and everybody's other partitions stay."""
        name = f"{self.client.name}-cooperative"
        option = f"assignor={self.client.cooperative}"
        with Group(self.client, self.bootstrap, self.topic, name, self.work) as group:
            first = [group.join(option) for _ in range(2)]
            group.wait_spread(first)
            group.wait_delivered()
            with group.news:
                for member in first:
                    member.revoked.clear()
            third = group.join(option)
            group.wait_spread([*first, third])
            for member in first:
                if moved := member.revoked & member.owned:
                    raise Failed(f"member {member.number} had to give up partitions it keeps: {sorted(moved)}")
            took = sorted(third.owned)
            self.produce_more("none", "1", 600)
            group.wait_delivered()
            group.wait_left([*first, third])
        return f"third member took {took}"

    def admin(self):
        try:
            lines = self.driver("admin", f"{self.client.name}-admin")
        except Exception as error:
            self.report.fail("admin calls", str(error))
            return
        for kind, name, *detail in lines:
            (self.report.ok if kind == "ok" else self.report.fail)(f"admin: {name}", " ".join(detail))
        if not lines:
            self.report.fail("admin calls", "none were made")


def same_records(found, wanted):
    """Equal, partition by partition and in order."""
    def by_partition(some):
        split = collections.defaultdict(list)
        for record in some:
            split[record.partition].append(record)
        return split
    got, want = by_partition(found), by_partition(wanted)
    for partition in sorted(set(got) | set(want)):
        if got[partition] != want[partition]:
            for seen, due in zip(got[partition], want[partition]):
                if seen != due:
                    raise Failed(f"{seen} instead of {due}")
            raise Failed(f"{len(got[partition])} records of partition {partition} instead of {len(want[partition])}")


def main(client):
    """The scenario of a client, on each target, or on a broker given as an argument."""
    size = 100_000 if FULL else None  # in each cell of the matrix; otherwise in all of it
    if len(sys.argv) > 1:
        report = Report()
        Scenario(client, sys.argv[1], report, size).run()
        report.close()
    on_targets(lambda server, report: Scenario(client, server.bootstrap, report, size).run())
