"""Work that is bounded, and work that blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import Awaitable, Callable, Optional, TypeVar

T = TypeVar("T")


async def within(work: Awaitable[T], seconds: float, undo: Callable[[T], object] = lambda _: None) -> T:
    """Like `asyncio.wait_for`, which up to Python 3.11 may lose a cancellation that comes together with the result. What
    nobody gets is undone."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            task.cancel()
            await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        task.add_done_callback(lambda ended: _forget(ended, undo))
        # It lets go of what it has before anything else is asked.
        await asyncio.wait({task})
        raise
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()


def _forget(ended: asyncio.Future[T], undo: Callable[[T], object]) -> None:
    if not ended.cancelled() and ended.exception() is None:
        undo(ended.result())


async def aside(work: Callable[[], T]) -> T:
    """Runs what blocks on a thread of its own. The threads of an executor take no more work once the main thread has
    ended, though others go on; and the program's end waits for them."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[T] = loop.create_future()

    def tell(result: Optional[T], error: Optional[BaseException]) -> None:
        if waiting.cancelled():
            return
        if error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, trouble = None, None
        try:
            result = work()
        except Exception as error:
            trouble = error
        try:
            loop.call_soon_threadsafe(tell, result, trouble)
        except RuntimeError:
            # The loop has ended.
            pass

    threading.Thread(target=run, name="fencepost-aside", daemon=True).start()
    return await waiting
