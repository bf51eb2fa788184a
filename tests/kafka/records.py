"""Record batches (format version 2) built and read byte by byte, so that tests can also build broken ones.

Standard library only; the checksum is a table in Python, so keep batches small.
"""

import os
import struct
import sys
import time
from collections import namedtuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import unsigned  # noqa: E402

HEADER = 61
Record = namedtuple("Record", "offset timestamp key value")


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def crc32c(data, crc=0):
    table, crc = _CRC, crc ^ 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(number):
    """Zigzag, as records use it."""
    number = (number << 1) ^ (number >> 63)
    return unsigned(number & (1 << 64) - 1)


def record(delta, value, key=None, timestamp_delta=0, headers=b"\0"):
    body = b"\0" + varint(timestamp_delta) + varint(delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(-1) if value is None else varint(len(value)) + value
    body += headers
    return varint(len(body)) + body


def batch(values=(b"v",), **changes):
    """A batch of these values; `changes` sets fields of the header, or breaks it.

    attributes, timestamp (of now), max_timestamp, producer_id, epoch, sequence, base, leader, magic: as they are named.
    last_delta, count, length: in place of the true ones. body: in place of the records. crc=False: a wrong checksum.
    """
    get = changes.pop
    count = len(values)
    timestamp = get("timestamp", time.time_ns() // 1_000_000)
    body = get("body", None)
    if body is None:
        body = b"".join(record(delta, value) for delta, value in enumerate(values))
    checked = struct.pack(
        ">hiqqqhii",
        get("attributes", 0),
        get("last_delta", count - 1),
        timestamp,
        get("max_timestamp", timestamp),
        get("producer_id", -1),
        get("epoch", -1),
        get("sequence", -1),
        get("count", count),
    )
    checked += body
    crc = crc32c(checked) ^ (0 if get("crc", True) else 0xFFFFFFFF)
    length = get("length", 9 + len(checked))
    head = struct.pack(">qiibI", get("base", 0), length, get("leader", -1), get("magic", 2), crc)
    if changes:
        raise TypeError(f"no such fields: {list(changes)}")
    return head + checked


def read_varint(data, at):
    shift = result = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7


def read_batches(data):
    """(header fields, records) of each whole uncompressed batch; the checksum is looked at. A cut batch at the end is left out."""
    at = 0
    while at + HEADER <= len(data):
        base, length, leader, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + length
        if end > len(data):
            return
        attributes, last_delta, timestamp, _max, producer_id, epoch, sequence, count = struct.unpack_from(">hiqqqhii", data, at + 21)
        if magic != 2 or attributes & 7:
            raise ValueError(f"batch at offset {base}: magic {magic}, attributes {attributes}")
        if crc32c(data[at + 21 : end]) != crc:
            raise ValueError(f"batch at offset {base}: wrong checksum")
        records, position = [], at + HEADER
        for _ in range(count):
            size, position = read_varint(data, position)
            after = position + size
            delta, position = read_varint(data, position + 1)
            timestamp_delta = delta
            delta, position = read_varint(data, position)
            size, position = read_varint(data, position)
            key = None
            if size >= 0:
                key, position = data[position : position + size], position + size
            size, position = read_varint(data, position)
            value = None if size < 0 else data[position : position + size]
            records.append(Record(base + delta, timestamp + timestamp_delta, key, value))
            position = after
        fields = dict(base=base, last=base + last_delta, leader=leader, producer_id=producer_id, epoch=epoch, sequence=sequence)
        yield fields, records
        at = end
