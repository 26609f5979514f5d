"""The client for programs without an event loop."""

from __future__ import annotations

import logging
import os
import threading
import time
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Optional,
    Type,
    TypeVar,
)

from . import _kinds
from ._claims import Claim
from ._core import Core
from ._engine import Engine
from ._held import Held, drop, undo, when_dropped
from ._keeper import TICK, Keeper
from .errors import Busy, FencepostError, LockLost
from .models import Election, Event, Holder, LockState

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._kinds import LockOptions, Options

log = logging.getLogger("fencepost")
T = TypeVar("T")


class Lost:
    """Like a `threading.Event` that is set when the lock is lost, a margin before its lease ends."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._event = threading.Event()
        event = self._event
        keeper.on_lost(lambda _: event.set())

    def is_set(self) -> bool:
        return self._keeper.loss() is not None

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Until it is lost, or for so many seconds; whether it is."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            self._event.wait(self._pause(left))
        return True

    def _pause(self, left: Optional[float]) -> Optional[float]:
        """No longer than until it may be lost by the clock, whoever else should have found that out."""
        if self._keeper.closed:
            return left
        look = min(TICK, max(0.001, self._keeper.seconds_to_loss()))
        return look if left is None else min(look, left)

    @property
    def why(self) -> Optional[LockLost]:
        return self._keeper.loss()


class Lock(Held):
    """A lock that is held, and renewed by the client's thread until it is released."""

    def __init__(self, core: Core, engine: Engine, keeper: Keeper) -> None:
        super().__init__(core, engine, keeper)
        self.lost = Lost(keeper)
        when_dropped(self, drop, engine, keeper)

    def on_lost(self, action: Callable[[LockLost], None]) -> None:
        """Calls it once when the lock is lost, on a thread of its own: to close what the work is blocked on."""
        name = self.name

        def act(loss: LockLost) -> None:
            try:
                action(loss)
            except Exception:
                log.exception("%s: what was to be done on loss failed", name)

        def begin(loss: LockLost) -> None:
            # It may take its time, or use the client, whose own thread has others to renew.
            threading.Thread(target=act, args=(loss,), name="fencepost-lost", daemon=True).start()

        self._keeper.on_lost(begin)

    def renew(self) -> float:
        """Renews now, besides the client's own renewals; answers the seconds left."""
        self.check()
        self._engine.wait(self._keeper.renew_now())
        return self.remaining()

    def release(self) -> None:
        """Lets go. `LockLost`: it had been lost before. `Unreachable`: not confirmed yet; it is tried on until the lease
        ends. Released once more, it does nothing."""
        if self._leaves():
            self._engine.wait(self._keeper.release())

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.release()
        except FencepostError as trouble:
            self._not_released(trouble, error)


class Pending:
    """A claim: `with` it, or `acquire` it. Each is good for one hold."""

    def __init__(self, core: Core, claim: Claim) -> None:
        self._core, self._claim = core, claim
        self._lock: Optional[Lock] = None
        self._used = False

    def acquire(self) -> Lock:
        """Waits for it. Interrupted, it is out of the line at once, and nothing stays locked."""
        if self._used:
            raise RuntimeError("a claim is good for one hold: make another one")
        self._used = True
        engine = self._core._started()
        return Lock(self._core, engine, engine.wait(self._core._take(engine, self._claim), undo))

    def __enter__(self) -> Lock:
        self._lock = self.acquire()
        return self._lock

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.__exit__(kind, error, trace)


class Stream(Generic[T], Iterator[T]):
    """What comes, one after the other; `close` ends it."""

    def __init__(self, engine: Engine, source: AsyncIterator[T]) -> None:
        self._engine, self._source = engine, source

    def __next__(self) -> T:
        try:
            return self._engine.wait(_next(self._source))
        except StopAsyncIteration:
            raise StopIteration from None
        except FencepostError as error:
            if error.code != "closed":
                raise
            raise StopIteration from None

    def close(self) -> None:
        try:
            self._engine.wait(_close(self._source))
        except FencepostError as error:
            # The client has ended it.
            if error.code != "closed":
                raise

    def __enter__(self) -> Stream[T]:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


async def _next(source: AsyncIterator[T]) -> T:
    return await source.__anext__()


async def _close(source: AsyncIterator[Any]) -> None:
    await source.aclose()  # type: ignore[attr-defined]


