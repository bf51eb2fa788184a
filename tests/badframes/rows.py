"""Bad input, row by row: each row yields (case, failure or None).

Outcomes are "closed" (this connection only), an error code, or both where the protocol leaves the choice.
"""

import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kafka"))
import bombs  # noqa: E402
import records  # noqa: E402
import wire  # noqa: E402
from records import batch, unsigned, varint  # noqa: E402
from watch import produce  # noqa: E402
from wire import array, string  # noqa: E402

# Error codes
OK, OFFSET_OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, TOO_LARGE, BAD_TOPIC, BAD_ACKS = 0, 1, 2, 3, 10, 17, 21
WRONG_GENERATION, UNKNOWN_MEMBER, BAD_SESSION, BAD_TIMESTAMP, UNSUPPORTED = 22, 25, 26, 32, 35
EXISTS, BAD_PARTITIONS, BAD_REQUEST, UNSUPPORTED_FORMAT, POLICY, OUT_OF_ORDER = 36, 37, 42, 43, 44, 45
OLD_EPOCH, FETCH_SESSION, FETCH_EPOCH, BAD_COMPRESSION, MEMBER_ID, GROUP_FULL, BAD_RECORD = 47, 70, 71, 76, 79, 81, 87
FENCED, CLUSTER_AUTH, INCONSISTENT, BAD_GROUP, STORAGE_FULL = 90, 31, 23, 24, 84

CLOSED, SILENT = "closed", "silent"
REFUSED = {CLOSED, BAD_REQUEST}
ANSWER_SECONDS = 10
DEADLINE_SECONDS = 45
MANY = 2_000
REQUEST_BYTES_MAX = 104_857_600
API_VERSIONS = b"\0\x12\0\0\0\0\0\x05\xff\xff"


