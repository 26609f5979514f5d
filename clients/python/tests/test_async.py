"""The same for asyncio: the work is cancelled when its lock is lost."""

from __future__ import annotations

import asyncio
import time
import unittest
from typing import Any, Dict, List

from fencepost import AsyncClient, Busy, LockLost, Stale
from fencepost._aside import within
from fencepost._clock import now
from fencepost._http import Broken

from .support import Case, Exchange, between


class Async(Case, unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.service = self.serve()
        self.locks = AsyncClient(self.service.url)
        self.addAsyncCleanup(self.locks.aclose)

    async def until(self, what: str, condition: Any) -> None:
        end = time.monotonic() + 15
        while not await condition():
            self.assertLess(time.monotonic(), end, f"never: {what}")
            await asyncio.sleep(0.01)

    async def in_line(self, name: str, number: int) -> None:
        async def waits() -> bool:
            return len((await self.locks.inspect(name)).waiters) == number

        await self.until(f"{number} in line", waits)

    async def test_every_kind(self) -> None:
        async with self.locks.lock("x", ttl=10) as lock:
            self.assertTrue(lock.is_held)
            self.assertIsNone(await self.locks.try_lock("x"))
            self.assertGreater(await lock.renew(), 8)
            with self.assertRaises(Busy):
                await self.locks.lock("x", wait=2)
        self.assertTrue((await self.locks.inspect("x")).is_free)
        again = await self.locks.lock("x")
        with self.assertRaises(Stale):
            await self.locks.check_token("x", lock.token)
        await again.release()
        async with self.locks.semaphore("s", 2, take=2) as permits, self.locks.lock_all(["a", "b"]) as both:
            self.assertEqual((len(permits.permits), set(both.tokens)), (2, {"a", "b"}))
            self.assertIsNone(await self.locks.try_semaphore("s", 2))
            self.assertIsNone(await self.locks.try_lock_all(["b"]))
        async with self.locks.leaders("e") as leaders:
            self.assertIsNone(await leaders.__anext__())
            async with self.locks.lead("e", payload="me"):
                leader = await leaders.__anext__()
                self.assertEqual(leader and leader.payload, "me")
                self.assertEqual((await self.locks.election("e")).candidates, [])
        self.assertEqual([state.name async for state in self.locks.locks("a")], ["a"])
        self.assertEqual(await self.locks.deadlocks(), [])
        self.assertTrue((await self.locks.nodes())["fifo"])

    async def test_events_are_heard(self) -> None:
        async with self.locks.events("x") as events:
            heard = asyncio.ensure_future(events.__anext__())
            while not heard.done():
                await (await self.locks.lock("x")).release()
            self.assertEqual(heard.result().name, "x")

    async def test_a_stream_ends_with_its_client(self) -> None:
        locks = AsyncClient(self.service.url)
        async with locks.leaders("x") as leaders:
            self.assertIsNone(await leaders.__anext__())
            rest = asyncio.ensure_future(self.listed(leaders))
            await asyncio.sleep(0)
            await locks.aclose()
            self.assertEqual(await rest, [])

    async def listed(self, stream: Any) -> List[Any]:
        return [each async for each in stream]

    async def test_a_cancellation_that_comes_with_the_result_is_not_lost(self) -> None:
        undone: List[str] = []
        answer: "asyncio.Future[str]" = asyncio.get_running_loop().create_future()
        bounded = asyncio.ensure_future(within(answer, 60, undone.append))
        await asyncio.sleep(0)
        answer.set_result("an answer")
        bounded.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await bounded
        self.assertEqual(undone, ["an answer"])
        with self.assertRaises(asyncio.TimeoutError):
            await within(asyncio.sleep(60), 0.01)

    async def test_work_is_cancelled_before_its_lease_ends(self) -> None:
        with self.assertRaises(LockLost) as caught:
            async with self.locks.lock("x", ttl=6, loss_margin=3) as lock:
                self.service.kill()
                try:
                    await asyncio.sleep(60)
                finally:
                    cancelled = now()
        self.assertLess(cancelled, lock._keeper._sent + 6, "before the lease ends")
        self.assertEqual(caught.exception.reason, "expired")
        task = asyncio.current_task()
        assert task is not None
        # Nobody else has cancelled it.
        await asyncio.sleep(0)
        self.assertTrue(lock.lost.is_set())
        self.assertTrue(await lock.lost.wait())

    async def test_work_that_ends_while_it_is_cancelled_hears_of_the_loss(self) -> None:
        with self.assertRaises(LockLost):
            async with self.locks.lock("x", ttl=1.5) as lock:
                await self.locks.force_release("x")
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.assertTrue(lock.lost.is_set())
        await asyncio.sleep(0)

    async def test_work_that_does_not_wait_hears_of_the_loss_at_its_end(self) -> None:
        with self.assertRaises(LockLost):
            async with self.locks.lock("x", ttl=1, max_hold=0.3) as lock:
                while lock.is_held:
                    time.sleep(0.01)
        await asyncio.sleep(0)

    async def test_a_busy_loop_loses_no_lock(self) -> None:
        async with self.locks.lock("x", ttl=6) as lock:
            time.sleep(7)
            lock.check()

    async def test_an_error_of_the_work_is_not_hidden(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            async with self.locks.lock("x", ttl=1) as lock:
                await self.locks.force_release("x")
                try:
                    await lock.lost.wait()
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    1 / 0
        with self.assertRaises(ZeroDivisionError):
            async with self.locks.lock("x"):
                1 / 0
        self.assertTrue((await self.locks.inspect("x")).is_free)

    async def test_a_cancelled_wait_is_out_of_the_line_and_leaves_nothing_locked(self) -> None:
        async with self.locks.lock("x"):
            waiting = asyncio.ensure_future(self.locks.lock("x").acquire())
            await self.in_line("x", 1)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertEqual((await self.locks.inspect("x")).waiters, [])
        self.assertTrue((await self.locks.inspect("x")).is_free)

    async def test_a_claim_that_is_cancelled_at_any_moment_leaves_nothing_locked(self) -> None:
        for number in range(40):
            claim = asyncio.ensure_future(self.locks.lock("x", ttl=60).acquire())
            await asyncio.sleep(number * 0.0005)
            claim.cancel()
            try:
                await (await claim).release()
            except asyncio.CancelledError:
                pass
            state = await self.locks.inspect("x")
            self.assertEqual((state.holders, state.waiters), ([], []), f"after {number / 2} ms")

    async def test_a_claim_that_is_cancelled_while_it_is_confirmed_is_released_with_its_own_token(self) -> None:
        confirms, released = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        async def cut(path: str, body: Any, send: Exchange) -> Dict[str, Any]:
            if path.endswith("/release"):
                released.append(body["token"])
            if path.endswith("/renew"):
                loop.call_soon_threadsafe(confirms.set)
                await asyncio.sleep(60)
            return await send()

        async with AsyncClient(self.service.url) as locks:
            between(locks, cut)
            held = await self.locks.lock("x")
            claim = asyncio.ensure_future(locks.lock("x", ttl=60).acquire())
            await self.in_line("x", 1)
            await held.release()
            await confirms.wait()
            claim.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await claim
            self.assertTrue((await self.locks.inspect("x")).is_free)
            self.assertEqual(len(released), 1)
            self.assertGreater(int(released[0]), held.token)

    async def test_a_claim_that_is_cancelled_is_given_back_though_the_first_try_of_that_fails(self) -> None:
        asked, releases = asyncio.Event(), []
        loop = asyncio.get_running_loop()

        async def cut(path: str, body: Any, send: Exchange) -> Dict[str, Any]:
            if path.endswith("/release"):
                releases.append(path)
                if len(releases) == 1:
                    raise Broken("cut", sent=True)
            answer = await send()
            if path.endswith("/try"):
                loop.call_soon_threadsafe(asked.set)
                await asyncio.sleep(60)
            return answer

        between(self.locks, cut)
        claim = asyncio.ensure_future(self.locks.try_lock("x", ttl=60))
        await asked.wait()
        claim.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await claim
        self.assertFalse((await self.locks.inspect("x")).is_free, "not yet")

        async def free() -> bool:
            return (await self.locks.inspect("x")).is_free

        await self.until("given back", free)

    async def test_work_whose_client_is_closed_is_cancelled(self) -> None:
        locks = AsyncClient(self.service.url)
        with self.assertRaises(LockLost) as caught:
            async with locks.lock("x"):
                closing = asyncio.ensure_future(locks.aclose())
                await asyncio.sleep(60)
        self.assertEqual(caught.exception.reason, "closed")
        await closing
        self.assertTrue((await self.locks.inspect("x")).is_free)

    async def test_somebody_elses_cancellation_stays_one(self) -> None:
        async def work() -> None:
            async with self.locks.lock("x", ttl=10):
                await asyncio.sleep(60)

        task = asyncio.ensure_future(work())

        async def held() -> bool:
            return not (await self.locks.inspect("x")).is_free

        await self.until("held", held)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue((await self.locks.inspect("x")).is_free)

    async def test_a_release_that_is_cancelled_goes_on(self) -> None:
        lock = await self.locks.lock("x", ttl=60)
        releasing = asyncio.ensure_future(lock.release())
        await asyncio.sleep(0)
        releasing.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await releasing

        async def free() -> bool:
            return (await self.locks.inspect("x")).is_free

        await self.until("released all the same", free)
