"""What can go wrong. Each error has the `code` of the service, which is stable."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from .models import Holder


class FencepostError(Exception):
    """Everything that this package raises."""

    code: str = "unexpected"
    # The answer to a request that had been sent before, with an outcome that nobody heard.
    asked_before: bool = False

    def __init__(self, detail: str, *, code: Optional[str] = None, status: Optional[int] = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.status = status
        if code is not None:
            self.code = code


class Invalid(FencepostError, ValueError):
    """A setting is refused: which, and what to do instead."""

    code = "invalid"
    field: Optional[str] = None
    value: Optional[str] = None
    cure: Optional[str] = None


class Busy(FencepostError):
    """Somebody else has it, and did so for as long as was waited. Nothing is wrong with the service."""

    code = "held"
    holder: Optional[Holder] = None
    waited: float = 0.0


class Deadlock(FencepostError):
    """This wait would have closed a circle of actors who wait for each other."""

    code = "deadlock"
    cycle: Any = None


class NotHeld(FencepostError):
    """Released, lost, or never ours: the service does not tell which."""

    code = "not_held"
    reason: Optional[str] = None


class LockLost(FencepostError):
    """A lock that was held is so no more, or will not be in a moment: what it protects is not ours to touch.

    `reason`: `expired` (nobody could renew it in time), `revoked` (somebody with the right to took it), `gone` (the
    service does not know this hold), `max_hold`, `forked` (it belongs to the parent process), `closed`.
    """

    code = "lost"

    def __init__(self, name: str, reason: str, detail: str) -> None:
        super().__init__(f"{name}: lost ({reason}): {detail}")
        self.name = name
        self.reason = reason


class Stale(FencepostError):
    """A newer token was granted: `seen`."""

    code = "stale"
    seen: Optional[int] = None


class Denied(FencepostError):
    """This credential may not do that, or there is none."""

    code = "denied"


class Limited(FencepostError):
    """A limit of the service was met; come again after so many seconds."""

    code = "limit"
    retry_after: float = 1.0


class Unsupported(FencepostError):
    """The store behind the service cannot do that."""

    code = "unsupported"


class Unreachable(FencepostError):
    """No replica, or not its store, could answer. `outcome_unknown`: what was asked may have been done all the same."""

    code = "unreachable"
    outcome_unknown: bool = False
    retry_after: float = 0.0

    def __init__(
        self,
        detail: str,
        *,
        outcome_unknown: bool = False,
        code: Optional[str] = None,
        status: Optional[int] = None,
    ) -> None:
        super().__init__(detail, code=code, status=status)
        self.outcome_unknown = outcome_unknown


def from_problem(status: int, problem: Mapping[str, Any], retry_after: Optional[str] = None) -> FencepostError:
    """The error that a problem of the service (RFC 9457) stands for."""
    code = str(problem.get("code") or f"http_{status}")
    detail = str(problem.get("detail") or f"the service answered {status}")
    seconds = _seconds(retry_after)
    if code == "invalid":
        invalid = Invalid(detail, code=code, status=status)
        invalid.field, invalid.value, invalid.cure = problem.get("field"), problem.get("value"), problem.get("cure")
        return invalid
    if code == "held":
        busy = Busy(detail, code=code, status=status)
        holder = problem.get("holder")
        busy.holder = Holder.of(holder) if isinstance(holder, dict) else None
        busy.waited = float(problem.get("waited_ms") or 0) / 1000
        return busy
    if code == "deadlock":
        deadlock = Deadlock(detail, code=code, status=status)
        deadlock.cycle = problem.get("cycle")
        return deadlock
    if code == "not_held":
        not_held = NotHeld(detail, code=code, status=status)
        not_held.reason = problem.get("reason")
        return not_held
    if code == "stale":
        stale = Stale(detail, code=code, status=status)
        stale.seen = int(problem["seen"]) if problem.get("seen") else None
        return stale
    if status in (401, 403):
        return Denied(detail, code=code, status=status)
    if status == 429:
        limited = Limited(detail, code=code, status=status)
        limited.retry_after = seconds or 1.0
        return limited
    if status == 501:
        return Unsupported(detail, code=code, status=status)
    # Not from the service but from something in between, which may have passed the request on.
    is_strange = status >= 500 and not problem.get("code")
    if status in (408, 502, 503, 504) or is_strange:
        unknown = is_strange or bool(problem.get("outcome_unknown", status != 503))
        unreachable = Unreachable(detail, code=code, status=status, outcome_unknown=unknown)
        unreachable.retry_after = seconds
        return unreachable
    return FencepostError(detail, code=code, status=status)


def _seconds(text: Optional[str]) -> float:
    try:
        return max(0.0, float(text or 0))
    except ValueError:
        return 0.0
