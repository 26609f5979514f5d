"""Python's kazoo, driven by lines: each is answered by one line.

Arguments: the servers, the node of a lock, how many seconds its session lasts, and `plain` for a lock that knows nothing of
other libraries' names.
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry

retry = KazooRetry(max_tries=-1, max_delay=0.2)
client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[3]), connection_retry=retry)
client.start(timeout=30)
path = sys.argv[2]
# Without the pattern it sees its own kind of nodes only.
patterns = [] if sys.argv[4:] == ["plain"] else ["-lock-"]
lock = client.Lock(path, "kazoo", extra_lock_patterns=patterns)


def names():
    try:
        return " ".join(sorted(client.get_children(path), key=lambda name: name[-10:]))
    except NoNodeError:
        return ""


for line in sys.stdin:
    words = line.split()
    match words:
        case ["acquire"]:
            lock.acquire()
            answer = "held"
        case ["try"]:
            answer = "held" if lock.acquire(blocking=False) else "busy"
        case ["believes"]:
            answer = "held" if lock.is_acquired else "free"
        case ["release"]:
            lock.release()
            answer = "released"
        case ["names"]:
            answer = names()
        case ["plant", name]:
            client.create(f"{path}/{name}", b"", ephemeral=True, makepath=True)
            answer = "planted"
        case ["owner", name]:
            answer = str(client.get(f"{path}/{name}")[1].ephemeralOwner)
        case _:
            raise SystemExit(f"what is {line!r}?")
    print(answer, flush=True)