class Raw:
    """A connection that sends any bytes."""

    def __init__(self, place, timeout=ANSWER_SECONDS):
        self.socket = socket.create_connection(place, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # the answer tells
        return self

    def answer(self):
        """The next frame, CLOSED or SILENT."""
        data = b""
        try:
            while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                part = self.socket.recv(1 << 20)
                if not part:
                    return CLOSED
                data += part
        except socket.timeout:
            return SILENT
        except OSError:
            return CLOSED
        return data[4:]

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def framed(api_key, version, body, flexible=False):
    head = struct.pack(">hhi", api_key, version, 9) + string("bad") + (b"\0" if flexible else b"")
    return struct.pack(">i", len(head) + len(body)) + head + body


class Row:
    """One row: where to send it and how to say what came back."""

    def __init__(self, instance, victim, spill, size):
        self.place = wire.address(instance.bootstrap)
        self.instance, self.victim, self.spill, self.size = instance, victim, spill, size

    def connect(self, timeout=ANSWER_SECONDS):
        return Raw(self.place, timeout)

    def ask(self, data):
        with self.connect() as raw:
            return raw.send(data).answer()

    def closes(self, name, data, seconds=5):
        """Closes within so many seconds."""
        start = time.monotonic()
        with self.connect(seconds) as raw:
            got = raw.send(data).answer()
        return name, None if got == CLOSED else f"{shown(got)} after {time.monotonic() - start:.1f} s, not closed"

    def refused(self, name, data, code_at=None, allowed=REFUSED):
        """Closed, or the error code at that place of the answer is one of the allowed."""
        got = self.ask(data)
        if got not in (CLOSED, SILENT) and code_at is not None and len(got) >= code_at + 2:
            got = struct.unpack_from(">h", got, code_at)[0]
        return name, None if got in allowed else f"{shown(got)}, wanted one of {sorted(map(str, allowed))}"

    def harmless(self, name, data):
        """Closed or answered, but not left without an answer."""
        got = self.ask(data)
        return name, "no answer" if got == SILENT else None

    def leader(self, topic):
        with wire.Connection(*self.place, timeout=30) as seed:
            nodes, leaders = seed.metadata(topic)
        return wire.Connection(*nodes[leaders[0]], timeout=30)

    def produced(self, name, data, allowed, topic=None, **more):
        """The outcome of one Produce."""
        with self.leader(topic or self.victim) as connection:
            try:
                got = produce(connection, topic or self.victim, 0, data, **more)[0]
            except (OSError, wire.WireError):
                got = CLOSED
        return name, None if got in allowed else f"{shown(got)}, wanted one of {sorted(map(str, allowed))}"


def shown(got):
    return f"an answer of {len(got)} bytes" if isinstance(got, bytes) else f"error {got}" if isinstance(got, int) else got


ROWS = []


def row(number, what, **limits):
    def add(function):
        ROWS.append((number, what, function, limits))
        return function

    return add


@row("1-4", "G9: frame lengths -1, 0, 2^31-1, max+1")
def lengths(r):
    for size in (-1, 0, (1 << 31) - 1, REQUEST_BYTES_MAX + 1, -(1 << 31)):
        yield r.closes(f"length {size}", struct.pack(">i", size))
        yield r.closes(f"length {size} and bytes", struct.pack(">i", size) + bytes(100))
    for size in range(1, 8):
        yield r.closes(f"length {size}", struct.pack(">i", size) + bytes(size))


def claims(r):
    """Connections that say 100 MiB and send one byte."""
    held = []
    for _ in range(r.size):
        try:
            held.append(r.connect().send(struct.pack(">i", REQUEST_BYTES_MAX) + b"\0"))
        except OSError:
            break  # a limit on connections is a right answer as well
    return held


def still_open(held, seconds):
    """How many are not closed by the broker in that time."""
    deadline = time.monotonic() + seconds
    for raw in held:
        raw.socket.setblocking(False)
    while held and time.monotonic() < deadline:
        left = []
        for raw in held:
            try:
                if raw.socket.recv(1 << 16):
                    left.append(raw)
                else:
                    raw.socket.close()
            except BlockingIOError:
                left.append(raw)
            except OSError:
                raw.socket.close()
        held = left
        time.sleep(0.2)
    for raw in held:
        raw.socket.close()
    return len(held)


@row("5-7", "100 MiB claimed by many, headers cut and then silence, a byte a second", memory_growth_max=(MANY * 16 << 10) + (64 << 20))
def unfinished(r):
    held = claims(r)
    claimed = len(held)
    request = framed(3, 1, array([string("x")]))
    cut = [r.connect().send(request[:size]) for size in range(len(request))]
    slow = [r.connect() for _ in range(20)]
    start = time.monotonic()
    for at in range(4, 4 + DEADLINE_SECONDS):
        for raw in slow:
            raw.send(request[at - 4 : at] if at == 4 else request[at : at + 1])
        time.sleep(max(0, start + at - 3 - time.monotonic()))
        if at % 5 == 4:
            yield "memory is looked at", None
        if all_closed(slow) and all_closed(held) and all_closed(cut[1:]):
            break
    for name, which in (("a byte a second", slow), ("cut headers", cut[1:]), (f"{claimed} claims", held)):
        open_still = still_open(which, 3)
        yield name, f"{open_still} not closed after {time.monotonic() - start:.0f} s" if open_still else None
    cut[0].socket.close()


def all_closed(held):
    for raw in held:
        try:
            raw.socket.setblocking(False)
            if raw.socket.recv(1, socket.MSG_PEEK):
                return False
        except BlockingIOError:
            return False
        except OSError:
            continue
    return True


@row("6", "a request cut at each byte, then FIN or RST")
def cut_and_gone(r):
    request = framed(3, 1, array([string("some-topic")]))
    for size in range(len(request)):
        with r.connect() as raw:
            raw.send(request[:size]).socket.shutdown(socket.SHUT_WR)
            got = raw.answer()
        yield f"{size} bytes and FIN", None if got == CLOSED else shown(got)
        r.connect().send(request[:size]).reset()
    for size in (100, 70_000):
        whole = framed(0, 7, string(None) + struct.pack(">hi", -1, 1000) + array([string(r.victim) + array([struct.pack(">ii", 0, size) + bytes(size)])]))
        for part in (60, 100, len(whole) - 1):
            r.connect().send(whole[:part]).reset()
            with r.connect() as raw:
                raw.send(whole[:part]).socket.shutdown(socket.SHUT_WR)
                got = raw.answer()
            yield f"{part} of {len(whole)} bytes and FIN", None if got == CLOSED else shown(got)


@row("7", "readers that do not read their answers")
def slow_readers(r):
    body = struct.pack(">iiiib", -1, 100, 1, 57_671_680, 0)
    body += array([string(r.victim) + array([struct.pack(">iqi", 0, 0, 57_671_680)])])
    held = [r.connect() for _ in range(30)]
    for raw in held:
        raw.socket.setblocking(False)
        try:
            raw.socket.send(framed(1, 4, body) * 200)
        except BlockingIOError:
            pass
    for _ in range(10):
        time.sleep(0.2)
        yield "memory is looked at", None
    for raw in held:
        raw.reset()


@row("8", "unknown api keys and versions")
def unknown_apis(r):
    for key in (-1, 4, 5, 6, 7, 52, 999, 32767, -32768):
        yield r.closes(f"api key {key}", framed(key, 0, b""))
    for key in (0, 1, 2, 3, 8, 9, 10, 11, 19, 22):
        for version in (-1, 32767, -32768):
            yield r.closes(f"api key {key} version {version}", framed(key, version, bytes(20)))
    for version in (6, 100, 32767):
        got = r.ask(framed(18, version, b"\1\2\3\4"))
        good = isinstance(got, bytes) and struct.unpack_from(">h", got, 4)[0] == UNSUPPORTED and len(got) >= 4 + 2 + 4 + 6
        yield f"ApiVersions {version}", None if good else shown(got)


@row("9", "other protocols")
def other_protocols(r):
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(200)
    for name, data in (
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("TLS", hello),
        ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("Redis", b"*1\r\n$4\r\nPING\r\n"),
        ("SMTP", b"EHLO x\r\n"),
    ):
        yield r.closes(name, data, seconds=1)


# (api key, version, flexible, body up to a count) for each place where a count or length stands.
def counted():
    yield "Metadata topics", 3, 1, False, b""
    yield "Metadata topics, flexible", 3, 12, True, b""
    yield "Produce topics", 0, 7, False, string(None) + struct.pack(">hi", -1, 1000)
    yield "Produce partitions", 0, 7, False, string(None) + struct.pack(">hii", -1, 1000, 1) + string("x")
    yield "Produce topics, flexible", 0, 9, True, b"\0" + struct.pack(">hi", -1, 1000)
    yield "Produce partitions, flexible", 0, 9, True, b"\0" + struct.pack(">hi", -1, 1000) + b"\2\2x"
    yield "Produce records, flexible", 0, 9, True, b"\0" + struct.pack(">hi", -1, 1000) + b"\2\2x\2" + struct.pack(">i", 0)
    yield "Fetch topics", 1, 4, False, struct.pack(">iiiib", -1, 0, 0, 1000, 0)
    yield "Fetch partitions", 1, 4, False, struct.pack(">iiiibi", -1, 0, 0, 1000, 0, 1) + string("x")
    yield "Fetch topics, flexible", 1, 12, True, struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1)
    yield "ListOffsets topics", 2, 1, False, struct.pack(">i", -1)
    yield "JoinGroup protocols", 11, 2, False, string("g") + struct.pack(">ii", 10000, 10000) + string("") + string("consumer")
    yield "JoinGroup protocols, flexible", 11, 7, True, b"\2g" + struct.pack(">ii", 10000, 10000) + b"\1\0\2c"
    yield "OffsetCommit topics", 8, 2, False, string("g") + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    yield "OffsetFetch groups", 9, 8, True, b""
    yield "CreateTopics topics", 19, 5, True, b""
    yield "CreateTopics assignments", 19, 2, False, struct.pack(">i", 1) + string("x") + struct.pack(">ih", 1, 1)
    yield "DescribeGroups groups", 15, 0, False, b""
    yield "FindCoordinator keys", 10, 4, True, b"\0"
    yield "DescribeConfigs resources", 32, 1, False, b""


