"""The brokers that are measured beside each other, each on core 0 with a folder of its own; the load has core 1."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "kafka"))
import broker  # noqa: E402

BROKER_CORE, LOAD_CORE = "0", "1"
# More than the memory of ringlog, whose pages the kernel clears once, and enough for the virtual machines of Java.
WARM_UP_BYTES = 1_300_000_000
TICKS = os.sysconf("SC_CLK_TCK")
JAVA_OF_A_BROKER = ["java", "-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]


class Ringlog(broker.Ringlog):
    arguments = ("--nodes", "1", "--cores", BROKER_CORE)


class Kafka(broker.ApacheKafka):
    """As it comes: the options of its own start script, no flush before an ack."""

    def command(self):
        command = super().command()
        return ["taskset", "-c", BROKER_CORE, *JAVA_OF_A_BROKER, *command[command.index("-cp") :]]


@contextlib.contextmanager
def running(kind, directory, **arguments):
    """A broker that starts with nothing in `directory` and leaves nothing there."""
    folder = pathlib.Path(directory) / f"measured-{kind.target}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        with kind(data=folder, **arguments) as instance:
            yield instance
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install_kafka():
    subprocess.run([REPO / "tests" / "install" / "kafka"], check=True)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
