"""Settings of each kind of claim, checked and put into the words of the service."""

from __future__ import annotations

import math
import os
import socket
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Dict, Iterable, Optional

from ._claims import Claim
from ._keeper import Routes, Terms
from ._service import encoded
from .errors import Invalid

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Literal, Unpack

    class Options(TypedDict, total=False):
        """What every kind of claim can be told. Spans are seconds."""

        ttl: float
        wait: Optional[float]
        label: Optional[str]
        queue: Literal["fifo", "none"]
        lock_delay: float
        actor: Optional[str]
        max_hold: Optional[float]
        loss_margin: Optional[float]

    class LockOptions(Options, total=False):
        """What a lock can be told besides."""

        mode: Literal["exclusive", "shared"]
        fail_on_deadlock: bool


def _span(field: str, value: float, least: float) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < least:
        raise Invalid(f"{field}: {value!r} is no span of at least {least:g} s")
    return float(value)


def _default_label() -> str:
    program = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "python"
    return f"{program}@{socket.gethostname()}:{os.getpid()}"[:255]


def claim(
    name: str,
    routes: Routes,
    more: Dict[str, Any],
    *,
    ttl: float = 30.0,
    wait: Optional[float] = None,
    label: Optional[str] = None,
    queue: str = "fifo",
    lock_delay: float = 0.0,
    actor: Optional[str] = None,
    max_hold: Optional[float] = 24 * 3600.0,
    loss_margin: Optional[float] = None,
) -> Claim:
    ttl = _span("ttl", ttl, 0.001)
    margin = ttl / 10 if loss_margin is None else _span("loss_margin", loss_margin, 0.0)
    if margin > ttl / 2:
        raise Invalid(f"loss_margin: {margin!r} leaves no time to work: use half the ttl at most")
    body: Dict[str, Any] = {"ttl_ms": round(ttl * 1000), "label": _default_label() if label is None else label, **more}
    if queue != "fifo":
        body["queue"] = queue
    if lock_delay:
        body["lock_delay_ms"] = round(_span("lock_delay", lock_delay, 0.0) * 1000)
    if actor is not None:
        body["actor"] = actor
    limit = None if max_hold is None else _span("max_hold", max_hold, 0.001)
    patience = None if wait is None else _span("wait", wait, 0.0)
    return Claim(name, routes, body, Terms(body["ttl_ms"] / 1000, margin, limit, lock_delay > 0), patience)


def _named(kind: str, name: str) -> str:
    if not isinstance(name, str) or not name:
        raise Invalid(f"name: {name!r}: a name has at least one character")
    return f"/v1/{kind}/{encoded(name)}"


def lock(name: str, *, mode: str = "exclusive", fail_on_deadlock: bool = False, **options: Unpack[Options]) -> Claim:
    at = _named("locks", name)
    more: Dict[str, Any] = {"mode": mode}
    if fail_on_deadlock:
        more["fail_on_deadlock"] = True
    return claim(name, Routes(f"{at}/acquire", f"{at}/renew", f"{at}/release", f"{at}/try", owned=True), more, **options)


def leadership(name: str, payload: str, **options: Unpack[Options]) -> Claim:
    at = _named("elections", name)
    routes = Routes(f"{at}/campaign", f"{at}/renew", f"{at}/resign", None, owned=True)
    return claim(name, routes, {"payload": payload}, **options)


def permits(name: str, number: int, take: int, **options: Unpack[Options]) -> Claim:
    at = _named("semaphores", name)
    routes = Routes(f"{at}/acquire", f"{at}/renew", f"{at}/release", f"{at}/try", owned=False)
    return claim(name, routes, {"permits": number, "take": take}, **options)


def several(names: Iterable[str], **options: Unpack[Options]) -> Claim:
    if isinstance(names, str):
        raise Invalid(f"names: {names!r} is one name: pass a list")
    listed = list(names)
    at = "/v1/batches"
    routes = Routes(f"{at}/acquire", f"{at}/renew", f"{at}/release", f"{at}/try", owned=False)
    return claim(",".join(listed), routes, {"names": listed}, **options)


def at_once(claim: Claim) -> Claim:
    """The same without waiting."""
    if claim.wait:
        raise Invalid(f"wait: {claim.wait!r}: to try is not to wait; use the form that does")
    return replace(claim, wait=0.0)