COUNTS = [struct.pack(">i", n) for n in ((1 << 31) - 1, -2, -(1 << 31), 1 << 24, 1 << 20)]
COMPACT_COUNTS = [unsigned(n) for n in ((1 << 32) - 1, (1 << 31) - 1, 1 << 31, 1 << 24, 1 << 20)]


@row("10", "counts and lengths that are not there")
def counts(r):
    for name, key, version, flexible, body in counted():
        for count in COMPACT_COUNTS if flexible else COUNTS:
            yield r.refused(f"{name} {count.hex()}", framed(key, version, body + count, flexible))
            yield r.refused(f"{name} {count.hex()} and bytes", framed(key, version, body + count + bytes(64), flexible))
    for size in (32767, -2, -32768, 300):
        length = struct.pack(">h", size)
        yield r.refused(f"client id of {size}", struct.pack(">i", 12) + struct.pack(">hhi", 3, 1, 9) + length + b"ab")
        yield r.refused(f"topic name of {size}", framed(3, 1, struct.pack(">i", 1) + length + b"x"))
        yield r.refused(f"group of {size}", framed(12, 0, length + b"x"))
    for size in ((1 << 31) - 1, -2, 1 << 20):
        body = string(None) + struct.pack(">hii", -1, 1000, 1) + string(r.victim) + struct.pack(">iii", 1, 0, size)
        yield r.refused(f"records of {size}", framed(0, 7, body + bytes(100)))


@row("11", "varints too long, not minimal, above 32 bits")
def varints(r):
    for name, bad in (
        ("11 bytes", b"\x80" * 10 + b"\1"),
        ("5 bytes above 32 bits", b"\xff\xff\xff\xff\x7f"),
        ("6 bytes", b"\xff\xff\xff\xff\xff\1"),
        ("without end", b"\xff" * 40),
    ):
        for what, key, version, flexible, body in counted():
            if flexible:
                yield r.refused(f"{what}: {name}", framed(key, version, body + bad, True))
        yield r.refused(f"header tags: {name}", framed(3, 12, bad))
    yield r.harmless("not minimal", framed(3, 12, b"\x81\0\0\0\0\0", True))


