"""One thread for each client, with a loop of its own: renewals go on whatever the program does meanwhile, also while it
blocks its own event loop. Both the synchronous and the asynchronous client are thin shells around it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from concurrent.futures import Future
from typing import Any, Callable, Coroutine, Generic, Iterator, List, Optional, Set, TypeVar

from ._keeper import Keeper
from ._service import Service
from .errors import FencepostError

T = TypeVar("T")

# Who gives up waits so long for what it leaves behind to be cleaned up.
CLEAN_UP = 2.5
# At its end the engine waits so long for claims to be given up, and for what is still held to be released.
LET_GO = 2.0

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
# A child of a fork keeps its parent's, untouched: their sockets are the parent's, too.
_inherited: List[Any] = []


class Call(Generic[T]):
    """Work on the loop that somebody waits for. If they stop waiting, what it brings is undone."""

    def __init__(self, work: Coroutine[Any, Any, T], undo: Optional[Callable[[T], Coroutine[Any, Any, None]]]) -> None:
        self._work, self._undo = work, undo
        self._guard = threading.Lock()
        self._given_up = False
        self._brought: List[T] = []
        self.ended: Future[None] = Future()

    async def run(self) -> T:
        try:
            result = await self._work
            with self._guard:
                if not self._given_up:
                    self._brought.append(result)
                    return result
            await self.undo(result)
            return result
        finally:
            self.ended.set_result(None)

    def give_up(self) -> List[T]:
        """Nobody waits any more. What it has brought, if it has: between that and the caller's ears anything can happen."""
        with self._guard:
            self._given_up = True
            return self._brought

    def close(self) -> None:
        """It is never run."""
        self._work.close()

    async def undo(self, result: T) -> None:
        if self._undo is not None:
            try:
                await self._undo(result)
            except Exception:
                pass


class Engine:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._claims: Set[asyncio.Task[Any]] = set()
        self.pid = os.getpid()
        self._stopped = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fencepost", daemon=True)
        self._thread.start()
        _engines.add(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._let_go())
        # What is cancelled may leave something behind for the background.
        tasks = asyncio.all_tasks(self._loop)
        while tasks:
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            tasks = asyncio.all_tasks(self._loop)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self.service.close()
        # What was aborted is closed with the next turn of the loop.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _let_go(self) -> None:
        """Nothing is renewed from here on: whoever works under something is told, and who waits waits no more."""
        ending: List[asyncio.Future[Any]] = list(self._claims)
        for claim in self._claims:
            claim.cancel()
        for keeper in list(self.keepers):
            if not keeper.is_left:
                keeper.abandon()
                ending.append(asyncio.ensure_future(keeper.release()))
        if ending:
            all_of_it = asyncio.gather(*ending, return_exceptions=True)
            await asyncio.wait([all_of_it], timeout=LET_GO)

    @contextlib.contextmanager
    def claiming(self) -> Iterator[None]:
        """The task that runs here claims something, and cleans up behind itself when it is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        self._claims.add(task)
        try:
            yield
        finally:
            self._claims.discard(task)

    def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        if self.pid == os.getpid() and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            if threading.current_thread() is not self._thread:
                self._thread.join(CLEAN_UP)

    def submit(self, call: Call[T]) -> Future[T]:
        run = call.run()
        try:
            if self._stopped:
                raise closed()
            return asyncio.run_coroutine_threadsafe(run, self._loop)
        except BaseException:
            run.close()
            call.close()
            raise

    def wait(
        self, work: Coroutine[Any, Any, T], undo: Optional[Callable[[T], Coroutine[Any, Any, None]]] = None
    ) -> T:
        """Blocks this thread. Interrupted, it leaves nothing behind."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this is the thread that renews: do that in another one")
        call = Call(work, undo)
        future = self.submit(call)
        try:
            return future.result()
        except BaseException:
            if self._stopped and future.cancelled():
                raise closed() from None
            ended = self._give_up(call, future)
            if ended is not None:
                _quietly(ended)
            raise

    async def wait_async(
        self, work: Coroutine[Any, Any, T], undo: Optional[Callable[[T], Coroutine[Any, Any, None]]] = None
    ) -> T:
        """The same without blocking the caller's loop."""
        call = Call(work, undo)
        future = self.submit(call)
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            if self._stopped and future.cancelled():
                raise closed() from None
            ended = self._give_up(call, future)
            if ended is not None:
                await asyncio.wait([asyncio.wrap_future(ended)], timeout=CLEAN_UP)
            raise

    def _give_up(self, call: Call[T], future: Future[T]) -> Optional[Future[None]]:
        """What to wait for, when whoever asked for this work stops waiting. Nothing, if the work itself failed."""
        brought = call.give_up()
        cancelled = future.cancel()
        if brought:
            return self.submit(Call(call.undo(brought[0]), None))
        return call.ended if cancelled else None


def closed() -> FencepostError:
    return FencepostError("this client was closed", code="closed")


def _quietly(ended: Future[None]) -> None:
    try:
        ended.result(CLEAN_UP)
    except Exception:
        pass


def _forked() -> None:
    for engine in list(_engines):
        _inherited.append(engine)
        for keeper in list(engine.keepers):
            keeper.disown("forked", "it is held by the process that forked this one")
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
