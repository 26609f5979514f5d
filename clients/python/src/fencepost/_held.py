"""What a hold can be asked, whichever way it is held."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from typing import Any, Callable, Dict, List, Optional

from ._engine import Call, Engine
from ._keeper import Keeper, tokens_of
from .errors import FencepostError, Invalid, LockLost
from .models import Permit, YieldRequest, token_number

log = logging.getLogger("fencepost")


class Held:
    """Something that is held, until it is not."""

    def __init__(self, core: object, engine: Engine, keeper: Keeper) -> None:
        # The client ends when nobody has it any more: not while something is held.
        self._core = core
        self._engine, self._keeper = engine, keeper
        self._left = False

    @property
    def name(self) -> str:
        """Of the lock, the semaphore or the election; of several locks all names, joined by commas."""
        return self._keeper.name

    @property
    def token(self) -> int:
        """The fencing token, to be shown to whatever the lock protects; of a leader the term.

        A reader has none that is good for a write: `reader_token` is for its log.
        """
        tokens = list(tokens_of(self._keeper.lease).values())
        if len(tokens) != 1:
            raise Invalid("token: each permit and each name has its own: see `permits` and `tokens`")
        if tokens[0].startswith("r"):
            raise Invalid("token: a reader has none that is good for a write: see `reader_token`")
        return int(tokens[0])

    @property
    def reader_token(self) -> int:
        """The number of a reader's token: orders nothing that is written."""
        tokens = list(tokens_of(self._keeper.lease).values())
        if len(tokens) != 1 or not tokens[0].startswith("r"):
            raise Invalid("reader_token: this is no reader: see `token`")
        return token_number(tokens[0])

    @property
    def tokens(self) -> Dict[str, int]:
        """The token of each name."""
        return {name: int(token) for name, token in tokens_of(self._keeper.lease).items() if not token.startswith("r")}

    @property
    def permits(self) -> List[Permit]:
        """Of a semaphore."""
        return [Permit(int(each["slot"]), int(each["token"])) for each in self._keeper.lease.get("permits", [])]

    @property
    def yield_requested(self) -> Optional[YieldRequest]:
        """Somebody would like to have it, as the last renewal told. The holder decides."""
        return self._keeper.asked

    @property
    def is_held(self) -> bool:
        """By our own clock and all we have heard. It does not replace the check of the token at the resource."""
        return not self._keeper.closed and self._keeper.loss() is None

    def remaining(self) -> float:
        """Seconds until it may not be believed in any more without renewal; zero once lost or released."""
        return 0.0 if self._keeper.closed else self._keeper.remaining()

    def check(self) -> None:
        """Raises `LockLost` unless it is held: for the middle of long work."""
        loss = self._keeper.loss()
        if loss is not None:
            raise loss
        if self._keeper.closed:
            raise FencepostError(f"{self.name}: it was released", code="not_held")

    def _leaves(self) -> bool:
        """Whether it is to be released now. `LockLost`: its client, or a fork, has ended it."""
        if self._left:
            return False
        self._left = True
        loss = self._keeper.loss()
        if loss is not None and (self._keeper.closed or loss.reason in ("forked", "closed")):
            raise loss
        return not self._keeper.closed

    def _not_released(self, trouble: FencepostError, error: Optional[BaseException]) -> None:
        """At the end of the work, which may have failed with an error: that is never hidden."""
        loss = trouble if isinstance(trouble, LockLost) else self._keeper.loss()
        if loss is None:
            # The work was done while the lock was held. What is left of the lease ends by itself.
            log.warning("%s: release not confirmed: %s", self.name, trouble)
        elif error is None:
            raise loss from None
        elif error is not loss:
            log.warning("%s", loss)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {'held' if self.is_held else 'not held'}>"


def when_dropped(thing: object, action: Callable[..., None], *arguments: Any) -> None:
    """Does it when nobody has the thing any more, but not at the end of the program, when nobody may wait."""
    finalizer = weakref.finalize(thing, action, *arguments)
    finalizer.atexit = False  # type: ignore[misc]


def drop(engine: Engine, keeper: Keeper) -> None:
    """Nobody has the hold any more who could release it: it must not be renewed for ever."""
    if keeper.closed or engine.pid != os.getpid():
        return
    try:
        engine.submit(Call(release_quietly(keeper), None))
    except (FencepostError, RuntimeError):
        # The loop has ended, and renewal with it.
        pass


async def release_quietly(keeper: Keeper) -> None:
    try:
        await keeper.release()
    except FencepostError:
        pass


async def undo(keeper: Keeper) -> None:
    await release_quietly(keeper)


def as_task(loop: asyncio.AbstractEventLoop, action: Any) -> None:
    """Runs it on that loop, if it is still there."""
    try:
        loop.call_soon_threadsafe(action)
    except RuntimeError:
        pass