@row("12", "tagged fields: huge, twice, a million")
def tags(r):
    body = b"\1\0\0"  # Metadata v12: no topics
    for name, tagged in (
        ("size 2^31", unsigned(1) + unsigned(5) + unsigned(1 << 31)),
        ("size past the end", unsigned(1) + unsigned(5) + unsigned(100) + b"xx"),
        ("size 2^64", unsigned(1) + unsigned(5) + b"\xff" * 9 + b"\1"),
        ("count 2^32-1", unsigned((1 << 32) - 1)),
        ("count 2^31", unsigned(1 << 31) + b"\0\0" * 20),
    ):
        yield r.refused(name, framed(3, 12, body + tagged, True))
        yield r.refused(f"{name} in the header", framed(3, 12, tagged + body))
    yield r.harmless("twice", framed(3, 12, body + unsigned(2) + (unsigned(5) + unsigned(1) + b"x") * 2, True))
    million = unsigned(1_000_000) + b"".join(unsigned(tag) + b"\0" for tag in range(1_000_000))
    start = time.monotonic()
    yield r.harmless("a million", framed(3, 12, body + million, True))
    took = time.monotonic() - start
    yield "a million in linear time", f"took {took:.1f} s" if took > 5 else None


@row("13", "bytes behind the last field")
def leftovers(r):
    for name, key, version, flexible, body in (
        ("Metadata", 3, 1, False, array([])),
        ("Metadata, flexible", 3, 12, True, b"\1\0\0\0"),
        ("Heartbeat", 12, 0, False, string("g") + struct.pack(">i", 1) + string("m")),
        ("FindCoordinator", 10, 1, False, string("g") + b"\0"),
        ("ListOffsets", 2, 1, False, struct.pack(">i", -1) + array([])),
    ):
        for extra in (b"\0", b"\0" * 1000, b"\xff"):
            yield r.refused(f"{name} and {len(extra)}", framed(key, version, body + extra, flexible))


@row("14", "topic names")
def names(r):
    parent = r.instance.data.parent
    before = files_outside(parent, r.instance.data)
    stem = f"n{time.monotonic_ns()}"
    for name in (".", "..", "", "../x", "a/b", "a\0b", "x" * 250, "a b", "ä", "a:b", "a\\b", "/etc/passwd", "a\nb"):
        yield name[:20], wrong(create(r, name), {BAD_TOPIC})
    for raw in (b"\xff\xfe", b"a\xc0\x80", b"\xed\xa0\x80"):
        body = struct.pack(">i", 1) + struct.pack(">h", len(raw)) + raw + struct.pack(">ih", 1, 1) + array([]) + array([]) + struct.pack(">ib", 5000, 0)
        got = r.ask(framed(19, 2, body))
        yield f"not UTF-8 {raw.hex()}", None if got == CLOSED or isinstance(got, bytes) and struct.pack(">h", BAD_TOPIC) in got else shown(got)
    yield "a.b", wrong(create(r, f"{stem}.b"), {OK})
    yield "a_b after a.b", wrong(create(r, f"{stem}_b"), {BAD_TOPIC})
    for name in ("..", "a/b", ""):
        with wire.Connection(*r.place, timeout=30) as connection:
            try:
                got = produce(connection, name, 0, batch())[0]
            except (OSError, wire.WireError):
                got = CLOSED
        yield f"produce to {name!r}", wrong(got, {CLOSED, BAD_TOPIC, UNKNOWN_TOPIC})
    after = files_outside(parent, r.instance.data)
    yield "no file outside the data folder", None if before == after else f"{after - before}"


def create(r, name, partitions=1, count=1, seconds=30):
    """The error code of the first topic, CreateTopics v2."""
    spec = string(name) + struct.pack(">ih", partitions, 1) + array([]) + array([])
    try:
        with wire.Connection(*r.place, timeout=seconds) as connection:
            answer = connection.ask(19, 2, array([spec] * count) + struct.pack(">ib", 10_000, 0))
    except (OSError, wire.WireError):
        return CLOSED
    answer.number("i"), answer.number("i"), answer.string()
    return answer.number("h")


def wrong(got, allowed):
    return None if got in allowed else f"{shown(got)}, wanted one of {sorted(map(str, allowed))}"


def files_outside(parent, data):
    return {str(path) for path in parent.iterdir() if path != data}


