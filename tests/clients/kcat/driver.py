"""Driver of kcat: the verbs of scenario.py, each a run of the kcat command."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kafka"))
import wire  # noqa: E402

RECORD = "R\t%p\t%o\t%T\t%k\t%s\t%h\n"
PARTITIONS = range(6)


def say(*fields):
    sys.stdout.write("\t".join(map(str, fields)) + "\n")
    sys.stdout.flush()


def kcat(*arguments, **more):
    return subprocess.run(["kcat", *map(str, arguments)], **more)


def create(bootstrap, topic, partitions):
    """kcat cannot create a topic with a number of partitions: this goes over the wire, and kcat must see it."""
    with wire.Connection(*wire.address(bootstrap)) as connection:
        connection.create_topic(topic, int(partitions))
    listing = kcat("-b", bootstrap, "-L", "-t", topic, check=True, capture_output=True, text=True).stdout
    if f'topic "{topic}" with {partitions} partitions' not in listing:
        sys.exit(f"kcat lists:\n{listing}")


def offsets(bootstrap, topic):
    """kcat -Q: the first offset at or after a time; -2 is the beginning, -1 the end."""
    def query(which):
        places = [part for partition in PARTITIONS for part in ("-t", f"{topic}:{partition}:{which}")]
        told = kcat("-b", bootstrap, "-Q", *places, check=True, capture_output=True, text=True).stdout
        return {int(p): int(o) for p, o in re.findall(rf"{re.escape(topic)} \[(\d+)\] offset (-?\d+)", told)}

    begins, ends = query(-2), query(-1)
    for partition in PARTITIONS:
        say("O", partition, begins[partition], ends[partition])


def produce(bootstrap, topic):
    options, lines = None, []
    for raw in sys.stdin.buffer:
        if raw.startswith(b"@open"):
            codec, acks, idempotent = raw.decode().split()[1:]
            options = ["-z", codec, "-X", f"acks={acks}", "-X", f"enable.idempotence={'true' if idempotent == '1' else 'false'}"]
            lines = []
        elif raw.startswith(b"@close"):
            headers = [part for header in lines[0][1].split(",") for part in ("-H", header)]
            with tempfile.TemporaryFile() as source:
                source.write(b"".join(line for line, _ in lines))
                source.seek(0)
                kcat("-b", bootstrap, "-t", topic, "-P", "-K", "\t", "-X", "linger.ms=20", *options, *headers, stdin=source, check=True)
            say("SENT", len(lines))
        else:
            line, _, headers = raw.rstrip(b"\n").rpartition(b"\t")
            lines.append((line + b"\n", headers.decode()))


def read(bootstrap, topic, count, *options):
    wanted = dict(option.split("=") for option in options)
    place = f"s@{wanted['timestamp']}" if "timestamp" in wanted else wanted.get("offset", "beginning")
    more = ["-p", wanted["partition"]] if "partition" in wanted else []
    kcat("-b", bootstrap, "-C", "-q", "-t", topic, *more, "-o", place, "-c", count, "-f", RECORD, check=True)


def member(bootstrap, topic, group, *options):
    wanted = dict(option.split("=") for option in options)
    command = ["kcat", "-b", bootstrap, "-f", RECORD, "-X", "auto.offset.reset=earliest"]
    command += ["-X", "auto.commit.interval.ms=500", "-X", f"session.timeout.ms={wanted['session']}", "-X", "heartbeat.interval.ms=500"]
    if "instance" in wanted:
        command += ["-X", f"group.instance.id={wanted['instance']}"]
    command += ["-G", group, topic]
    # Notices of rebalances and records come through one pipe, a line at a time, so that they keep their order.
    process = subprocess.Popen(
        ["stdbuf", "-oL", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
    )

    def leave():
        sys.stdin.read()
        process.send_signal(signal.SIGTERM)

    threading.Thread(target=leave, daemon=True).start()
    for raw in process.stdout:
        line = raw.decode()
        if line.startswith("R\t"):
            sys.stdout.write(line)
        elif told := re.search(r"rebalanced.*: (assigned|revoked): (.*)", line):
            say(told.group(1).upper(), ",".join(re.findall(r"\[(\d+)\]", told.group(2))))
        elif "ERROR" in line:
            say("TROUBLE", line.strip())
        else:
            sys.stderr.write(line)
        sys.stdout.flush()
    process.wait()
    say("CLOSED")


def admin(bootstrap, prefix):
    """What kcat shows of the cluster."""
    listing = kcat("-b", bootstrap, "-L", "-J", check=True, capture_output=True, text=True).stdout
    good = '"brokers":[{"id":0,' in listing and f'"topic":"{prefix.removesuffix("-admin")}-matrix"' in listing
    say("ok" if good else "fail", "list metadata", "" if good else listing[:300])
    unknown = kcat("-b", bootstrap, "-C", "-e", "-t", f"{prefix}-none", "-X", "allow.auto.create.topics=false", capture_output=True, text=True)
    good = unknown.returncode != 0 and "Unknown topic" in unknown.stderr
    say("ok" if good else "fail", "unknown topic is reported", "" if good else unknown.stderr[:300])
    sent = kcat("-b", bootstrap, "-P", "-t", f"{prefix}-made", input="made on demand\n", text=True, capture_output=True)
    back = kcat("-b", bootstrap, "-C", "-e", "-q", "-t", f"{prefix}-made", text=True, capture_output=True)
    good = sent.returncode == 0 and back.stdout == "made on demand\n"
    say("ok" if good else "fail", "topic is created on demand", "" if good else sent.stderr + back.stderr)


if __name__ == "__main__":
    verbs = {"create": create, "offsets": offsets, "produce": produce, "read": read, "member": member, "admin": admin}
    verbs[sys.argv[2]](sys.argv[1], *sys.argv[3:])
