"""File systems that fail: on a disk that answers with EIO where and when it is told to."""

import fcntl
import os
import pathlib
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "powercut"))
import disk  # noqa: E402

FS_IOC_FIEMAP = 0xC020660B
EXTENTS_MAX = 256
FAULTY = pathlib.Path(__file__).resolve().parent / "faulty.py"


class FaultyDisk(disk.Disk):
    """As a disk of its own image, but the image is `faulty.py`'s."""

    def __enter__(self):
        self.mount_point.mkdir(parents=True)
        self.image.touch()
        command = [sys.executable, str(FAULTY), str(self.image), str(self.size)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.expect_ok()
        self.device = disk.run("losetup", "--find", "--show", str(self.image))
        disk.run(*disk.MAKE[self.kind], self.device)
        self.mount()
        return self

    def __exit__(self, *_):
        self.order("well")
        if os.path.ismount(self.mount_point):
            self.unmount()
        disk.run("losetup", "--detach", self.device)
        disk.run("umount", "--lazy", str(self.image))
        self.server.stdin.close()
        self.server.wait()
        self.image.unlink()

    def order(self, *words):
        self.server.stdin.write(" ".join(map(str, words)) + "\n")
        self.server.stdin.flush()
        return self.expect_ok()

    def expect_ok(self):
        answer = self.server.stdout.readline().split()
        if answer[:1] != ["ok"]:
            raise OSError(f"the faulty disk says {answer}")
        return [int(number) for number in answer[1:]]

    def fail(self, kind, *paths):
        """Reads or writes of what these files hold fail from now on."""
        for path in paths:
            for start, end in extents(path):
                self.order(kind, start, end)

    def failed(self):
        """(writes, reads, flushes) that failed so far."""
        return tuple(self.order("count"))


def extents(path):
    """Where on the disk the bytes of a file are, by FS_IOC_FIEMAP."""
    head = struct.Struct("=QQIIII")
    extent = struct.Struct("=QQQQQIIII")
    request = bytearray(head.pack(0, (1 << 64) - 1, 1, 0, EXTENTS_MAX, 0) + bytes(extent.size * EXTENTS_MAX))
    with open(path, "rb") as file:
        fcntl.ioctl(file, FS_IOC_FIEMAP, request)
    mapped = head.unpack_from(request)[3]
    found = [extent.unpack_from(request, head.size + extent.size * number) for number in range(mapped)]
    places = [(physical, physical + length) for _logical, physical, length, *_ in found]
    if not places:
        raise OSError(f"{path} is nowhere on the disk")
    return places