class Client(Core):
    """Locks through the service: `Client("http://127.0.0.1:7117")`, or several replicas as a list.

    May be shared by threads. One thread of its own renews everything that it holds.
    """

    def lock(self, name: str, **options: Unpack[LockOptions]) -> Pending:
        """A lock, to be waited for `wait` seconds, or without end if that is left out."""
        return Pending(self, _kinds.lock(name, **options))

    def try_lock(self, name: str, **options: Unpack[LockOptions]) -> Optional[Lock]:
        """The lock, if nobody has it."""
        return self._at_once(_kinds.lock(name, **options))

    def semaphore(self, name: str, permits: int, *, take: int = 1, **options: Unpack[Options]) -> Pending:
        """Some of so many permits."""
        return Pending(self, _kinds.permits(name, permits, take, **options))

    def try_semaphore(
        self, name: str, permits: int, *, take: int = 1, **options: Unpack[Options]
    ) -> Optional[Lock]:
        return self._at_once(_kinds.permits(name, permits, take, **options))

    def lock_all(self, names: Iterable[str], **options: Unpack[Options]) -> Pending:
        """Several names, all or nothing, whatever their order."""
        return Pending(self, _kinds.several(names, **options))

    def try_lock_all(self, names: Iterable[str], **options: Unpack[Options]) -> Optional[Lock]:
        return self._at_once(_kinds.several(names, **options))

    def lead(self, name: str, *, payload: str = "", **options: Unpack[Options]) -> Pending:
        """Waits until it leads; `payload` is what others shall know of the leader."""
        return Pending(self, _kinds.leadership(name, payload, **options))

    def election(self, name: str) -> Election:
        """Who leads, and who would."""
        engine = self._started()
        return engine.wait(self._election(engine, name))

    def leaders(self, name: str) -> Stream[Optional[Holder]]:
        """Who leads now, then each change; `None`: nobody does."""
        engine = self._started()
        return Stream(engine, self._leaders(engine, name))

    def inspect(self, name: str) -> LockState:
        """Who has it, and who is in line."""
        engine = self._started()
        return engine.wait(self._inspect(engine, name))

    def locks(self, prefix: str = "", *, contended: bool = False) -> Iterator[LockState]:
        """All locks whose names start so, in order of their names."""
        engine, after = self._started(), None
        while True:
            states, after = engine.wait(self._page(engine, prefix, contended, after))
            yield from states
            if after is None:
                return

    def check_token(self, name: str, token: int) -> None:
        """Raises `Stale` if a newer token than this was granted."""
        engine = self._started()
        engine.wait(self._check_token(engine, name, token))

    def force_release(self, name: str, reason: str = "", *, token: Optional[int] = None) -> Optional[Holder]:
        """Takes it from its holder, who hears of it with the next renewal; with a `token` only if a holder has that, else
        `NotHeld`. Needs the right `admin`."""
        engine = self._started()
        return engine.wait(self._force_release(engine, name, reason, token))

    def ask(self, name: str, note: str = "", *, label: Optional[str] = None) -> Optional[Holder]:
        """Asks its holder to let go."""
        engine = self._started()
        return engine.wait(self._ask(engine, name, note, label))

    def deadlocks(self) -> List[List[LockState]]:
        """Each circle of locks: the holder of each waits for the next."""
        engine = self._started()
        return engine.wait(self._deadlocks(engine))

    def nodes(self) -> Dict[str, Any]:
        """What the store behind the service can do, and how its nodes are, as the service tells it."""
        engine = self._started()
        return engine.wait(self._nodes(engine))

    def events(self, prefix: str = "", *, last_id: Optional[str] = None) -> Stream[Event]:
        """What happens at a replica. After a break it goes on where it was; `missed` says that something is forgotten."""
        engine = self._started()
        return Stream(engine, self._events(engine, prefix, last_id))

    def close(self) -> None:
        """Ends every wait, releases what is still held, and ends the client's thread. Whoever works under something that is
        held is told that it is lost (`closed`)."""
        engine, self._ended = self._engine, True
        if engine is None:
            return
        self._engine = None
        if engine.pid == os.getpid():
            try:
                engine.wait(self._release_all(engine))
            finally:
                engine.stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _at_once(self, claim: Claim) -> Optional[Lock]:
        try:
            return Pending(self, _kinds.at_once(claim)).acquire()
        except Busy:
            return None
