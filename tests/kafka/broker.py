#!/usr/bin/env python3
"""Starts and stops the brokers under test: ringlog, and a real Apache Kafka to compare with.

    broker.py run TARGET [--set KEY=VALUE]... -- COMMAND...   runs COMMAND with RINGLOG_TEST_BOOTSTRAP set
    broker.py serve TARGET --port PORT [--data DIR]           runs in the foreground until SIGTERM or ^C

TARGET is ringlog (a node a core), ringlog-1 (--nodes 1) or kafka. Ports are free ones in 19100-19999.
A broker that ends by itself, or says 'panicked' in its log, fails the test that uses it.
"""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402

REPO = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("RINGLOG_TEST_CACHE") or pathlib.Path.home() / ".cache" / "ringlog-tests")
TARGETS = ["ringlog", "ringlog-1", "kafka"]
START_SECONDS = 180


class BrokerError(Exception):
    """The broker did not start, ended by itself, or left a bad log."""


def ringlog_binary():
    if os.environ.get("RINGLOG_BIN"):
        return os.environ["RINGLOG_BIN"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPO / "target")
    return str(target / "release" / "ringlog")


def without_sync():
    """The broker built with its sync left out, which a test of durability must catch: RINGLOG_BIN_NO_FSYNC, or built now."""
    if os.environ.get("RINGLOG_BIN_NO_FSYNC"):
        return os.environ["RINGLOG_BIN_NO_FSYNC"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or REPO / "target") / "no-fsync"
    command = ["cargo", "build", "--quiet", "--features", "unsafe-no-fsync", "--target-dir", str(target)]
    subprocess.run(command, check=True, cwd=REPO)
    return str(target / "debug" / "ringlog")


handed_out = set()  # first ports this process gave to a broker, which may not listen yet


def free_ports(count):
    """The first of `count` consecutive ports nobody listens on."""
    for first in random.sample(range(19100, 19990, 10), 89):
        if first in handed_out:
            continue
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    probe = held.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
                handed_out.add(first)
                return first
            except OSError:
                continue
    raise BrokerError("no free ports between 19100 and 19999")


class Broker:
    """One broker process on its own data folder. Subclasses say how it is formatted and started."""

    def __init__(self, data=None, port=None, settings=()):
        self.own_data = data is None
        base = os.environ.get("RINGLOG_TEST_DATA") or str(CACHE / "data")
        os.makedirs(base, exist_ok=True)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"{self.target}-", dir=base))
        self.data = pathlib.Path(data) if data else self.home / "data"
        self.port = port or free_ports(10)
        self.settings = list(settings)
        self.log = self.home / "broker.log"
        self.process = None

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def start(self, wait=True):
        with open(self.log, "ab") as log:
            # It must not outlive the test that started it, however that ends.
            command = ["setpriv", "--pdeathsig", "KILL", "--", *self.command()]
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, start_new_session=True
            )
        if wait:
            try:
                self.wait_ready()
            except BaseException:
                self.process.kill()
                self.process.wait()
                raise
        return self

    def wait_ready(self):
        """Until it answers a request; fails at once when the process ends instead."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            self.check_alive()
            try:
                with wire.Connection("127.0.0.1", self.port, timeout=5) as connection:
                    connection.api_versions()
                    return
            except (OSError, wire.WireError) as error:
                if time.monotonic() > deadline:
                    raise BrokerError(f"{self.target} does not answer: {error}\n{self.log_tail()}") from error
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)

    def check_alive(self):
        if self.process is None or self.process.poll() is not None:
            code = self.process and self.process.returncode
            raise BrokerError(f"{self.target} is not running (exit code {code})\n{self.log_tail()}")

    def kill(self):
        """Ends it as a crash does."""
        self.check_alive()
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it with SIGTERM, and looks at how it went."""
        self.check_alive()
        self.process.terminate()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise BrokerError(f"{self.target} did not stop within 30 s\n{self.log_tail()}") from error
        if code not in self.clean_exits:
            raise BrokerError(f"{self.target} stopped with exit code {code}\n{self.log_tail()}")
        self.check_log()

    def restart(self):
        self.stop()
        return self.start()

    def check_log(self):
        text = self.log.read_text(errors="replace")
        if "panicked" in text:
            raise BrokerError(f"{self.target} panicked\n{self.log_tail()}")

    def log_tail(self):
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        """Stops it; what it wrote is kept only where the test failed."""
        if kind is not None:
            if self.process and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            print(f"--- log of {self.target} ({self.log}):\n{self.log_tail()}", file=sys.stderr)
            return
        self.stop()
        shutil.rmtree(self.home)


class Ringlog(Broker):
    target = "ringlog"
    clean_exits = (0,)
    arguments = ()

    def command(self):
        extra = [part for setting in self.settings for part in ("--set", setting)]
        listen = f"127.0.0.1:{self.port}"
        more = os.environ.get("RINGLOG_TEST_SERVE_ARGS", "").split()
        return [ringlog_binary(), "serve", "--data", str(self.data), "--listen", listen, *self.arguments, *extra, *more]


class RinglogOneNode(Ringlog):
    target = "ringlog-1"
    arguments = ("--nodes", "1")


class ApacheKafka(Broker):
    """KRaft, broker and controller in one process."""

    target = "kafka"
    clean_exits = (0, 143)

    def command(self):
        properties = self.home / "server.properties"
        if not properties.exists():
            self.write_properties(properties)
        return [*java(), "-Xmx1g", "-cp", f"{CACHE}/kafka/*", "kafka.Kafka", str(properties)]

    def write_properties(self, properties):
        lines = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@127.0.0.1:{self.port + 9}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.port + 9}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }
        lines.update(setting.split("=", 1) for setting in self.settings)
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        cluster = uuid.uuid4().hex[:22]
        format_command = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        subprocess.run(
            [*java(), "-cp", f"{CACHE}/kafka/*", *format_command], check=True, stdout=subprocess.DEVNULL, timeout=60
        )


def java():
    """A Java virtual machine that starts fast."""
    return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


def broker(target, **arguments):
    kinds = {kind.target: kind for kind in (Ringlog, RinglogOneNode, ApacheKafka)}
    return kinds[target](**arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    serve = commands.add_parser("serve")
    for command in (run, serve):
        command.add_argument("target", choices=TARGETS)
        command.add_argument("--data")
        command.add_argument("--port", type=int)
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    run.add_argument("rest", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    instance = broker(options.target, data=options.data, port=options.port, settings=options.set)
    if options.command == "run":
        with instance:
            environment = dict(os.environ, RINGLOG_TEST_BOOTSTRAP=instance.bootstrap)
            rest = options.rest[1:] if options.rest[:1] == ["--"] else options.rest
            code = subprocess.run(rest, env=environment).returncode
        sys.exit(code)
    with instance:
        print(f"{options.target} answers on {instance.bootstrap}, log {instance.log}", flush=True)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
