"""What both clients have: settings, the engine, and every question that needs no lease."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import threading
import weakref
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._claims import Claim, take
from ._engine import Engine, closed
from ._keeper import Keeper
from ._held import release_quietly, when_dropped
from ._http import Said
from ._service import Json, Service, encoded
from ._settings import Credential, addresses, tls
from .errors import Unreachable, from_problem
from .models import Election, Event, Holder, LockState

RETRY = 0.5


class Core:
    """The engine is started when it is first needed, and anew in a child of a fork."""

    def __init__(
        self,
        url: Union[str, Sequence[str]],
        *,
        api_key: Optional[str] = None,
        api_key_file: Optional[str] = None,
        ca_file: Optional[str] = None,
        cert_file: Optional[str] = None,
        key_file: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._addresses = addresses(url)
        self._credential = Credential(api_key, api_key_file)
        needs_tls = any(address.tls for address in self._addresses)
        self._context = (ssl_context or tls(ca_file, cert_file, key_file)) if needs_tls else None
        self._engine: Optional[Engine] = None
        self._ended = False
        self._guard = threading.Lock()
        _cores.add(self)

    def _started(self) -> Engine:
        if self._ended:
            raise closed()
        with self._guard:
            engine = self._engine
            if engine is None or engine.pid != os.getpid():
                engine = Engine(Service(self._addresses, self._credential, self._context))
                when_dropped(self, engine.stop)
                self._engine = engine
            return engine

    async def _take(self, engine: Engine, claim: Claim) -> Keeper:
        with engine.claiming():
            keeper = await take(engine.service, claim)
        engine.keepers.add(keeper)
        if self._ended:
            await release_quietly(keeper)
            raise closed()
        return keeper

    async def _release_all(self, engine: Engine) -> None:
        held = [keeper for keeper in list(engine.keepers) if not keeper.closed]
        for keeper in held:
            # Whoever still works under it is told before others may.
            keeper.abandon()
        await asyncio.gather(*[release_quietly(keeper) for keeper in held])

    # Questions.

    async def _get(self, engine: Engine, path: str, query: Optional[Mapping[str, str]] = None) -> Json:
        return await engine.service.ask("GET", path, query=query)

    async def _inspect(self, engine: Engine, name: str) -> LockState:
        return LockState.of(await self._get(engine, f"/v1/locks/{encoded(name)}"))

    async def _page(
        self, engine: Engine, prefix: str, contended: bool, after: Optional[str]
    ) -> Tuple[List[LockState], Optional[str]]:
        query = {"prefix": prefix, "contended": "true" if contended else "false", "limit": "100"}
        if after is not None:
            query["after"] = after
        answer = await self._get(engine, "/v1/locks", query)
        return [LockState.of(state) for state in answer["locks"]], answer.get("next")

    async def _check_token(self, engine: Engine, name: str, token: int) -> None:
        await self._get(engine, f"/v1/locks/{encoded(name)}/tokens/{int(token)}")

    async def _force_release(self, engine: Engine, name: str, reason: str, token: Optional[int]) -> Optional[Holder]:
        path = f"/v1/locks/{encoded(name)}/force-release"
        body = {"reason": reason} if token is None else {"reason": reason, "token": str(int(token))}
        # Sent twice, it would end the next one's hold.
        return _holder(await engine.service.ask("POST", path, body, repeats=False))

    async def _ask(self, engine: Engine, name: str, note: str, label: Optional[str]) -> Optional[Holder]:
        body = {"note": note} if label is None else {"note": note, "label": label}
        path = f"/v1/locks/{encoded(name)}/ask"
        return _holder(await engine.service.ask("POST", path, body, repeats=False))

    async def _election(self, engine: Engine, name: str) -> Election:
        return Election.of(await self._get(engine, f"/v1/elections/{encoded(name)}"))

    async def _deadlocks(self, engine: Engine) -> List[List[LockState]]:
        answer = await self._get(engine, "/v1/deadlocks")
        return [[LockState.of(state) for state in cycle] for cycle in answer["deadlocks"]]

    async def _nodes(self, engine: Engine) -> Dict[str, Any]:
        return await self._get(engine, "/v1/nodes")

    # Streams.

    async def _events(self, engine: Engine, prefix: str, last_id: Optional[str]) -> AsyncIterator[Event]:
        query = {"prefix": prefix}
        async for said in self._streamed(engine, "/v1/events", query, last_id):
            data = json.loads(said.data)
            yield Event(said.kind, data.get("name"), data, said.id)

    async def _leaders(self, engine: Engine, name: str) -> AsyncIterator[Optional[Holder]]:
        async for said in self._streamed(engine, f"/v1/elections/{encoded(name)}/observe", None, None):
            if said.kind == "leader":
                leader = json.loads(said.data)
                yield Holder.of(leader) if leader else None

    async def _streamed(
        self, engine: Engine, path: str, query: Optional[Mapping[str, str]], last_id: Optional[str]
    ) -> AsyncIterator[Said]:
        """Goes on where it was when a replica has gone; only a refusal ends it."""
        while True:
            try:
                replica, said = await engine.service.stream("GET", path, query=query, last_id=last_id)
            except Unreachable:
                await asyncio.sleep(RETRY)
                continue
            try:
                async for event in said:
                    if event.kind == "problem":
                        error = from_problem(503, json.loads(event.data))
                        if not isinstance(error, Unreachable):
                            raise error
                        break
                    last_id = event.id or last_id
                    yield event
            finally:
                await said.aclose()  # type: ignore[attr-defined]
            engine.service.leave(replica)
            await asyncio.sleep(RETRY / 10)


_cores: weakref.WeakSet[Core] = weakref.WeakSet()


def _forked() -> None:
    for core in list(_cores):
        # Its holder, if it had one, is not in this process.
        core._guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _holder(answer: Json) -> Optional[Holder]:
    holder = answer.get("holder")
    return Holder.of(holder) if holder else None
