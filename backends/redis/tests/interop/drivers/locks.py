"""Python's redis-py `Lock` and pottery's `Redlock`, driven by a line protocol: see client.rs.

Arguments: `redis-py` or `pottery`, the servers' ports.
"""

import sys

import redis
from pottery import ExtendUnlockedLock, Redlock, ReleaseUnlockedLock


class RedisPy:
    """One server. A ttl of 0 is a lock that never expires, which is this library's default."""

    def __init__(self, clients):
        (self.client,) = clients

    def acquire(self, name, ttl, waits):
        lock = self.client.lock(name, timeout=ttl / 1000 or None)
        if lock.acquire(blocking=waits):
            self.held = lock
            return "held"
        return "busy"

    def extend(self, ttl):
        try:
            self.held.extend(ttl / 1000, replace_ttl=True)
        except redis.exceptions.LockNotOwnedError:
            return "lost"
        return "kept"

    def unlock(self):
        try:
            self.held.release()
        except redis.exceptions.LockNotOwnedError:
            return "lost"
        return "done"


class Pottery:
    """A majority. An extension is always by the ttl of the acquisition."""

    def __init__(self, clients):
        self.clients = frozenset(clients)

    def acquire(self, name, ttl, waits):
        lock = Redlock(key=name, masters=self.clients, auto_release_time=ttl / 1000)
        if lock.acquire(blocking=waits):
            self.held = lock
            return "held"
        return "busy"

    def extend(self, ttl):
        self.held.auto_release_time = ttl / 1000
        try:
            self.held.extend()
        except ExtendUnlockedLock:
            return "lost"
        return "kept"

    def unlock(self):
        try:
            self.held.release()
        except ReleaseUnlockedLock:
            return "lost"
        return "done"


def answer(library, words):
    match words:
        case ["lock", name, ttl]:
            return library.acquire(name, int(ttl), waits=False)
        case ["wait", name, ttl]:
            return library.acquire(name, int(ttl), waits=True)
        case ["extend", ttl]:
            return library.extend(int(ttl))
        case ["unlock"]:
            return library.unlock()
    return f"error no such command: {words}"


def main():
    kind, *ports = sys.argv[1:]
    clients = [redis.Redis(port=int(port)) for port in ports]
    library = {"redis-py": RedisPy, "pottery": Pottery}[kind](clients)
    for line in sys.stdin:
        try:
            said = answer(library, line.split())
        except Exception as error:
            said = f"error {error!r}"
        print(said, flush=True)


main()
