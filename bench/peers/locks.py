"""Python's redis-py `Lock`, pottery's `Redlock` and kazoo's `Lock` in a contest: ../src/contest.rs says what they are told
and tell.

Arguments: `redis-py`, `pottery` or `kazoo`, then the words of the contest.
"""

import os
import sys
import threading
import time

TTL = 30
WARM_NS = 150_000_000
GRACE_NS = 2_000_000_000

kind, addresses, tasks, shared, hold_micros, length_micros = sys.argv[1:]


def redis_clients():
    import redis

    # More links than its default pool has: 256 threads would only see errors.
    return [redis.Redis(*address.split(":"), max_connections=1024) for address in addresses.split(",")]


def locks():
    """How to get the lock of a name."""
    if kind == "kazoo":
        from kazoo.client import KazooClient

        client = KazooClient(hosts=addresses.removeprefix("zk://"), timeout=TTL)
        client.start()
        return lambda name: client.Lock(f"/kazoo/{name}")
    clients = redis_clients()
    if kind == "redis-py":
        (client,) = clients
        return lambda name: client.lock(name, timeout=TTL)
    from pottery import Redlock

    return lambda name: Redlock(key=name, masters=frozenset(clients), auto_release_time=TTL)


lock_of = locks()


def take_turns(task, name, hold, end, lines, asked):
    lock = lock_of(name)
    while time.monotonic_ns() < end:
        asked[task] = time.monotonic_ns()
        lock.acquire()
        start = time.monotonic_ns()
        if hold:
            time.sleep(hold)
        until = time.monotonic_ns()
        lock.release()
        lines.append(f"{task} {asked[task]} {start} {until} {time.monotonic_ns()} 0")


def all_turns(shared, hold, length):
    lines, asked, failures = [], [time.monotonic_ns()] * int(tasks), []
    end = time.monotonic_ns() + length

    def run(task):
        try:
            take_turns(task, f"{shared}-{task}" if shared.startswith("own") else shared, hold, end, lines, asked)
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=[task], daemon=True) for task in range(int(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, end + GRACE_NS - time.monotonic_ns()) / 1e9)
    if failures:
        raise failures[0]
    return list(lines) + [f"stuck {asked[task]}" for task, thread in enumerate(threads) if thread.is_alive()]


def main():
    all_turns(shared if shared.startswith("own") else f"own-warm-{os.getpid()}", 0, WARM_NS)
    print("ready", flush=True)
    sys.stdin.read()
    before = time.process_time_ns()
    lines = all_turns(shared, int(hold_micros) / 1e6, int(length_micros) * 1000)
    used = time.process_time_ns() - before
    print("\n".join([*lines, f"cpu {used}", "end"]), flush=True)
    # Threads that still wait keep nobody here.
    os._exit(0)


main()
