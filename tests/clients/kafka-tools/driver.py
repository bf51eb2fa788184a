"""Driver of Kafka's command line tools: the verbs of scenario.py, each a run of one tool's main class."""

import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE.parents[1] / "kafka"))
import broker  # noqa: E402
import driving  # noqa: E402
from driving import say  # noqa: E402

TOOLS = "org.apache.kafka.tools."
TOPICS = TOOLS + "TopicCommand"
CONFIGS = TOOLS + "ConfigCommand"
GROUPS = TOOLS + "consumer.group.ConsumerGroupCommand"
OFFSETS = TOOLS + "GetOffsetShell"
PRODUCER = TOOLS + "ConsoleProducer"
CONSUMER = TOOLS + "consumer.ConsoleConsumer"
PRINTED = ["timestamp", "partition", "offset", "headers", "key", "value"]
TOOL_SECONDS = 300


def command(tool, *arguments):
    classes = f"{broker.CACHE}/java-kafka-tools:{broker.CACHE}/kafka/*"
    return [*broker.java(), "-Xmx256m", "-Dfile.encoding=UTF-8", "-cp", classes, tool, *map(str, arguments)]


def run(tool, *arguments, stdin=None):
    """What the tool prints; anything but exit code 0 is an error that shows it."""
    done = subprocess.run(
        command(tool, *arguments), stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, timeout=TOOL_SECONDS
    )
    if done.returncode != 0:
        raise RuntimeError(f"{tool} {arguments}: exit code {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    return done.stdout


def create(bootstrap, topic, partitions):
    told = run(TOPICS, "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", partitions)
    if f"Created topic {topic}." not in told:
        sys.exit(told)


def offsets_at(bootstrap, topic, time):
    told = run(OFFSETS, "--bootstrap-server", bootstrap, "--topic", topic, "--time", time)
    return {int(p): int(o) for p, o in re.findall(rf"^{re.escape(topic)}:(\d+):(-?\d+)$", told, re.M)}


def offsets(bootstrap, topic):
    begins, ends = offsets_at(bootstrap, topic, "earliest"), offsets_at(bootstrap, topic, "latest")
    for partition in sorted(ends):
        say("O", partition, begins[partition], ends[partition])


def produce(bootstrap, topic):
    settings = None
    for step, *what in driving.steps_to_produce():
        if step == "open":
            codec, acks, idempotent = what
            settings = ["--compression-codec", codec, "--request-required-acks", "-1" if acks == "all" else acks]
            settings += ["--command-property", f"enable.idempotence={str(idempotent).lower()}"]
            settings += ["--request-timeout-ms", "60000"]  # its own 1.5 s makes it send twice on a busy machine
            source = tempfile.TemporaryFile()
        elif step == "close":
            source.seek(0)
            reading = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
            run(PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, *settings, *reading, stdin=source)
            driving.say_sent(*what)
        else:
            key, value, headers = what
            fields = [b",".join(name.encode() + b":" + held for name, held in headers), key, value]
            source.write(b"\t".join(fields) + b"\n")


def printing():
    return [part for name in PRINTED for part in ("--formatter-property", f"print.{name}=true")]


def say_line(line):
    """CreateTime:<ms> <tab> Partition:<n> <tab> Offset:<n> <tab> headers <tab> key <tab> value, as a record line."""
    stamp, partition, offset, headers, key, value = line.rstrip("\n").split("\t")
    headers = headers.replace(":", "=")
    say("R", partition.removeprefix("Partition:"), offset.removeprefix("Offset:"), stamp.removeprefix("CreateTime:"), key, value, headers)


def read(bootstrap, topic, count, *options):
    wanted = dict(option.split("=") for option in options)
    if "timestamp" in wanted:
        group = f"{topic}-at-{wanted['timestamp']}"
        moment = datetime.datetime.fromtimestamp(int(wanted["timestamp"]) / 1000, datetime.timezone.utc)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(wanted['timestamp']) % 1000:03d}"
        reset = ["--reset-offsets", "--to-datetime", stamp, "--topic", topic, "--execute"]
        run(GROUPS, "--bootstrap-server", bootstrap, "--group", group, *reset)
        place = ["--group", group]
    elif "offset" in wanted:
        place = ["--partition", wanted["partition"], "--offset", wanted["offset"]]
    else:
        place = ["--from-beginning"]
    quiet = ["--timeout-ms", driving.QUIET_SECONDS * 1000, "--max-messages", count]
    process = subprocess.Popen(
        command(CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, *place, *quiet, *printing()),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    for line in process.stdout:
        say_line(line)
    if process.wait() != 0:
        sys.exit(f"console consumer: exit code {process.returncode}")


def member(bootstrap, topic, group, *options):
    wanted = dict(option.split("=") for option in options)
    settings = {
        "auto.commit.interval.ms": 500,
        "session.timeout.ms": wanted["session"],
        "heartbeat.interval.ms": 500,
        "partition.assignment.strategy": "ToldAssignor",
        "group.protocol": "classic",
    }
    if "instance" in wanted:
        settings["group.instance.id"] = wanted["instance"]
    properties = [part for name, value in settings.items() for part in ("--command-property", f"{name}={value}")]
    process = subprocess.Popen(
        command(CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning", *properties, *printing()),
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )

    def leave():
        sys.stdin.read()
        process.send_signal(signal.SIGTERM)

    threading.Thread(target=leave, daemon=True).start()
    for line in process.stdout:
        if line.startswith(("ASSIGNED", "REVOKED")):
            say(*line.rstrip("\n").split("\t"))
        else:
            say_line(line)
        sys.stdout.flush()
    process.wait()
    say("CLOSED")


def admin(bootstrap, prefix):
    topic, group = f"{prefix}-topic", f"{prefix}-group"
    server = ["--bootstrap-server", bootstrap]
    named = ["--entity-type", "topics", "--entity-name", topic]

    def expect(told, *patterns):
        for pattern in patterns:
            if not re.search(pattern, told, re.M):
                raise AssertionError(f"no {pattern} in: {told[-700:]}")

    def topics_create_list_describe():
        run(TOPICS, *server, "--create", "--topic", topic, "--partitions", 2, "--config", "retention.ms=3600000")
        expect(run(TOPICS, *server, "--list"), rf"^{topic}$")
        expect(run(TOPICS, *server, "--describe", "--topic", topic), r"PartitionCount: 2\b", "retention.ms=3600000", r"Partition: 1\s+Leader: \d")

    def topics_create_again_is_refused():
        done = subprocess.run(command(TOPICS, *server, "--create", "--topic", topic), capture_output=True, text=True, timeout=TOOL_SECONDS)
        assert done.returncode != 0, "created twice"
        expect(done.stdout + done.stderr, f"Topic '{topic}' already exists")

    def topics_alter():
        run(TOPICS, *server, "--alter", "--topic", topic, "--partitions", 4)
        expect(run(TOPICS, *server, "--describe", "--topic", topic), r"PartitionCount: 4\b")

    def configs_alter_describe():
        run(CONFIGS, *server, "--alter", *named, "--add-config", "max.message.bytes=500000,segment.bytes=2097152")
        told = run(CONFIGS, *server, "--describe", *named)
        expect(told, "max.message.bytes=500000", "segment.bytes=2097152", "retention.ms=3600000")
        run(CONFIGS, *server, "--alter", *named, "--delete-config", "max.message.bytes")
        told = run(CONFIGS, *server, "--describe", *named)
        assert "max.message.bytes" not in told, told
        expect(run(CONFIGS, *server, "--describe", *named, "--all"), r"max.message.bytes=1048588 .*DEFAULT_CONFIG")

    def configs_bad_value_is_refused():
        done = subprocess.run(
            command(CONFIGS, *server, "--alter", *named, "--add-config", "retention.ms=soon"), capture_output=True, text=True, timeout=TOOL_SECONDS
        )
        assert done.returncode != 0, "taken"
        expect(done.stdout + done.stderr, "retention.ms")

    def configs_of_the_broker():
        told = run(CONFIGS, *server, "--describe", "--entity-type", "brokers", "--entity-name", "0", "--all")
        expect(told, "num.partitions=", "log.retention.hours=168")

    def producer_performance():
        told = run(TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", 20000, "--record-size", 1000, "--throughput", -1, "--bootstrap-server", bootstrap)
        expect(told, r"^20000 records sent, .* records/sec")
        return told.splitlines()[-1].split(" ms avg")[0]

    def offsets_of_what_was_sent():
        ends = offsets_at(bootstrap, topic, "latest")
        assert sum(ends.values()) == 20000 and len(ends) == 4, ends

    def consumer_performance():
        told = run(TOOLS + "ConsumerPerformance", "--topic", topic, "--num-records", 20000, *server, "--group", group, "--timeout", 60000)
        fields = told.splitlines()[-1].split(", ")
        assert fields[4] == "20000", told
        return f"{fields[3]} MB/s"

    def groups_list_describe():
        expect(run(GROUPS, *server, "--list"), rf"^{group}$")
        expect(run(GROUPS, *server, "--list", "--state"), rf"^{group}\s.*Empty")
        told = run(GROUPS, *server, "--describe", "--group", group)
        rows = re.findall(rf"^{group}\s+{topic}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", told, re.M)
        assert len(rows) == 4 and all(row[1] == row[2] and row[3] == "0" for row in rows), told
        expect(run(GROUPS, *server, "--describe", "--group", group, "--state"), rf"^{group}\s+\S+ *\(\d+\).*Empty\s+0")

    def groups_reset_offsets():
        scope = ["--group", group, "--topic", f"{topic}:0", "--execute"]
        expect(run(GROUPS, *server, "--reset-offsets", "--to-earliest", *scope), rf"{topic}\s+0\s+0\b")
        expect(run(GROUPS, *server, "--reset-offsets", "--shift-by", 7, *scope), rf"{topic}\s+0\s+7\b")
        expect(run(GROUPS, *server, "--describe", "--group", group), rf"^{group}\s+{topic}\s+0\s+7\s")

    def groups_delete_offsets():
        run(GROUPS, *server, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
        told = run(GROUPS, *server, "--describe", "--group", group)
        assert not re.search(rf"^{group}\s+{topic}\s+0\s+7\s", told, re.M), told

    def groups_delete():
        expect(run(GROUPS, *server, "--delete", "--group", group), "was successful")
        assert not re.search(rf"^{group}$", run(GROUPS, *server, "--list"), re.M)

    def delete_records():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"version": 1, "partitions": [{"topic": "%s", "partition": 0, "offset": 40}]}' % topic)
            file.flush()
            expect(run(TOOLS + "DeleteRecordsCommand", *server, "--offset-json-file", file.name), r"low_watermark: 40")
        assert offsets_at(bootstrap, topic, "earliest")[0] == 40

    def log_dirs():
        told = run(TOOLS + "LogDirsCommand", *server, "--describe", "--topic-list", topic)
        expect(told, rf'"partition":"{topic}-0"', r'"size":\d{4}')

    def api_versions():
        told = run(TOOLS + "BrokerApiVersionsCommand", *server)
        expect(told, r"Produce\(0\): 0 to \d+ \[usable: \d+\]", r"Fetch\(1\): 4 to \d+ \[usable: \d+\]")

    def cluster_id():
        expect(run(TOOLS + "ClusterTool", "cluster-id", *server), r"^Cluster ID: \S+")

    def end_to_end_latency():
        told = run(TOOLS + "EndToEndLatency", *server, "--topic", topic, "--num-records", 200, "--producer-acks", "all", "--record-size", 100)
        expect(told, r"Percentiles: 50th = \d+")
        return told.strip().splitlines()[-1]

    def verifiable_producer_and_consumer():
        told = run(TOOLS + "VerifiableProducer", *server, "--topic", f"{topic}-verified", "--max-messages", 1000)
        refused = [line for line in told.splitlines() if "producer_send_error" in line]
        assert not refused, f"{len(refused)} not sent, the first: {refused[0]}"
        expect(told, r'"sent":1000\b.*"acked":1000\b|"acked":1000\b.*"sent":1000\b')
        told = run(TOOLS + "VerifiableConsumer", *server, "--topic", f"{topic}-verified", "--group-id", f"{group}-verified", "--max-messages", 1000)
        counts = [int(n) for n in re.findall(r'"name":"records_consumed".*?"count":(\d+)', told)]
        counts = counts or [int(n) for n in re.findall(r'"count":(\d+).*?"name":"records_consumed"', told)]
        assert sum(counts) >= 1000, told[-700:]

    def topics_delete():
        run(TOPICS, *server, "--delete", "--topic", topic)
        assert not re.search(rf"^{topic}$", run(TOPICS, *server, "--list"), re.M)

    steps = [topics_create_list_describe, topics_create_again_is_refused, topics_alter, configs_alter_describe]
    steps += [configs_bad_value_is_refused, configs_of_the_broker, producer_performance, offsets_of_what_was_sent]
    steps += [consumer_performance, groups_list_describe, groups_reset_offsets, groups_delete_offsets, groups_delete]
    steps += [delete_records, log_dirs, api_versions, cluster_id, end_to_end_latency, verifiable_producer_and_consumer]
    driving.run_steps([*steps, topics_delete])


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C.UTF-8"
    driving.main(create=create, offsets=offsets, produce=produce, read=read, member=member, admin=admin)
