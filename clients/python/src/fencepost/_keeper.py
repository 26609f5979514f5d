"""Keeps one lease: renews it in time, and says in time that it is lost."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass
from typing import Any, Callable, Coroutine, Dict, List, Optional, Set

from ._clock import now, valid_until
from ._service import Json, Service
from .errors import FencepostError, LockLost, NotHeld, Unreachable
from .models import YieldRequest

log = logging.getLogger("fencepost")

# How long leaving waits for the service to confirm; after that it is tried in the background.
LEAVE_TIME = 2.0
# At most so long until a machine that has slept looks at the clock.
TICK = 1.0
# When to say again that something is given up of which a request was never answered: nobody knows when it is heard.
INSIST = (0.25, 1.0, 3.0, 6.0)


@dataclass(frozen=True)
class Routes:
    """How a kind of thing is taken and kept."""

    acquire: str
    renew: str
    release: str
    # Without waiting; a kind that has no such route waits for no time.
    attempt: Optional[str]
    # The claim is made under an owner of ours, and may be sent again.
    owned: bool


@dataclass(frozen=True)
class Terms:
    """How a lease is kept."""

    ttl: float
    margin: float
    max_hold: Optional[float]
    # A lock that was not released rests for a while: whoever lost it must not release it, which would end that.
    rests: bool


Lost = Callable[[LockLost], None]


class Keeper:
    """Lives on the loop of the engine; `remaining`, `loss` and `on_lost` may be called from any thread."""

    def __init__(
        self,
        service: Service,
        name: str,
        routes: Routes,
        lease: Json,
        sent: float,
        terms: Terms,
        unheard: bool = False,
    ) -> None:
        """`unheard`: a request of its claim was never answered, and may be heard after the release."""
        self.name, self.lease, self.ttl = name, lease, terms.ttl
        self.asked: Optional[YieldRequest] = None
        self.renewals = 0
        self.closed = False
        self._service, self._routes, self._terms, self._unheard = service, routes, terms, unheard
        self._sent = sent
        self._limit = None if terms.max_hold is None else now() + terms.max_hold
        self._loss: Optional[LockLost] = None
        self._listeners: List[Lost] = []
        self._guard = threading.Lock()
        self._tasks: List[asyncio.Task[None]] = []
        self._releasing: Optional[asyncio.Task[None]] = None

    def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._renew()), asyncio.ensure_future(self._watch())]

    # What may be asked from any thread.

    def _ends(self) -> float:
        end = valid_until(self._sent, self.ttl)
        return end if self._limit is None else min(end, self._limit)

    def _loss_at(self) -> float:
        end = valid_until(self._sent, self.ttl) - self._terms.margin
        return end if self._limit is None else min(end, self._limit)

    def remaining(self) -> float:
        return 0.0 if self.loss() is not None else max(0.0, self._ends() - now())

    def loss(self) -> Optional[LockLost]:
        """By all we have heard, and by the clock of this very moment."""
        if self._loss is None and not self.closed and now() >= self._loss_at():
            self._lose(self._why_over())
        return self._loss

    def on_lost(self, listener: Lost) -> None:
        with self._guard:
            if self._loss is None:
                self._listeners.append(listener)
                return
        listener(self._loss)

    def seconds_to_loss(self) -> float:
        """Until it is lost unless it is renewed."""
        return self._loss_at() - now()

    @property
    def is_left(self) -> bool:
        """Released, or as good as that."""
        return self._releasing is not None and self._releasing.done()

    def abandon(self) -> None:
        """Its client ends it, whoever works under it."""
        self._lose(LockLost(self.name, "closed", "its client was closed"))

    def disown(self, reason: str, detail: str) -> None:
        """Not ours any more. Nobody is told: whoever listens is of another process."""
        self._guard = threading.Lock()
        self._listeners = []
        self._loss = LockLost(self.name, reason, detail)

    def _why_over(self) -> LockLost:
        if self._limit is not None and now() >= self._limit:
            return LockLost(self.name, "max_hold", f"held for {self._terms.max_hold:g} s, as long as was allowed")
        return LockLost(self.name, "expired", "it could not be renewed in time")

    def _lose(self, loss: LockLost) -> None:
        with self._guard:
            if self._loss is not None or self.closed:
                return
            self._loss = loss
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            try:
                listener(loss)
            except Exception:
                log.exception("%s: what was to be done on loss failed", self.name)

    # On the loop.

    async def _watch(self) -> None:
        while self.loss() is None and not self.closed:
            await asyncio.sleep(max(0.0, min(self._loss_at() - now(), TICK)))

    async def _renew(self) -> None:
        following, failing = self._sent + self.ttl / 3, False
        # A cancellation can get lost in what is awaited here.
        while self._loss is None and not self.closed:
            pause = following - now()
            if pause > 0:
                await asyncio.sleep(min(pause, TICK))
                continue
            try:
                await self.renew_now()
                following, failing = self._sent + self.ttl / 3, False
            except LockLost:
                return
            except FencepostError as error:
                # The old end stands. Ask again soon, as long as there is time.
                if not failing:
                    log.warning("%s: not renewed yet, %.3g s left: %s", self.name, self.remaining(), error)
                following, failing = now() + self.ttl / 24, True
            except Exception:
                log.exception("%s: not renewed yet", self.name)
                following, failing = now() + self.ttl / 24, True

    async def renew_now(self) -> None:
        """One round. `LockLost`, or another error: nobody knows, and the old end stands."""
        loss = self.loss()
        if loss is not None:
            raise loss
        sent = now()
        try:
            # Short enough to leave time for the others, and for another round.
            answer = await self._ask(self._routes.renew, each=self.ttl / 6, until=self._loss_at())
        except NotHeld as error:
            reason = "revoked" if error.reason == "revoked" else "gone"
            self._lose(LockLost(self.name, reason, error.detail))
            loss = self.loss()
            if loss is not None:
                raise loss from None
            raise
        if self._loss is None:
            self._sent = max(self._sent, sent)
            self.renewals += 1
            asked = answer.get("yield_requested")
            self.asked = YieldRequest.of(asked) if asked else None

    async def _ask(self, path: str, each: float, until: float) -> Json:
        return await self._service.ask("POST", path, self.lease, each=each, until=until)

    async def release(self) -> None:
        """Ends the hold. `LockLost`: it had ended before. `Unreachable`: not confirmed yet, and tried on until the end
        of the lease. Whoever is cancelled meanwhile leaves a release behind that goes on."""
        if self._releasing is None:
            self._releasing = asyncio.ensure_future(self._release())
        await asyncio.shield(self._releasing)

    async def _release(self) -> None:
        loss = self.loss()
        self.closed = True
        for task in self._tasks:
            task.cancel()
        # No renewal comes after the release.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if loss is None:
            await self._leave()
            return
        is_over = loss.reason in ("expired", "max_hold")
        if loss.reason == "closed":
            try:
                await self._leave()
            except FencepostError:
                pass
        elif not (is_over and self._terms.rests):
            if is_over:
                # It may still be there, and others wait for it.
                background(self._release_until(now() + self.ttl))
            self._insist()
        raise loss

    async def _leave(self) -> None:
        end = valid_until(self._sent, self.ttl)
        try:
            await self._ask(self._routes.release, each=LEAVE_TIME / 2, until=min(end, now() + LEAVE_TIME))
        except NotHeld as error:
            if error.asked_before:
                return
            reason = "revoked" if error.reason == "revoked" else "gone"
            self._loss = self._loss or LockLost(self.name, reason, error.detail)
            raise self._loss from None
        except Unreachable as error:
            log.warning("%s: release not confirmed yet, trying on: %s", self.name, error)
            background(self._release_until(end))
            raise
        finally:
            self._insist()

    def _insist(self) -> None:
        if self._unheard:
            background(insist(self._release_again))

    async def _release_again(self) -> bool:
        try:
            await self._service.ask("POST", self._routes.release, self.lease, each=LEAVE_TIME / 2)
            return True
        except FencepostError:
            return False

    async def _release_until(self, end: float) -> None:
        while now() < end:
            try:
                await self._ask(self._routes.release, each=LEAVE_TIME / 2, until=end)
                return
            except Unreachable:
                await asyncio.sleep(min(1.0, self.ttl / 24))
            except FencepostError:
                return


_running: Set[asyncio.Task[Any]] = set()


def background(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Runs it though nobody waits for it. The loop alone would forget it."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


async def insist(say: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Says it again and again for a while, until that was good for something."""
    for pause in INSIST:
        await asyncio.sleep(pause)
        if await say():
            return


def tokens_of(lease: Json) -> Dict[str, str]:
    """The tokens of a lease by name, as text; of one lock under its own name."""
    if "tokens" in lease:
        return dict(lease["tokens"])
    return {str(lease.get("name", "")): str(lease["token"])} if "token" in lease else {}