@row("15", "too many topics and partitions, the same twice")
def too_many(r):
    stem = f"m{time.monotonic_ns()}"
    with wire.Connection(*r.place, timeout=60) as connection:
        start = time.monotonic()
        try:
            # Metadata v4, no creation: v1 would make them.
            answer = connection.ask(3, 4, array([string(f"{stem}-{i}") for i in range(100_000)]) + b"\0")
            told = len(answer.data)
        except (OSError, wire.WireError):
            told = 0
        yield "100,000 topics in Metadata", f"took {time.monotonic() - start:.0f} s ({told} bytes)" if time.monotonic() - start > 20 else None
    yield "100,000 partitions", wrong(create(r, f"{stem}-p", partitions=100_000, seconds=60), {BAD_PARTITIONS, POLICY, BAD_REQUEST})
    yield "2^31-1 partitions", wrong(create(r, f"{stem}-q", partitions=(1 << 31) - 1, seconds=60), {BAD_PARTITIONS, POLICY, BAD_REQUEST})
    yield "the same twice", wrong(create(r, f"{stem}-t", count=2), {BAD_REQUEST})


@row("16", "a wrong checksum")
def checksum(r):
    yield r.produced("wrong crc", batch(crc=False), {CORRUPT})
    yield r.produced("wrong crc, compressed", batch(attributes=1, body=bombs.gzip(records.record(0, b"v")), crc=False), {CORRUPT})
    yield r.produced("wrong crc, 500 KiB", batch(body=records.record(0, bytes(500 << 10)), crc=False), {CORRUPT})


BROKEN = {CORRUPT, BAD_RECORD}


@row("17", "batch headers that do not fit their batch")
def headers(r):
    two = [b"a", b"b"]
    true = len(batch(two)) - 12
    for length in (0, -1, 10, 48, 49, true - 1, true + 1, 1 << 20, (1 << 31) - 1, -(1 << 31)):
        yield r.produced(f"length {length}", batch(two, length=length), BROKEN | {CLOSED, TOO_LARGE})
    for count in ((1 << 31) - 1, -1, 0, 1, 3, -(1 << 31)):
        yield r.produced(f"count {count}", batch(two, count=count), BROKEN)
        yield r.produced(f"count {count} and last delta", batch(two, count=count, last_delta=max(count - 1, -(1 << 31))), BROKEN)
    for delta in (0, 2, -1, (1 << 31) - 1, -(1 << 31)):
        yield r.produced(f"last delta {delta}", batch(two, last_delta=delta), BROKEN)
    for name, deltas in (("backwards", (1, 0)), ("twice", (0, 0)), ("a gap", (0, 2)), ("negative", (-1, 0))):
        yield r.produced(f"deltas {name}", batch(two, body=b"".join(records.record(d, b"v") for d in deltas)), BROKEN)
    yield r.produced("half a header", batch(two)[:40], BROKEN)
    yield r.produced("no byte", b"", BROKEN)


@row("18", "old and unknown formats, two batches, control and transaction bits")
def formats(r):
    refused = BROKEN | {UNSUPPORTED_FORMAT}
    for magic in (0, 1, 3, 127, -1):
        yield r.produced(f"magic {magic}", batch(magic=magic), refused)
    yield r.produced("two batches", batch() + batch(), refused)
    yield r.produced("a batch and a byte", batch() + b"\0", refused)
    yield r.produced("control", batch(attributes=0x20), refused)
    yield r.produced("control and transaction", batch(attributes=0x30), refused)
    yield r.produced("transaction without producer", batch(attributes=0x10), refused | {48, 51, 53, 90})


@row("19", "records that leave their batch")
def inner(r):
    for name, body in (
        ("length past the end", varint(1000) + bytes(20)),
        ("length negative", varint(-5) + bytes(20)),
        ("length 2^31", varint(1 << 31) + bytes(20)),
        ("length in 11 bytes", b"\xff" * 10 + b"\1" + bytes(20)),
        ("key past the end", varint(8) + b"\0\0\0" + varint(1000) + b"xxx"),
        ("key -2", varint(6) + b"\0\0\0" + varint(-2) + varint(0) + b"\0"),
        ("value past the end", varint(8) + b"\0\0\0" + varint(-1) + varint(1000) + b"xx"),
        ("a million headers, none there", varint(9) + b"\0\0\0" + varint(-1) + varint(0) + varint(1_000_000)),
        ("-1 headers", varint(6) + b"\0\0\0" + varint(-1) + varint(0) + varint(-1)),
        ("header key null", records.record(0, b"v", headers=varint(1) + varint(-1) + varint(0))),
        ("header past the end", records.record(0, b"v", headers=varint(1) + varint(50) + b"x")),
        ("bytes left in the record", records.record(0, b"v", headers=b"\0\0\0")),
        ("bytes left in the batch", records.record(0, b"v") + b"\0"),
    ):
        yield r.produced(name, batch(body=body), BROKEN)
        yield r.produced(f"{name}, in gzip", batch(body=bombs.gzip(body), attributes=1), BROKEN)
    many = records.record(0, b"v", headers=varint(100_000) + (varint(0) + varint(-1)) * 100_000)
    yield r.produced("100,000 headers", batch(body=many), {OK} | BROKEN, topic=r.spill)


