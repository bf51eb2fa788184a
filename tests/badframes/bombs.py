"""Compressed record sets that unfold to far more than they are, or that are not what their format says. Built by hand."""

import struct
import zlib

import records

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
MIB = 1 << 20


def _record_head(value_bytes):
    """The bytes of one record up to its value of so many bytes."""
    inner = b"\0" + records.varint(0) + records.varint(0) + records.varint(-1) + records.varint(value_bytes)
    return records.varint(len(inner) + value_bytes + 1) + inner


def gzip_bomb(value_bytes):
    """A valid record of zeros, about 1000:1: one compressed MiB of zeros, over and over."""
    head, zeros, tail = _record_head(value_bytes), bytes(MIB), bytes(value_bytes % MIB + 1)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(zeros) + packer.flush(zlib.Z_FULL_FLUSH)
    last = packer.compress(tail) + packer.flush()
    crc = zlib.crc32(head)
    for _ in range(value_bytes // MIB):
        crc = zlib.crc32(zeros, crc)
    size = len(head) + value_bytes + 1
    trailer = struct.pack("<II", zlib.crc32(tail, crc), size & 0xFFFFFFFF)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + first + again * (value_bytes // MIB) + last + trailer


def gzip(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def zstd(blocks, window_log=20, content=None):
    """A frame of (kind, size, bytes) blocks: 0 raw, 1 one byte repeated."""
    if content is None:
        head = struct.pack("<IBB", 0xFD2FB528, 0x00, (window_log - 10) << 3)
    else:
        head = struct.pack("<IBQ", 0xFD2FB528, 0xE0, content)
    out = [head]
    for i, (kind, size, data) in enumerate(blocks):
        header = size << 3 | kind << 1 | (i == len(blocks) - 1)
        out.append(struct.pack("<I", header)[:3] + data)
    return b"".join(out)


def zstd_bomb(value_bytes):
    """A valid record of zeros from repeat blocks, about 30000:1."""
    head = _record_head(value_bytes)
    blocks = [(0, len(head), head)]
    left = value_bytes + 1
    while left:
        size = min(left, 128 << 10)
        blocks.append((1, size, b"\0"))
        left -= size
    return zstd(blocks, window_log=22)


def xxh32(data):
    """The checksum in an lz4 frame header, for fewer than 16 bytes."""
    mask, p2, p3, p4, p5 = 0xFFFFFFFF, 2246822519, 3266489917, 668265263, 374761393
    p1, h, at = 2654435761, (p5 + len(data)) & 0xFFFFFFFF, 0
    while at + 4 <= len(data):
        h = (h + struct.unpack_from("<I", data, at)[0] * p3) & mask
        h = ((h << 17 | h >> 15) & mask) * p4 & mask
        at += 4
    for byte in data[at:]:
        h = (h + byte * p5) & mask
        h = ((h << 11 | h >> 21) & mask) * p1 & mask
    h = (h ^ h >> 15) * p2 & mask
    h = (h ^ h >> 13) * p3 & mask
    return h ^ h >> 16


def lz4_frame(blocks, end=True):
    """A frame of (stored?, bytes) blocks, 4 MiB each at most, each on its own."""
    descriptor = bytes([0x60, 0x70])
    out = [struct.pack("<I", 0x184D2204), descriptor, bytes([xxh32(descriptor) >> 8 & 0xFF])]
    for stored, data in blocks:
        out.append(struct.pack("<I", len(data) | (0x80000000 if stored else 0)) + data)
    if end:
        out.append(struct.pack("<I", 0))
    return b"".join(out)


def lz4_run(size):
    """A block of `size` zeros: one literal, a long match, and five literals as the format wants them last."""
    match = size - 1 - 5 - 4
    extra = match - 15
    return b"\x1f\0" + struct.pack("<H", 1) + b"\xff" * (extra // 255) + bytes([extra % 255]) + b"\x50" + bytes(5)


def lz4_bomb(value_bytes):
    """A valid record of zeros, about 250:1."""
    head = _record_head(value_bytes)
    blocks = [(True, head)]
    left = value_bytes + 1
    while left:
        size = min(left, 4 * MIB)
        blocks.append((False, lz4_run(size)) if size > 64 else (True, bytes(size)))
        left -= size
    return lz4_frame(blocks)


def snappy_declared(size, data=b"\0\0"):
    """A raw block that says it unfolds to `size` bytes."""
    return records.unsigned(size) + data


def xerial(*chunks):
    out = [b"\x82SNAPPY\0", struct.pack(">ii", 1, 1)]
    for chunk in chunks:
        out.append(struct.pack(">i", len(chunk)) + chunk)
    return b"".join(out)


def snappy_run(size):
    """A block of `size` zeros: one literal, then copies of 64 bytes."""
    copies = (size - 1) // 64
    tail = size - 1 - copies * 64
    return records.unsigned(size) + b"\0\0" + b"\xfe\1\0" * copies + (bytes([tail - 1 << 2]) + bytes(tail) if tail else b"")


def snappy_bomb(value_bytes):
    """A valid record of zeros in chunks of 1 MiB, about 21:1."""
    head = _record_head(value_bytes)
    literal = records.unsigned(len(head)) + bytes([len(head) - 1 << 2]) + head
    chunks = [literal] + [snappy_run(MIB)] * (value_bytes // MIB) + [snappy_run(value_bytes % MIB + 1)]
    return xerial(*chunks)
