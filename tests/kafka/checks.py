"""How the suites written in Python report what held and what did not, and run on each target."""

import contextlib
import os
import sys
import threading
import time
import types

import broker

FULL = bool(os.environ.get("RINGLOG_TEST_FULL"))  # set by tests/run --full: more of everything


class Failed(Exception):
    """A check that did not hold; the text says what was seen."""


class Report:
    """Prints one line for each check and counts them; several threads may share it."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def ok(self, name, detail=""):
        with self.lock:
            self.passed += 1
            print(f"ok   {name}{': ' + detail if detail else ''}", flush=True)

    def fail(self, name, detail):
        with self.lock:
            self.failed += 1
            print(f"FAIL {name}: {detail}", flush=True)

    @contextlib.contextmanager
    def check(self, name):
        """Runs one check; it may set `.detail` on what it is given. An exception is a failure of this check alone."""
        note = types.SimpleNamespace(detail="")
        started = time.monotonic()
        try:
            yield note
        except Exception as error:
            self.fail(name, f"{type(error).__name__}: {error}")
        else:
            self.ok(name, f"{note.detail}{', ' if note.detail else ''}{time.monotonic() - started:.1f} s")

    def close(self):
        """The closing line, and the exit code that goes with it."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed or not self.passed else 0)


class Labelled:
    """A report that puts the target before the name of each check."""

    def __init__(self, report, label):
        self.report, self.label = report, label

    def ok(self, name, detail=""):
        self.report.ok(f"[{self.label}] {name}", detail)

    def fail(self, name, detail):
        self.report.fail(f"[{self.label}] {name}", detail)

    def check(self, name):
        return self.report.check(f"[{self.label}] {name}")


def on_targets(work):
    """
    Calls `work(broker, report)` with a running broker for each target of RINGLOG_TEST_TARGETS, side by side: most of the
    time is spent waiting for rebalances. Ends the process with the closing line.
    """
    report = Report()

    def one(target):
        labelled = Labelled(report, target)
        with labelled.check("starts and stops cleanly"), broker.broker(target) as server:
            work(server, labelled)
            server.check_alive()

    targets = os.environ.get("RINGLOG_TEST_TARGETS", "ringlog ringlog-1").split()
    threads = [threading.Thread(target=one, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.close()