@row("20", "timestamps at the ends")
def timestamps(r):
    far = 4_000_000_000_000
    for name, stamp in (("min", -(1 << 63)), ("max", (1 << 63) - 1), ("-2", -2), ("far future", far)):
        yield r.produced(name, batch(timestamp=stamp), {OK, BAD_TIMESTAMP} | BROKEN, topic=r.spill)
        yield r.produced(f"{name} as the largest", batch(max_timestamp=stamp), {OK, BAD_TIMESTAMP} | BROKEN, topic=r.spill)
    overflow = records.record(0, b"v", timestamp_delta=(1 << 62))
    yield r.produced("delta that overflows", batch(timestamp=(1 << 63) - 5, body=overflow), {OK, BAD_TIMESTAMP} | BROKEN, topic=r.spill)
    with r.leader(r.spill) as connection:
        body = struct.pack(">i", -1) + array([string(r.spill) + array([struct.pack(">iq", 0, -2)])])
        answer = connection.ask(2, 1, body)
        answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        code, _stamp, first = answer.number("h"), answer.number("q"), answer.number("q")
    yield "nothing is deleted", None if (code, first) == (0, 0) else f"error {code}, the log starts at {first}"


@row("21", "compressed batches that unfold too far, or lie")
def unfolding(r):
    refused = BROKEN | {TOO_LARGE, BAD_COMPRESSION}
    for name, codec, body in (
        ("gzip 200 MiB", bombs.GZIP, bombs.gzip_bomb(200 << 20)),
        ("gzip 900 MiB", bombs.GZIP, bombs.gzip_bomb(900 << 20)),
        ("zstd 1 GiB", bombs.ZSTD, bombs.zstd_bomb(1 << 30)),
        ("zstd 20 GiB", bombs.ZSTD, bombs.zstd_bomb(20 << 30)),
        ("zstd window 2 GiB", bombs.ZSTD, bombs.zstd([(1, 128 << 10, b"\0")] * 8, window_log=31)),
        ("zstd window 1 GiB and 1 GiB", bombs.ZSTD, bombs.zstd([(1, 128 << 10, b"\0")] * 8192, window_log=30)),
        ("zstd says 16 EiB", bombs.ZSTD, bombs.zstd([(1, 100, b"\0")], content=(1 << 64) - 1)),
        ("lz4 200 MiB", bombs.LZ4, bombs.lz4_bomb(200 << 20)),
        ("snappy says 4 GiB", bombs.SNAPPY, bombs.snappy_declared((1 << 32) - 1)),
        ("snappy says 2 GiB", bombs.SNAPPY, bombs.snappy_declared((1 << 31) - 1, bytes(100))),
        ("snappy chunks of 1 GiB said", bombs.SNAPPY, bombs.xerial(*[bombs.snappy_declared(1 << 30)] * 1000)),
        ("snappy chunk past the end", bombs.SNAPPY, bombs.xerial(b"")[:-4] + struct.pack(">i", 1 << 30) + b"x"),
        ("snappy chunk -1", bombs.SNAPPY, bombs.xerial(b"")[:-4] + struct.pack(">i", -1)),
        ("gzip cut", bombs.GZIP, bombs.gzip(records.record(0, b"v"))[:-9]),
        ("gzip of nothing", bombs.GZIP, bombs.gzip(b"")),
        ("gzip in gzip", bombs.GZIP, bombs.gzip(bombs.gzip(records.record(0, b"v")))),
        ("zstd cut", bombs.ZSTD, bombs.zstd([(1, 1000, b"\0")])[:-1]),
        ("not compressed", bombs.ZSTD, records.record(0, b"v")),
        ("not compressed", bombs.LZ4, records.record(0, b"v")),
        ("not compressed", bombs.GZIP, records.record(0, b"v")),
    ):
        yield r.produced(f"{name} ({codec})", batch(attributes=codec, body=body), refused)
    one = records.record(0, b"v")
    for name, codec, body in (
        ("snappy 20 MiB", bombs.SNAPPY, bombs.snappy_bomb(20 << 20)),
        ("lz4 without an end", bombs.LZ4, bombs.lz4_frame([(True, one)], end=False)),
        ("lz4 and bytes", bombs.LZ4, bombs.lz4_frame([(True, one)]) + b"junk"),
        ("gzip and bytes", bombs.GZIP, bombs.gzip(one) + b"junk"),
        ("zstd and bytes", bombs.ZSTD, bombs.zstd([(0, len(one), one)]) + b"junk"),
    ):
        yield r.produced(name, batch(attributes=codec, body=body), refused | {OK}, topic=r.spill)


@row("22", "compression 5, 6, 7")
def compression(r):
    for codec in (5, 6, 7):
        yield r.produced(f"compression {codec}", batch(attributes=codec), BROKEN | {BAD_COMPRESSION})


