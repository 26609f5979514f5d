"""Claims: taken at once or waited for in line, the same claim at whichever replica, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import math
import random
import secrets
from dataclasses import dataclass
from typing import Any, AsyncIterator, Dict, Mapping, Optional, Tuple

from ._clock import now
from ._http import Said
from ._keeper import Keeper, Routes, Terms, background, insist
from ._service import Json, Service
from .errors import Busy, FencepostError, Limited, NotHeld, Unreachable, from_problem

# The longest wait of one request; the claim comes back with its ticket after that.
WAIT_MAX = 240.0
# Who waits without end is told of trouble that lasts so long.
TROUBLE_MAX = 30.0
# What was handed over in line lasts so long until it is renewed.
HAND_OVER = 3.0
FORGET_TIME = 2.0
SETTLE_TIME = 1.0


@dataclass(frozen=True)
class Claim:
    """What is wanted, and for how long to wait: `None` is without end."""

    name: str
    routes: Routes
    body: Mapping[str, Any]
    terms: Terms
    wait: Optional[float]


class _Again(Exception):
    """The same claim goes on with another request."""

    def __init__(self, trouble: Optional[FencepostError] = None) -> None:
        super().__init__()
        self.trouble = trouble


async def take(service: Service, claim: Claim) -> Keeper:
    """Waits for the claim. Cancelled or failed, it is out of the line, and what was on its way is given back."""
    return await _Pursuit(service, claim).run()


class _Pursuit:
    def __init__(self, service: Service, claim: Claim) -> None:
        self._service, self._claim = service, claim
        self._began = now()
        self._until = None if claim.wait is None else self._began + claim.wait
        self._owner = secrets.token_hex(20)
        self._ticket: Optional[str] = None
        # The store may know of us.
        self._known = False
        # A request was never answered: it may be heard at any time.
        self._unheard = False
        # What was granted, as long as it is not known to have ended.
        self._lease: Optional[Json] = None
        self._trouble_since: Optional[float] = None

    def _left(self) -> float:
        return math.inf if self._until is None else self._until - now()

    async def run(self) -> Keeper:
        waits = self._claim.wait is None or self._claim.wait > 0
        try:
            pause = 0.05
            while True:
                try:
                    sent = now()
                    lease, waited = await (self._wait() if waits else self._attempt())
                    if waited or now() - sent > self._claim.terms.ttl / 3:
                        sent = await self._sure(lease)
                    keeper = self._keeper(lease, sent)
                    keeper.start()
                    return keeper
                except _Again as again:
                    if again.trouble is None:
                        self._trouble_since, pause = None, 0.05
                        continue
                    await self._ride_out(again.trouble, pause)
                    pause = min(1.0, pause * 2)
        except asyncio.CancelledError:
            await self._forget(insists=True)
            raise
        except BaseException as error:
            # Nobody waits for this: the error is what counts.
            background(self._forget(insists=isinstance(error, Unreachable)))
            raise

    async def _ride_out(self, trouble: FencepostError, pause: float) -> None:
        if self._trouble_since is None:
            self._trouble_since = now()
        pause = max(pause * random.uniform(0.5, 1.0), getattr(trouble, "retry_after", 0.0) * 0.5)
        has_time = self._left() > pause and (self._until is not None or now() - self._trouble_since < TROUBLE_MAX)
        if not has_time:
            raise trouble
        await asyncio.sleep(pause)

    def _body(self) -> Dict[str, Any]:
        body = dict(self._claim.body)
        if self._claim.routes.owned:
            body["owner"] = self._owner
            if self._ticket is not None:
                body["ticket"] = self._ticket
        return body

    def _keeper(self, lease: Json, sent: float) -> Keeper:
        claim = self._claim
        return Keeper(self._service, claim.name, claim.routes, lease, sent, claim.terms, self._unheard)

    def _is_unheard(self) -> None:
        self._unheard = True

    async def _attempt(self) -> Tuple[Json, bool]:
        routes = self._claim.routes
        path = routes.attempt or routes.acquire
        before, self._known = self._known, True
        asking = asyncio.ensure_future(
            self._service.ask("POST", path, self._body(), repeats=routes.owned, unheard=self._is_unheard)
        )
        try:
            self._lease = await asyncio.shield(asking)
        except asyncio.CancelledError:
            await self._settled(asking)
            if not asking.cancelled() and asking.exception() is None:
                self._lease = asking.result()
                if not routes.owned:
                    await self._give_back_surely(self._lease)
            raise
        except Unreachable as error:
            self._known = before or error.outcome_unknown
            raise
        except Busy as busy:
            self._known = before or busy.asked_before
            raise
        return self._lease, False

    async def _wait(self) -> Tuple[Json, bool]:
        """The lease, and whether others came first."""
        left = max(0.0, min(self._left(), WAIT_MAX))
        body = {**self._body(), "wait_ms": math.ceil(left * 1000)}
        return await (self._in_line(body) if self._claim.routes.owned else self._in_silence(body, left))

    async def _in_line(self, body: Mapping[str, Any]) -> Tuple[Json, bool]:
        """By a stream, which tells that the replica is still there."""
        self._known = True
        opening = asyncio.ensure_future(self._open(body))
        try:
            replica, first, events = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await self._settled(opening)
            if not opening.cancelled() and opening.exception() is None:
                _, first, events = opening.result()
                if first is None:
                    self._unheard = True
                elif first.kind == "granted":
                    self._lease = json.loads(first.data)
                await _close(events)
            raise
        except (Unreachable, Limited) as error:
            raise _Again(error) from None
        waited = False
        try:
            async for said in _chained(first, events):
                data = json.loads(said.data)
                if said.kind == "granted":
                    self._lease = data
                    return data, waited
                if said.kind == "waiting":
                    waited, self._ticket = True, data.get("ticket", self._ticket)
                    self._trouble_since = None
                elif said.kind == "problem":
                    self._refused(replica, data)
        finally:
            await _close(events)
        # One that has gone may come back.
        self._unheard = True
        self._service.leave(replica)
        raise _Again(Unreachable("the replica has gone while we waited", outcome_unknown=True))

    async def _open(self, body: Mapping[str, Any]) -> Tuple[int, Optional[Said], AsyncIterator[Said]]:
        """The stream, and its first event: by then the service has seen the claim, so that a release comes after it."""
        path = self._claim.routes.acquire
        replica, events = await self._service.stream("POST", path, body, unheard=self._is_unheard)
        try:
            first = await events.__anext__()
        except StopAsyncIteration:
            first = None
        return replica, first, events

    def _refused(self, replica: int, problem: Json) -> None:
        error = from_problem(int(problem.get("status") or 500), problem)
        if isinstance(error, Busy):
            self._still_busy(error)
        if isinstance(error, Unreachable):
            self._service.leave(replica)
            raise _Again(error)
        raise error

    def _still_busy(self, busy: Busy) -> None:
        if self._left() > 0.001:
            raise _Again()
        busy.waited = now() - self._began
        raise busy

    async def _in_silence(self, body: Mapping[str, Any], left: float) -> Tuple[Json, bool]:
        """By one request, for kinds that have no stream. Whoever closes it is out of the line."""
        try:
            lease = await self._service.ask("POST", self._claim.routes.acquire, body, each=left + 10.0, repeats=False)
            return lease, False
        except Busy as busy:
            self._still_busy(busy)
            raise
        except (Unreachable, Limited) as error:
            raise _Again(error) from None

    async def _sure(self, lease: Json) -> float:
        """The same; if it fails, what has no owner of ours to name it by is given back at once."""
        try:
            return await self._confirm(lease)
        except BaseException:
            if not self._claim.routes.owned:
                background(self._give_back_surely(lease))
            raise

    async def _confirm(self, lease: Json) -> float:
        """After a wait nobody knows how old the grant is: it counts from a renewal."""
        end = now() + HAND_OVER
        while True:
            sent = now()
            try:
                each = min(1.0, self._claim.terms.ttl / 3)
                await self._service.ask("POST", self._claim.routes.renew, lease, each=each, until=end)
                return sent
            except NotHeld:
                self._ticket = self._lease = None
                raise _Again() from None
            except (Unreachable, Limited) as error:
                if now() >= end:
                    raise _Again(error) from None
                await asyncio.sleep(0.05)

    async def _forget(self, insists: bool = False) -> None:
        """Out of the line, and whatever was granted meanwhile given back. It is tried once; if that was not enough, or a
        request of this claim was never answered, it is said again for a while, though nobody waits for that."""
        if not self._known or not self._claim.routes.owned:
            return
        done = await self._out()
        if self._unheard or (insists and not done):
            background(insist(self._out))

    async def _out(self) -> bool:
        """Whether nothing of this claim is left, as far as it was heard."""
        if self._lease is not None:
            # No renewal of it can come after this.
            return await self._give_back(self._lease)
        # The smallest token: whatever this owner holds is not older.
        body: Dict[str, Any] = {"owner": self._owner, "token": "1", "ttl_ms": self._claim.body["ttl_ms"]}
        if "mode" in self._claim.body:
            body["mode"] = self._claim.body["mode"]
        return await self._give_back(body)

    async def _give_back(self, lease: Mapping[str, Any]) -> bool:
        try:
            await self._service.ask("POST", self._claim.routes.release, lease, each=1.0, until=now() + FORGET_TIME)
            return True
        except FencepostError as error:
            return isinstance(error, NotHeld) and not self._unheard

    async def _give_back_surely(self, lease: Json) -> None:
        """It is tried once; nobody waits for what is tried after that."""
        if not await self._give_back(lease):
            background(insist(lambda: self._give_back(lease)))

    async def _settled(self, task: asyncio.Future[Any]) -> None:
        """A request that is under way is heard before the release that follows, unless it takes too long."""
        await asyncio.wait([task], timeout=SETTLE_TIME)
        if not task.done():
            self._unheard = True
            task.cancel()
            await asyncio.wait([task])


async def _close(events: AsyncIterator[Said]) -> None:
    await events.aclose()  # type: ignore[attr-defined]


async def _chained(first: Optional[Said], rest: AsyncIterator[Said]) -> AsyncIterator[Said]:
    if first is not None:
        yield first
        async for said in rest:
            yield said
