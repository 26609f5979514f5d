"""A real service for each test, and real processes beside it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Callable, Coroutine, Dict, List, Optional

from fencepost import Client
from fencepost._core import Core

HERE = Path(__file__).resolve().parent


def program() -> str:
    path = os.environ.get("FENCEPOST_PROGRAM")
    if not path:
        raise RuntimeError("FENCEPOST_PROGRAM is not set: run these tests by `cargo test -p fencepost-cli --test clients`")
    return path


def until(what: str, condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Waits for something that has to come."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.01)


class Service:
    """A replica on a file of its own, or on another's."""

    def __init__(self, folder: str, arguments: List[str], listen: str = "127.0.0.1:0") -> None:
        store = f"sqlite:{folder}/locks.db"
        command = [program(), "--store", store, "serve", "--listen", listen, *arguments]
        self.store = store
        self._log = open(f"{folder}/service.log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(Path(f"{folder}/service.log").read_text())

    def signal(self, number: int) -> None:
        """Sends it; of a stop also waits until all threads have."""
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            threads = Path(f"/proc/{self.process.pid}/task")
            until("stopped", lambda: all(") T" in (thread / "stat").read_text() for thread in threads.iterdir()))

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


class Case(unittest.TestCase):
    """Services and clients that end with their test."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="fencepost-python-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def serve(self, *arguments: str) -> Service:
        service = Service(self.folder, list(arguments))
        self.addCleanup(service.kill)
        return service

    def client(self, *services: Service, **settings: str) -> Client:
        client = Client([service.url for service in services], **settings)  # type: ignore[arg-type]
        self.addCleanup(client.close)
        return client

    def worker(self, code: str, *arguments: str) -> "subprocess.Popen[str]":
        """Another process that runs this code."""
        command = [sys.executable, "-c", code, *arguments]
        source = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": source}
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.addCleanup(_end, child)
        return child

    def waits(self, client: Client, name: str, number: int = 1) -> None:
        until(f"{number} in line for {name}", lambda: len(client.inspect(name).waiters) == number)

    def line(self, child: "subprocess.Popen[str]") -> str:
        assert child.stdout is not None
        return child.stdout.readline().strip()


Exchange = Callable[..., Coroutine[Any, Any, Dict[str, Any]]]


def between(client: Core, action: Callable[[str, Any, Exchange], Coroutine[Any, Any, Dict[str, Any]]]) -> None:
    """Something that comes between the client and its replicas: told the path and the body of each request, it sends it,
    or does not."""
    service = client._started().service
    real = service._whole

    async def whole(index: int, method: str, target: str, body: Any, repeats: bool) -> Dict[str, Any]:
        return await action(target, body, lambda: real(index, method, target, body, repeats))

    service._whole = whole  # type: ignore[method-assign]


def _end(child: "subprocess.Popen[str]") -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGCONT)
        child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def after(seconds: float, action: Optional[Callable[[], object]]) -> None:
    """Does it on another thread."""
    import threading

    timer = threading.Timer(seconds, action or (lambda: None))
    timer.daemon = True
    timer.start()