@row("23", "a batch one byte too large, an empty batch")
def sizes(r):
    for over in (1, 1000, 4 << 20):
        limit = 1_048_588
        value = bytes(limit - 61 - 20)
        fill = limit + over - len(batch([value]))
        yield r.produced(f"{over} too large", batch([value + bytes(fill)]), {TOO_LARGE})
    yield r.produced("no record", batch([]), BROKEN)
    yield r.produced("no record, count 0, last delta 0", batch([], last_delta=0), BROKEN)


@row("24", "producer ids: again, a gap, an old epoch, wrap, very many")
def producers(r):
    base = time.monotonic_ns() % (1 << 40)
    for name, identity, epoch, sequence, count, allowed in (
        ("first", 1, 1, 0, 2, {OK}),
        ("again", 1, 1, 0, 2, {OK}),
        ("a gap", 1, 1, 5, 1, {OUT_OF_ORDER}),
        ("an old epoch", 1, 0, 2, 1, {OLD_EPOCH, FENCED}),
        ("a new epoch not at 0", 1, 2, 5, 1, {OUT_OF_ORDER}),
        ("negative sequence", 1, 1, -5, 1, BROKEN | {OUT_OF_ORDER}),
        ("at the end", 2, 0, (1 << 31) - 1, 1, {OK}),
        ("wraps to 0", 2, 0, 0, 1, {OK}),
    ):
        data = batch([b"v"] * count, producer_id=base + identity, epoch=epoch, sequence=sequence)
        yield r.produced(name, data, allowed, topic=r.spill)
    with r.leader(r.spill) as connection:
        for start in range(0, 10 * r.size, 50):
            for i in range(start, start + 50):
                data = batch(producer_id=base + 100 + i, epoch=0, sequence=0)
                body = string(None) + struct.pack(">hi", 1, 1000)
                body += array([string(r.spill) + array([struct.pack(">ii", 0, len(data)) + data])])
                connection.send(0, 7, body)
            for _ in range(50):
                connection.receive()
            if start % 1000 == 0:
                yield "very many producers", None


@row("25", "acks and timeouts")
def acks(r):
    for number in (2, -2, 32767, -32768):
        yield r.produced(f"acks {number}", batch(), {BAD_ACKS}, acks=number)
    for number in (-1, -(1 << 31), (1 << 31) - 1, 0):
        yield r.produced(f"timeout {number}", batch(), {OK, 7}, topic=r.spill, timeout_ms=number)


def fetch(r, topic, partition=0, offset=0, replica=-1, wait=0, least=0, most=1 << 20, session=(0, -1), partition_most=1 << 20, seconds=10):
    """(error code of the request, error code of the partition, bytes) of Fetch v7, or CLOSED."""
    body = struct.pack(">iiiibii", replica, wait, least, most, 0, *session)
    body += array([string(topic) + array([struct.pack(">iqqi", partition, offset, -1, partition_most)])]) + array([])
    try:
        with wire.Connection(*r.place, timeout=seconds) as connection:
            answer = connection.ask(1, 7, body)
    except (OSError, wire.WireError):
        return CLOSED
    answer.number("i")
    top = answer.number("h")
    answer.number("i")
    if answer.number("i") == 0:
        return top, None, len(answer.data)
    answer.string(), answer.number("i"), answer.number("i")
    return top, answer.number("h"), len(answer.data)


@row("26", "fetch: offsets, limits, sessions, replicas")
def fetches(r):
    for offset in (-5, -1, 1 << 40, (1 << 63) - 1, -(1 << 63)):
        got = fetch(r, r.victim, offset=offset)
        yield f"offset {offset}", None if got != CLOSED and got[1] == OFFSET_OUT_OF_RANGE else str(got)
    for most in (0, -1, (1 << 31) - 1, -(1 << 31)):
        got = fetch(r, r.victim, most=most, partition_most=most)
        yield f"max bytes {most}", None if got != CLOSED and got[1] == OK and got[2] < 60 << 20 else str(got)
    got = fetch(r, r.victim, least=-1, wait=-1)
    yield "min bytes -1, wait -1", None if got != CLOSED and got[1] == OK else str(got)
    held = [r.connect() for _ in range(200)]
    for raw in held:
        body = struct.pack(">iiiib", -1, (1 << 31) - 1, (1 << 31) - 1, 1 << 20, 0)
        raw.send(framed(1, 4, body + array([string(r.victim) + array([struct.pack(">iqi", 0, 0, 1 << 20)])])))
    for raw in held:
        raw.reset()
    yield "200 long polls, then gone", None
    got = fetch(r, r.victim, session=(12345, 7))
    yield "a session that is not there", None if got != CLOSED and got[0] in (OK, FETCH_SESSION, FETCH_EPOCH) else str(got)
    got = fetch(r, r.victim, session=(0, 7))
    yield "an epoch without a session", None if got != CLOSED and got[0] in (OK, FETCH_SESSION, FETCH_EPOCH) else str(got)
    got = fetch(r, r.victim, replica=5)
    yield "as replica 5", None if got == CLOSED or CLUSTER_AUTH in got[:2] or got[1] not in (OK, None) else str(got)
    for partition in (-1, 7, (1 << 31) - 1):
        got = fetch(r, r.victim, partition=partition)
        yield f"partition {partition}", None if got != CLOSED and got[1] == UNKNOWN_TOPIC else str(got)


