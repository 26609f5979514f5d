"""The client for asyncio."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, AsyncIterator, Dict, Generator, Generic, Iterable, List, Optional, Type, TypeVar

from . import _kinds
from ._aside import aside
from ._claims import Claim
from ._core import Core
from ._engine import Engine
from ._held import Held, as_task, drop, undo, when_dropped
from ._keeper import Keeper
from .errors import Busy, FencepostError, LockLost
from .models import Election, Event, Holder, LockState

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._kinds import LockOptions, Options

T = TypeVar("T")


class AsyncLost:
    """Like an `asyncio.Event` that is set when the lock is lost, a margin before its lease ends."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._event = asyncio.Event()
        event, loop = self._event, asyncio.get_running_loop()
        keeper.on_lost(lambda _: as_task(loop, event.set))

    def is_set(self) -> bool:
        return self._keeper.loss() is not None

    async def wait(self) -> bool:
        if not self.is_set():
            await self._event.wait()
        return True

    @property
    def why(self) -> Optional[LockLost]:
        return self._keeper.loss()


class _Body:
    """The task that works under a lock. It is cancelled when the lock is lost, and only while it does."""

    def __init__(self, keeper: Keeper) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._works, self.cancelled = task, True, False
        loop = asyncio.get_running_loop()
        keeper.on_lost(lambda _: as_task(loop, self._cancel))

    def _cancel(self) -> None:
        if self._works:
            self._works, self.cancelled = False, True
            self._task.cancel()

    async def end(self, error: Optional[BaseException]) -> bool:
        """No cancellation comes from here any more. Whether `error` is ours, and nobody else cancelled the task."""
        self._works = False
        if not self.cancelled:
            return False
        if not isinstance(error, asyncio.CancelledError):
            # The work ended before it heard of it: take it back.
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                pass
        uncancel = getattr(self._task, "uncancel", None)
        others = uncancel() if uncancel is not None else 0
        return isinstance(error, asyncio.CancelledError) and others == 0


class AsyncLock(Held):
    """A lock that is held, and renewed by the client's thread until it is released."""

    def __init__(self, core: Core, engine: Engine, keeper: Keeper) -> None:
        super().__init__(core, engine, keeper)
        self.lost = AsyncLost(keeper)
        self._body: Optional[_Body] = None
        when_dropped(self, drop, engine, keeper)

    async def renew(self) -> float:
        """Renews now, besides the client's own renewals; answers the seconds left."""
        self.check()
        await self._engine.wait_async(self._keeper.renew_now())
        return self.remaining()

    async def release(self) -> None:
        """Lets go. `LockLost`: it had been lost before. `Unreachable`: not confirmed yet; it is tried on until the lease
        ends. Cancelled meanwhile, the release goes on."""
        if self._leaves():
            await self._engine.wait_async(self._keeper.release())

    async def __aenter__(self) -> AsyncLock:
        """From here on the task is cancelled when the lock is lost."""
        self._body = _Body(self._keeper)
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        body, self._body = self._body, None
        ours = await body.end(error) if body is not None else False
        try:
            await self.release()
        except FencepostError as trouble:
            self._not_released(trouble, None if ours else error)


class AsyncPending:
    """A claim: `async with` it, or `await` it. Each is good for one hold."""

    def __init__(self, core: Core, claim: Claim) -> None:
        self._core, self._claim = core, claim
        self._lock: Optional[AsyncLock] = None
        self._used = False

    async def acquire(self) -> AsyncLock:
        """Waits for it. Cancelled, it is out of the line at once, and nothing stays locked."""
        if self._used:
            raise RuntimeError("a claim is good for one hold: make another one")
        self._used = True
        engine = self._core._started()
        return AsyncLock(self._core, engine, await engine.wait_async(self._core._take(engine, self._claim), undo))

    def __await__(self) -> Generator[Any, None, AsyncLock]:
        return self.acquire().__await__()

    async def __aenter__(self) -> AsyncLock:
        self._lock = await self.acquire()
        return await self._lock.__aenter__()

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            await lock.__aexit__(kind, error, trace)


class AsyncStream(Generic[T], AsyncIterator[T]):
    """What comes, one after the other; `aclose` ends it."""

    def __init__(self, engine: Engine, source: AsyncIterator[T]) -> None:
        self._engine, self._source = engine, source

    async def __anext__(self) -> T:
        try:
            return await self._engine.wait_async(_next(self._source))
        except FencepostError as error:
            # The client has ended it.
            if error.code != "closed":
                raise
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        try:
            await self._engine.wait_async(_close(self._source))
        except FencepostError as error:
            # The client has ended it.
            if error.code != "closed":
                raise

    async def __aenter__(self) -> AsyncStream[T]:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()


async def _next(source: AsyncIterator[T]) -> T:
    return await source.__anext__()


