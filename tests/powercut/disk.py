"""A file system of our own on a loop device, and the power cut: FS_IOC_SHUTDOWN without a flush of the log.

After the cut everything that was not on stable storage is gone, and every call fails until the file system is mounted again.
"""

import fcntl
import os
import pathlib
import struct
import subprocess
import time

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
SIZE = 3 << 30
UNMOUNT_SECONDS = 20
MAKE = {"xfs": ["mkfs.xfs", "-q", "-f"], "ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"]}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Disk:
    def __init__(self, kind, folder, size=SIZE):
        self.kind, self.size = kind, size
        self.image = pathlib.Path(folder) / f"{kind}.img"
        self.mount_point = pathlib.Path(folder) / f"{kind}.mnt"
        self.device = None

    def __enter__(self):
        self.mount_point.mkdir(parents=True)
        with open(self.image, "wb") as image:
            image.truncate(self.size)
        run(*MAKE[self.kind], str(self.image))
        self.device = run("losetup", "--direct-io=on", "--find", "--show", str(self.image))
        self.mount()
        return self

    def __exit__(self, *_):
        if os.path.ismount(self.mount_point):
            self.unmount()
        if self.device:
            run("losetup", "--detach", self.device)
        self.image.unlink()

    def mount(self):
        run("mount", "-t", self.kind, self.device, str(self.mount_point))

    def cut(self):
        """The power is off when this returns."""
        handle = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def unmount(self):
        """A killed process's io_uring lets go of its files a moment after the process is gone: until then the mount is busy."""
        deadline = time.monotonic() + UNMOUNT_SECONDS
        while True:
            try:
                return run("umount", str(self.mount_point))
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def power_on(self):
        """Mounts again what the cut left; nothing may have a file open on it."""
        self.unmount()
        self.mount()
