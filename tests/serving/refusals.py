"""What keeps the broker from starting: exit code not 0, and one line that names the cause and the fix."""

import ctypes
import pathlib
import resource
import shutil
import socket
import struct
import subprocess
import tempfile

import broker
from checks import Failed
from gotchas import expect

SECONDS_MAX = 15


class Place:
    """A data directory and a port for one start that is refused."""

    def __init__(self, data, port):
        self.data, self.port = data, port

    def arguments(self, *more):
        return [broker.ringlog_binary(), "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *more]


def refusals(report):
    base = pathlib.Path(tempfile.mkdtemp(prefix="refused-", dir=broker.CACHE / "data"))
    shared = pathlib.Path(tempfile.mkdtemp(prefix="ringlog-refused-", dir="/dev/shm"))
    place = Place(base / "data", broker.free_ports(10))

    def check(name, wanted, *arguments, place=place, **more):
        with report.check(f"refused: {name}") as note:
            note.detail = refused(place.arguments(*arguments), wanted, **more)

    running = broker.Ringlog()
    with running:
        in_use = Place(running.data, place.port)
        check("a second start on the same directory", ["in use by another process", str(running.process.pid), "--data"], place=in_use)
        check("a port that a broker uses", [f"port {running.port} is in use", "another port"], place=Place(base / "data", running.port))
    one = broker.RinglogOneNode()
    with one:
        check("a port that a broker of one node uses, --nodes 1", [f"port {one.port} is in use"], "--nodes", "1", place=Place(base / "data", one.port))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", place.port))
        taken.listen()
        check("a port that something else uses", [f"port {place.port} is in use", "another port"])
        check("a port that something else uses, --nodes 1", [f"port {place.port} is in use", "another port"], "--nodes", "1")
        metrics = ["--metrics", f"127.0.0.1:{place.port}", "--listen", f"127.0.0.1:{place.port + 1}", "--cores", "0"]
        check("a metrics port that something else uses", [f"port {place.port} is in use", "another port with --metrics"], *metrics, place=Bare(base / "data"))
    with report.check("a start that cannot listen makes nothing"):
        expect(list(base.iterdir()), [], "what is there")
    check("an address of another machine", ["192.0.2.1"], "--listen", "192.0.2.1:9", place=Bare(base / "data"))
    check("tmpfs without --buffered", ["tmpfs", "--buffered"], place=Place(shared / "data", place.port))
    check("a directory that cannot be made", ["/proc/ringlog", "--data"], place=Place("/proc/ringlog", place.port))
    check("io_uring forbidden by seccomp", ["io_uring", "seccomp", "--security-opt"], before=forbid_io_uring())
    check("too little memory to be locked", ["may be locked", "ulimit -l"], before=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536)))
    check("a flag that is not there", ["--dta", "--data"], "--dta", "x", one_line=False)
    check("a flag without its value", ["--memory"], "--memory", one_line=False)
    check("a value that is none", ["--memory", "lots"], "--memory", "lots")
    check("less memory than a core needs", ["--memory", "16 MiB each", "--cores"], "--memory", "15MiB")
    check("more memory than there is", ["--memory", "this process may have", "MiB"], "--memory", "64TiB")
    check("a core that is not there", ["core 4000", "name some of"], "--cores", "4000")
    check("more nodes than cores", ["nodes", "cores"], "--nodes", "4000")
    check("a key that is not there", ["num.partition", "num.partitions"], "--set", "num.partition=3")
    check("a value that a key cannot have", ["num.partitions", "many"], "--set", "num.partitions=many")
    check("a key twice", ["num.partitions", "twice"], "--set", "num.partitions=1", "--set", "num.partitions=2")
    config = base / "broker.properties"
    config.write_text("num.partitions=3\nlog.retention.hous=5\n")
    check("a wrong key in the file", ["log.retention.hous", str(config), "line 2"], "--config", str(config))
    check("a file that is not there", [str(base / "none"), "--config"], "--config", str(base / "none"))
    check("a metrics port that a node has", ["metrics", "node 0", "another"], "--metrics", f":{place.port}")
    check("nothing advertised", ["--advertise", "no host is named", "HOST:PORT"], "--advertise", "")
    check("an advertised host that is none", ["--advertise", "a b", "HOST:PORT"], "--advertise", "a b")
    check("a node id below 0", ["--node-id -1", "from 0 to 2147483647"], "--node-id", "-1")
    check("a metrics address that is none", ["--metrics"], "--metrics", "nowhere")
    shutil.rmtree(base)
    shutil.rmtree(shared)


class Bare(Place):
    """Without --listen, which the case gives itself."""

    def __init__(self, data):
        super().__init__(data, 0)

    def arguments(self, *more):
        return [broker.ringlog_binary(), "serve", "--data", str(self.data), *more]


def refused(command, wanted, before=None, one_line=True):
    """The line it ends with."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS_MAX, preexec_fn=before
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"still there after {SECONDS_MAX} s") from error
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    told = "\n".join(lines)
    if ended.returncode <= 0:
        raise Failed(f"exit code {ended.returncode}: {told}")
    if one_line and len(lines) != 1:
        raise Failed(f"{len(lines)} lines: {told}")
    if missing := [word for word in wanted if word not in told]:
        raise Failed(f"{missing} not named in: {told}")
    return lines[0]


# A filter of seccomp (BPF): io_uring_setup is answered with EPERM, all else is allowed.
IO_URING_SETUP, EPERM = 425, 1
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def forbid_io_uring():
    """To be run by the child, as a container engine does."""
    steps = [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, IO_URING_SETUP), (RETURN, 0, 0, ERRNO | EPERM), (RETURN, 0, 0, ALLOW)]
    program = Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    library = ctypes.CDLL(None, use_errno=True)

    def forbid():
        if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or library.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
            raise OSError(ctypes.get_errno(), "prctl")

    return forbid