@row("27", "requests without reading the answers")
def pipelined(r):
    count = 50 * r.size
    with r.connect(60) as raw:
        request = struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS
        ids = [struct.pack(">i", i % 1000) for i in range(count)]
        out = b"".join(request[:8] + i + request[12:] for i in ids)
        raw.socket.setblocking(False)
        sent, idle = 0, time.monotonic()
        while sent < len(out) and time.monotonic() - idle < 1:
            try:
                sent += raw.socket.send(out[sent : sent + (1 << 20)])
                idle = time.monotonic()
            except BlockingIOError:
                time.sleep(0.05)
                yield "memory is looked at", None
        whole, data, at, wrong_order = sent // len(request), b"", 0, 0
        raw.socket.settimeout(30)
        while at < whole:
            try:
                part = raw.socket.recv(1 << 20)
            except OSError as error:
                part = None
                yield "answers in order", f"{at} of {whole} answers, then {error}"
                return
            if not part:
                yield "answers in order", f"{at} of {whole} answers, then closed"
                return
            data += part
            start = 0
            while len(data) - start >= 8 and len(data) - start >= 4 + struct.unpack_from(">i", data, start)[0]:
                wrong_order += data[start + 4 : start + 8] != ids[at]
                at += 1
                start += 4 + struct.unpack_from(">i", data, start)[0]
            data = data[start:]
    yield "answers in order", f"{wrong_order} answers out of order" if wrong_order else None


def join(group, session=10_000, member="", instance=None, metadata=b"m", protocol="consumer"):
    """The frame of JoinGroup v5."""
    body = string(group) + struct.pack(">ii", session, 10_000) + string(member) + string(instance) + string(protocol)
    return body + array([string("range") + struct.pack(">i", len(metadata)) + metadata])


@row("28", "groups: many members, large metadata, bad sessions, strangers")
def groups(r):
    group = f"g{time.monotonic_ns()}"
    with wire.Connection(*r.place, timeout=30) as seed:
        deadline = time.monotonic() + 30
        code, place = seed.coordinator(group)
        while code != OK and time.monotonic() < deadline:
            time.sleep(0.1)
            code, place = seed.coordinator(group)
    with wire.Connection(*place, timeout=30) as connection:
        for session in (0, -1, 5_999, 1_800_001, (1 << 31) - 1):
            answer = connection.ask(11, 5, join(group, session=session))
            answer.number("i")
            yield f"session timeout {session}", wrong(answer.number("h"), {BAD_SESSION})
        answer = connection.ask(11, 5, join(group, member="stranger"))
        answer.number("i")
        yield "an unknown member", wrong(answer.number("h"), {UNKNOWN_MEMBER})
        answer = connection.ask(11, 5, join("", member=""))
        answer.number("i")
        yield "a group without a name", wrong(answer.number("h"), {BAD_GROUP})
        answer = connection.ask(12, 0, string(group) + struct.pack(">i", 5) + string("stranger"))
        yield "a stranger's heartbeat", wrong(answer.number("h"), {UNKNOWN_MEMBER})
        body = string(group) + struct.pack(">i", 5) + string("stranger") + struct.pack(">q", -1)
        answer = connection.ask(8, 2, body + array([string(r.victim) + array([struct.pack(">iq", 0, 5) + string("")])]))
        answer.number("i"), answer.string(), answer.number("i"), answer.number("i")
        yield "a stranger's commit", wrong(answer.number("h"), {UNKNOWN_MEMBER, WRONG_GENERATION})
        for start in range(0, 10 * r.size, 100):
            for _ in range(100):
                connection.send(11, 5, join(group))
            codes = set()
            for _ in range(100):
                answer = connection.receive()
                answer.number("i")
                codes.add(answer.number("h"))
            yield "very many members", None if codes <= {MEMBER_ID, GROUP_FULL} else f"errors {codes}"
    for size in (1 << 20, 10 << 20):
        with r.connect(30) as raw:
            raw.send(framed(11, 5, join(f"{group}-large", instance="i", metadata=bytes(size))))
            got = raw.answer()
        code = struct.unpack_from(">h", got, 8)[0] if isinstance(got, bytes) else got
        yield f"metadata of {size} bytes", wrong(code, {OK, CLOSED, TOO_LARGE, BAD_REQUEST, INCONSISTENT, -1})
