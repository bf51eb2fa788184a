"""What the drivers written in Python share: the lines they read and print. See scenario.py for the verbs."""

import sys
import threading

PARTITIONS = range(6)
COMMIT_EVERY = 1000
QUIET_SECONDS = 30


def text(data):
    return "NULL" if data is None else data.decode()


def say(*fields):
    sys.stdout.write("\t".join(map(str, fields)) + "\n")


def say_sent(count):
    say("SENT", count)
    sys.stdout.flush()


def steps_to_produce():
    """("open", codec, acks, idempotent), ("record", key, value, headers) and ("close", count) from standard input."""
    count = 0
    for raw in sys.stdin.buffer:
        fields = raw.rstrip(b"\n").split(b"\t")
        if fields[0] == b"@open":
            codec, acks, idempotent = (field.decode() for field in fields[1:])
            count = 0
            yield "open", codec, acks, idempotent == "1"
        elif fields[0] == b"@close":
            yield "close", count
        else:
            key, value, headers = fields
            pairs = [pair.split(b"=", 1) for pair in headers.split(b",")]
            count += 1
            yield "record", key, value, [(name.decode(), held) for name, held in pairs]


class Orders:
    """What standard input asks of a group member: to commit after each poll from now on, and at its end to leave."""

    def __init__(self):
        self.commit, self.leave = threading.Event(), threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for _line in sys.stdin:
            self.commit.set()
        self.leave.set()


def run_steps(steps):
    """Runs each admin step, and tells how it went; a later step may need what an earlier one made."""
    for step in steps:
        try:
            detail = step()
        except Exception as error:
            say("fail", step.__name__, f"{type(error).__name__}: {error}".replace("\n", " ").replace("\t", " "))
        else:
            say("ok", step.__name__, "" if detail is None else detail)


def main(**verbs):
    bootstrap, verb, *arguments = sys.argv[1:]
    verbs[verb](bootstrap, *arguments)
