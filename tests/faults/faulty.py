#!/usr/bin/env python3
"""A file that fails when it is told to: the disk below a loop device, served by this process through /dev/fuse.

    faulty.py MOUNT BYTES        MOUNT is an existing empty file; it becomes a file of that many bytes, in memory

Orders come on stdin, one a line, and are answered with `ok`:
    write FROM TO      writes that touch these bytes fail with EIO; read FROM TO, the same for reads
    flush              every flush fails with EIO
    well               nothing fails any more
    count              answers `ok WRITES READS FLUSHES`, those that failed
End of stdin: it ends. Only what a loop device asks of a file is answered; Python's standard library does it.
"""

import ctypes
import errno
import mmap
import os
import select
import stat
import struct
import sys

INIT, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE = 26, 3, 4, 14, 15, 16, 17, 18
FSYNC, FLUSH, FORGET, BATCH_FORGET, INTERRUPT, DESTROY = 20, 25, 2, 42, 36, 38
SILENT = {FORGET, BATCH_FORGET, INTERRUPT}
HEADER = struct.Struct("<IIQQIIIHH")
MAX_WRITE = 1 << 20
ASYNC_READ, BIG_WRITES, MAX_PAGES = 1 << 0, 1 << 5, 1 << 22
DIRECT_IO = 1
MS_NOSUID, MS_NODEV = 2, 4


class Failing(Exception):
    """The answer is this error number."""


class Disk:
    def __init__(self, size):
        self.size = size
        self.data = mmap.mmap(-1, size)
        self.faults = {"write": [], "read": []}
        self.flush_fails = False
        self.failed = {"write": 0, "read": 0, "flush": 0}

    def order(self, line):
        word, *numbers = line.split()
        if word in self.faults:
            self.faults[word].append((int(numbers[0]), int(numbers[1])))
        elif word == "flush":
            self.flush_fails = True
        elif word == "well":
            self.faults = {"write": [], "read": []}
            self.flush_fails = False
        elif word == "count":
            return "ok {write} {read} {flush}".format(**self.failed)
        else:
            return f"what is {word}?"
        return "ok"

    def check(self, kind, start, end):
        if any(start < to and at < end for at, to in self.faults[kind]):
            self.failed[kind] += 1
            raise Failing(errno.EIO)

    def attributes(self):
        mode = stat.S_IFREG | 0o600
        return struct.pack("<QII", 3600, 0, 0) + struct.pack(
            "<QQQQQQIIIIIIIIII", 1, self.size, self.size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0
        )

    def answer(self, opcode, body):
        if opcode == INIT:
            _major, minor, readahead, flags = struct.unpack_from("<IIII", body)
            flags &= ASYNC_READ | BIG_WRITES | MAX_PAGES
            pages = MAX_WRITE // 4096
            return struct.pack("<IIIIHHIIHHI28x", 7, min(minor, 31), readahead, flags, 64, 48, MAX_WRITE, 1, pages, 0, 0)
        if opcode in (GETATTR, SETATTR):
            return self.attributes()
        if opcode == OPEN:
            return struct.pack("<QIi", 0, DIRECT_IO, 0)
        if opcode == READ:
            offset, size = struct.unpack_from("<QI", body, 8)
            self.check("read", offset, offset + size)
            return self.data[offset : offset + size]
        if opcode == WRITE:
            offset, size = struct.unpack_from("<QI", body, 8)
            self.check("write", offset, offset + size)
            self.data[offset : offset + size] = body[40 : 40 + size]
            return struct.pack("<II", size, 0)
        if opcode == FSYNC:
            if self.flush_fails:
                self.failed["flush"] += 1
                raise Failing(errno.EIO)
            return b""
        if opcode == STATFS:
            return struct.pack("<QQQQQIIII24x", self.size // 4096, 0, 0, 1, 0, 4096, 255, 4096, 0)
        if opcode in (RELEASE, FLUSH, DESTROY):
            return b""
        raise Failing(errno.ENOSYS)


def mount(handle, path):
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={handle},rootmode=100000,user_id=0,group_id=0".encode()
    if libc.mount(b"faulty", os.fsencode(path), b"fuse", MS_NOSUID | MS_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), "mounting the file", path)


def serve(disk, handle):
    orders = b""
    while True:
        ready, _, _ = select.select([handle, 0], [], [])
        if 0 in ready:
            part = os.read(0, 4096)
            if not part:
                return
            orders += part
            while b"\n" in orders:
                line, orders = orders.split(b"\n", 1)
                print(disk.order(line.decode()), flush=True)
        if handle in ready:
            try:
                request = os.read(handle, MAX_WRITE + 4096)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return  # unmounted
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                raise
            length, opcode, unique, *_ = HEADER.unpack_from(request)
            if opcode in SILENT:
                continue
            try:
                code, body = 0, disk.answer(opcode, memoryview(request)[HEADER.size : length])
            except Failing as failing:
                code, body = -failing.args[0], b""
            os.write(handle, struct.pack("<IiQ", 16 + len(body), code, unique) + body)


def main():
    path, size = sys.argv[1], int(sys.argv[2])
    handle = os.open("/dev/fuse", os.O_RDWR | os.O_NONBLOCK)
    mount(handle, path)
    print("ok", flush=True)
    serve(Disk(size), handle)


if __name__ == "__main__":
    main()
