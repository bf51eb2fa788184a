"""What a transactional producer is told, as long as there are no transactions: at once that there are none, by a final error."""

import os
import pathlib
import subprocess
import time

import broker as brokers
from checks import Failed

INSTALL = pathlib.Path(__file__).resolve().parents[1] / "install"
SECONDS_MAX = 15
TOLD = "does not serve transactions yet"


def refused(broker, report):
    subprocess.run([INSTALL / "java", "kafka-tools"], check=True)
    kcat = ["kcat", "-b", broker.bootstrap, "-P", "-t", "none", "-X", "transactional.id=nobody"]
    classes = ["-cp", f"{brokers.CACHE}/kafka/*", "org.apache.kafka.tools.ProducerPerformance"]
    java = [*brokers.java(), *classes, "--bootstrap-server", broker.bootstrap, "--topic", "none", "--num-records", "1"]
    java += ["--record-size", "1", "--throughput", "-1", "--transactional-id", "nobody"]
    for name, command in (("librdkafka", kcat), ("the Java client", java)):
        with report.check(f"a transactional producer is told so: {name}") as note:
            note.detail = told(command)


def told(command):
    """The line that says it."""
    began = time.monotonic()
    try:
        ended = subprocess.run(command, input=b"one\n", capture_output=True, timeout=SECONDS_MAX, env=dict(os.environ, LC_ALL="C"))
    except subprocess.TimeoutExpired as error:
        raise Failed(f"still trying after {SECONDS_MAX} s") from error
    lines = (ended.stdout + ended.stderr).decode().splitlines()
    saying = [line for line in lines if TOLD in line]
    if ended.returncode == 0 or not saying:
        raise Failed(f"exit code {ended.returncode}: {lines}")
    return f"{time.monotonic() - began:.1f} s, {saying[0][:300]}"