async def _close(source: AsyncIterator[Any]) -> None:
    await source.aclose()  # type: ignore[attr-defined]


class AsyncClient(Core):
    """Locks through the service, for asyncio. Renewal has a thread of its own, so that a loop that is busy for a while
    loses no lock."""

    def lock(self, name: str, **options: Unpack[LockOptions]) -> AsyncPending:
        """A lock, to be waited for `wait` seconds, or without end if that is left out."""
        return AsyncPending(self, _kinds.lock(name, **options))

    async def try_lock(self, name: str, **options: Unpack[LockOptions]) -> Optional[AsyncLock]:
        """The lock, if nobody has it."""
        return await self._at_once(_kinds.lock(name, **options))

    def semaphore(self, name: str, permits: int, *, take: int = 1, **options: Unpack[Options]) -> AsyncPending:
        """Some of so many permits."""
        return AsyncPending(self, _kinds.permits(name, permits, take, **options))

    async def try_semaphore(
        self, name: str, permits: int, *, take: int = 1, **options: Unpack[Options]
    ) -> Optional[AsyncLock]:
        return await self._at_once(_kinds.permits(name, permits, take, **options))

    def lock_all(self, names: Iterable[str], **options: Unpack[Options]) -> AsyncPending:
        """Several names, all or nothing, whatever their order."""
        return AsyncPending(self, _kinds.several(names, **options))

    async def try_lock_all(self, names: Iterable[str], **options: Unpack[Options]) -> Optional[AsyncLock]:
        return await self._at_once(_kinds.several(names, **options))

    def lead(self, name: str, *, payload: str = "", **options: Unpack[Options]) -> AsyncPending:
        """Waits until it leads; `payload` is what others shall know of the leader."""
        return AsyncPending(self, _kinds.leadership(name, payload, **options))

    async def election(self, name: str) -> Election:
        """Who leads, and who would."""
        engine = self._started()
        return await engine.wait_async(self._election(engine, name))

    def leaders(self, name: str) -> AsyncStream[Optional[Holder]]:
        """Who leads now, then each change; `None`: nobody does."""
        engine = self._started()
        return AsyncStream(engine, self._leaders(engine, name))

    async def inspect(self, name: str) -> LockState:
        """Who has it, and who is in line."""
        engine = self._started()
        return await engine.wait_async(self._inspect(engine, name))

    async def locks(self, prefix: str = "", *, contended: bool = False) -> AsyncIterator[LockState]:
        """All locks whose names start so, in order of their names."""
        engine, after = self._started(), None
        while True:
            states, after = await engine.wait_async(self._page(engine, prefix, contended, after))
            for state in states:
                yield state
            if after is None:
                return

    async def check_token(self, name: str, token: int) -> None:
        """Raises `Stale` if a newer token than this was granted."""
        engine = self._started()
        await engine.wait_async(self._check_token(engine, name, token))

    async def force_release(self, name: str, reason: str = "", *, token: Optional[int] = None) -> Optional[Holder]:
        """Takes it from its holder, who hears of it with the next renewal; with a `token` only if a holder has that, else
        `NotHeld`. Needs the right `admin`."""
        engine = self._started()
        return await engine.wait_async(self._force_release(engine, name, reason, token))

    async def ask(self, name: str, note: str = "", *, label: Optional[str] = None) -> Optional[Holder]:
        """Asks its holder to let go."""
        engine = self._started()
        return await engine.wait_async(self._ask(engine, name, note, label))

    async def deadlocks(self) -> List[List[LockState]]:
        """Each circle of locks: the holder of each waits for the next."""
        engine = self._started()
        return await engine.wait_async(self._deadlocks(engine))

    async def nodes(self) -> Dict[str, Any]:
        """What the store behind the service can do, and how its nodes are, as the service tells it."""
        engine = self._started()
        return await engine.wait_async(self._nodes(engine))

    def events(self, prefix: str = "", *, last_id: Optional[str] = None) -> AsyncStream[Event]:
        """What happens at a replica. After a break it goes on where it was; `missed` says that something is forgotten."""
        engine = self._started()
        return AsyncStream(engine, self._events(engine, prefix, last_id))

    async def aclose(self) -> None:
        """Ends every wait, releases what is still held, and ends the client's thread. Whoever works under something that is
        held is told that it is lost (`closed`)."""
        engine, self._ended = self._engine, True
        if engine is None:
            return
        self._engine = None
        if engine.pid == os.getpid():
            try:
                await engine.wait_async(self._release_all(engine))
            finally:
                await aside(engine.stop)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.aclose()

    async def _at_once(self, claim: Claim) -> Optional[AsyncLock]:
        try:
            return await AsyncPending(self, _kinds.at_once(claim)).acquire()
        except Busy:
            return None
