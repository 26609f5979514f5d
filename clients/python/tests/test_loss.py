"""What goes wrong: the lock is lost, the service is away, the work fails."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

import fencepost
from fencepost import LockLost, Unreachable
from fencepost._clock import now
from fencepost._http import Answer, Broken
from fencepost.errors import from_problem

from .support import Case, Exchange, Service, after, between, until


class Loss(Case):
    def test_a_lock_that_was_taken_away_is_lost_with_the_next_renewal(self) -> None:
        locks = self.client(self.serve())
        told: List[LockLost] = []
        with self.assertRaises(LockLost) as caught:
            with locks.lock("x", ttl=3) as lock:
                lock.on_lost(told.append)
                locks.force_release("x", "test")
                self.assertTrue(lock.lost.wait(5))
                self.assertFalse(lock.is_held)
                self.assertEqual(lock.remaining(), 0)
                with self.assertRaises(LockLost):
                    lock.check()
        self.assertEqual(caught.exception.reason, "revoked")
        until("told", lambda: told)
        self.assertEqual(told, [caught.exception])

    def test_a_lock_is_taken_by_force_only_from_whom_it_was_meant(self) -> None:
        locks = self.client(self.serve())
        first = locks.lock("x").acquire()
        first.release()
        second = locks.lock("x", label="second").acquire()
        with self.assertRaises(fencepost.NotHeld):
            locks.force_release("x", token=first.token)
        second.renew()
        holder = locks.force_release("x", token=second.token)
        self.assertEqual(holder and holder.label, "second")

    def test_what_is_done_on_loss_may_take_its_time_and_use_the_client(self) -> None:
        locks = self.client(self.serve())
        seen: List[object] = []
        gate = threading.Event()
        self.addCleanup(gate.set)

        def act(loss: LockLost) -> None:
            seen.append(locks.inspect("x").holders)
            gate.wait(30)

        lost, kept = locks.lock("x", ttl=1).acquire(), locks.lock("y", ttl=6).acquire()
        lost.on_lost(act)
        locks.force_release("x")
        until("acts", lambda: seen)
        renewals = kept._keeper.renewals
        until("renewed meanwhile", lambda: kept._keeper.renewals >= renewals + 2)
        kept.release()

    def test_who_waits_for_the_loss_looks_at_the_clock(self) -> None:
        locks = self.client(self.serve())
        lock = locks.lock("x", ttl=1).acquire()
        self.assertFalse(lock.lost.wait(0.01))
        gate = threading.Event()
        self.addCleanup(gate.set)
        lock._engine._loop.call_soon_threadsafe(gate.wait, 40)
        began = time.monotonic()
        self.assertTrue(lock.lost.wait())
        self.assertLess(time.monotonic() - began, 20, "not only when the loop goes on")

    def test_work_whose_client_is_closed_hears_of_it_and_others_may_begin(self) -> None:
        service = self.serve()
        locks, other = self.client(service), self.client(service)
        told: List[LockLost] = []
        with self.assertRaises(LockLost) as caught:
            with locks.lock("x") as lock:
                lock.on_lost(told.append)
                locks.close()
                self.assertTrue(lock.lost.is_set())
                with self.assertRaises(LockLost):
                    lock.check()
                self.assertTrue(other.inspect("x").is_free)
        self.assertEqual(caught.exception.reason, "closed")
        until("told", lambda: told)
        locks = self.client(service)
        with self.assertRaises(ZeroDivisionError):
            with locks.lock("x"):
                locks.close()
                1 / 0

    def test_a_lock_keeps_its_client(self) -> None:
        service = self.serve()
        lock = fencepost.Client(service.url).lock("x", ttl=6).acquire()
        gc.collect()
        until("renewed", lambda: lock._keeper.renewals >= 2)
        lock.check()
        with self.assertRaises(LockLost) as caught:
            with lock:
                lock._engine.stop()
                self.assertTrue(lock.lost.wait(5))
        self.assertEqual(caught.exception.reason, "closed")
        del lock
        fencepost.Client(service.url).lock("y", ttl=60).acquire()
        gc.collect()
        other = self.client(service)
        for name in ("x", "y"):
            until("released", lambda: other.inspect(name).is_free, timeout=5)

    def expires(self, releases: int, lock_delay: float) -> None:
        """Nothing can be renewed: what is sent after the loss?"""
        service = self.serve()
        locks = self.client(service)
        sent: List[str] = []

        async def cut(path: str, body: Any, send: Exchange) -> Dict[str, Any]:
            if path.endswith("/renew"):
                raise Broken("cut", sent=True)
            if path.endswith("/release"):
                sent.append(path)
            return await send()

        between(locks, cut)
        for ttl, max_hold, reason in ((1, 60, "expired"), (30, 0.2, "max_hold")):
            sent.clear()
            with self.assertRaises(LockLost) as caught:
                with locks.lock(reason, ttl=ttl, max_hold=max_hold, lock_delay=lock_delay) as lock:
                    lock.lost.wait()
            self.assertEqual(caught.exception.reason, reason)
            # What is sent in the background is sent before this is answered.
            locks.inspect("x")
            self.assertEqual(len(sent), releases, reason)
        if releases:
            until("free", lambda: locks.inspect("max_hold").is_free)

    def test_what_is_over_is_released_for_those_who_wait(self) -> None:
        self.expires(1, lock_delay=0)

    def test_what_is_over_rests_with_a_delay(self) -> None:
        self.expires(0, lock_delay=30)

    def stops(self, number: int) -> None:
        """The service is silent: the loss is told before the lease ends, as the store counts it."""
        service = self.serve()
        locks = self.client(service)
        with self.assertRaises(LockLost) as caught:
            with locks.lock("x", ttl=6, loss_margin=3) as lock:
                until("renewed", lambda: lock._keeper.renewals > 0)
                told: List[float] = []
                lock.on_lost(lambda _: told.append(now()))
                service.signal(number)
                until("told", lambda: told)
                sent = lock._keeper._sent
                self.assertLess(told[0], sent + 6, "before the lease ends")
                self.assertGreater(told[0], sent + 2.5, "and not much before it has to be")
                began = time.monotonic()
        self.assertEqual(caught.exception.reason, "expired")
        # Somebody who waited for an answer would do so for two seconds.
        self.assertLess(time.monotonic() - began, 1.8, "leaving a lock that is lost waits for nobody")

    def test_a_service_that_was_stopped_costs_the_lock_in_time(self) -> None:
        self.stops(signal.SIGSTOP)

    def test_a_service_that_was_killed_costs_the_lock_in_time(self) -> None:
        self.stops(signal.SIGKILL)

    def test_a_service_that_is_away_for_a_moment_costs_nothing(self) -> None:
        service = self.serve()
        locks = self.client(service)
        with locks.lock("x", ttl=4) as lock:
            service.kill()
            # Longer than until the next renewal, which fails.
            until("a renewal is due", lambda: lock.remaining() < 4 * 0.6)
            again = Service(self.folder, [], service.url.removeprefix("http://"))
            self.addCleanup(again.kill)
            until("renewed again", lambda: lock.remaining() > 3.2)
            lock.check()

    def test_a_lock_lost_by_our_own_pause_is_known_at_once(self) -> None:
        service = self.serve()
        worker = self.worker(
            "import sys, fencepost\n"
            "lock = fencepost.Client(sys.argv[1]).lock('x', ttl=0.5).acquire()\n"
            "print('held', flush=True)\n"
            "sys.stdin.readline()\n"
            "print(lock.is_held, lock.lost.is_set(), lock.remaining(), flush=True)\n",
            service.url,
        )
        self.assertEqual(self.line(worker), "held")
        worker.send_signal(signal.SIGSTOP)
        with self.client(service).lock("x", wait=10):
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
            worker.send_signal(signal.SIGCONT)
            self.assertEqual(self.line(worker), "False True 0.0")

    def test_a_worker_that_was_killed_frees_its_lock_within_the_ttl(self) -> None:
        service = self.serve()
        worker = self.worker(
            "import sys, fencepost, time\n"
            "with fencepost.Client(sys.argv[1]).lock('x', ttl=1.5) as lock:\n"
            "    print(lock.token, flush=True)\n"
            "    time.sleep(60)\n",
            service.url,
        )
        token = int(self.line(worker))
        worker.kill()
        began = time.monotonic()
        with self.client(service).lock("x", wait=20) as lock:
            self.assertLess(time.monotonic() - began, 1.5 + 10)
            self.assertGreater(lock.token, token)


    def test_a_worker_keeps_its_lock_though_the_main_thread_has_ended(self) -> None:
        service = self.serve()
        worker = self.worker(
            "import sys, threading, fencepost\n"
            "from fencepost import _http\n"
            # Each request over a link of its own, as after a pause.
            "_http.IDLE_MAX = 0\n"
            "def work():\n"
            "    threading.main_thread().join()\n"
            "    with fencepost.Client(sys.argv[1]).lock('x', ttl=6) as lock:\n"
            "        while lock._keeper.renewals < 3:\n"
            "            if lock.lost.wait(0.01): break\n"
            "        print(lock.is_held, lock._keeper.renewals, flush=True)\n"
            "threading.Thread(target=work).start()\n",
            service.url.replace("127.0.0.1", "localhost"),
        )
        self.assertEqual(self.line(worker), "True 3")
        self.assertEqual(worker.wait(60), 0)


class Bodies(Case):
    def test_the_error_of_the_work_is_never_hidden_and_the_lock_is_free(self) -> None:
        locks = self.client(self.serve())
        with self.assertRaises(ZeroDivisionError):
            with locks.lock("x"):
                1 / 0
        self.assertTrue(locks.inspect("x").is_free)

    def test_nor_by_a_loss_nor_by_a_service_that_has_gone(self) -> None:
        service = self.serve()
        locks = self.client(service)
        with self.assertRaises(ZeroDivisionError):
            with locks.lock("x", ttl=1) as lock:
                locks.force_release("x")
                lock.lost.wait(5)
                1 / 0
        began = time.monotonic()
        with self.assertRaises(ZeroDivisionError):
            with locks.lock("x"):
                service.kill()
                1 / 0
        self.assertLess(time.monotonic() - began, 3)

    def test_work_that_ended_in_time_is_done_though_nobody_confirms_the_release(self) -> None:
        service = self.serve()
        locks = self.client(service)
        with self.assertLogs("fencepost", "WARNING"):
            with locks.lock("x", ttl=20):
                service.kill()
        service = self.serve()
        locks = self.client(service)
        lock = locks.lock("y", ttl=20).acquire()
        service.kill()
        with self.assertRaises(Unreachable):
            lock.release()

    def test_a_release_that_was_not_confirmed_is_tried_on(self) -> None:
        service = self.serve()
        locks = self.client(service)
        lock = locks.lock("x", ttl=30).acquire()
        service.kill()
        with self.assertRaises(Unreachable):
            lock.release()
        again = Service(self.folder, [], service.url.removeprefix("http://"))
        self.addCleanup(again.kill)
        until("released", lambda: locks.inspect("x").is_free, timeout=10)


    def test_a_release_that_was_heard_over_a_link_that_broke_is_no_loss(self) -> None:
        locks = self.client(self.serve())
        replica = locks._started().service._replicas[0]
        real = replica._exchange
        broke: List[str] = []

        async def exchange(link: Any, method: str, path: str, headers: Dict[str, str], body: bytes) -> Answer:
            answer = await real(link, method, path, headers, body)
            if path.endswith("/release") and not broke:
                broke.append(path)
                answer.close()
                raise Broken("cut", sent=True)
            return answer

        with locks.lock("x", ttl=30):
            locks.inspect("x")
            replica._exchange = exchange  # type: ignore[method-assign]
        self.assertEqual(len(broke), 1)
        self.assertTrue(locks.inspect("x").is_free)

    def test_of_an_answer_that_is_not_the_services_own_nobody_knows_the_outcome(self) -> None:
        for status in (500, 502, 503, 520):
            error = from_problem(status, {})
            self.assertTrue(isinstance(error, Unreachable) and error.outcome_unknown, status)
        said = from_problem(503, {"code": "unreachable"})
        self.assertFalse(isinstance(said, Unreachable) and said.outcome_unknown)


class Waiting(Case):
    def test_a_claim_that_another_replica_hears_after_the_release_holds_nothing_up(self) -> None:
        service = self.serve()
        locks = self.client(service, service)
        late: List[Exchange] = []

        async def cut(path: str, body: Any, send: Exchange) -> Dict[str, Any]:
            if path.endswith("/try") and not late:
                late.append(send)
                raise Broken("cut", sent=True)
            return await send()

        between(locks, cut)
        lock = locks.try_lock("x", ttl=60)
        assert lock is not None
        lock.release()
        locks._started().wait(late[0]())
        self.assertEqual(len(locks.inspect("x").holders), 1, "taken by nobody")
        until("given back", lambda: locks.inspect("x").is_free)

    def test_an_interrupted_wait_is_out_of_the_line_and_leaves_nothing_locked(self) -> None:
        service = self.serve()
        locks = self.client(service)
        held = locks.lock("x").acquire()
        worker = self.worker(
            "import signal, sys, fencepost\n"
            # Whoever runs the tests in the background ignores it, and so would the worker.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "try:\n"
            "    fencepost.Client(sys.argv[1]).lock('x').acquire()\n"
            "except KeyboardInterrupt:\n"
            "    print('interrupted', flush=True)\n"
            "sys.stdin.readline()\n",
            service.url,
        )
        self.waits(locks, "x")
        worker.send_signal(signal.SIGINT)
        self.assertEqual(self.line(worker), "interrupted")
        self.assertEqual(locks.inspect("x").waiters, [])
        held.release()
        self.assertTrue(locks.inspect("x").is_free)

    def test_closing_the_client_ends_a_wait(self) -> None:
        service = self.serve()
        locks, other = self.client(service), self.client(service)
        with other.lock("x"), ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(locks.lock("x").acquire)
            self.waits(other, "x")
            locks.close()
            with self.assertRaises(fencepost.FencepostError) as caught:
                waiting.result(10)
            self.assertEqual(caught.exception.code, "closed")
            self.assertEqual(other.inspect("x").waiters, [])

    def test_closing_the_client_while_the_grant_is_on_its_way_gives_it_back(self) -> None:
        service = self.serve()
        locks, other = self.client(service), self.client(service)
        closing: List[threading.Thread] = []

        async def close(path: str, body: Any, send: Exchange) -> Dict[str, Any]:
            answer = await send()
            if path.endswith("/try"):
                closing.append(threading.Thread(target=locks.close))
                closing[0].start()
                while not locks._ended:
                    await asyncio.sleep(0.001)
            return answer

        between(locks, close)
        with self.assertRaises(fencepost.FencepostError) as caught:
            locks.try_lock("x", ttl=60)
        self.assertEqual(caught.exception.code, "closed")
        closing[0].join(10)
        self.assertTrue(other.inspect("x").is_free)

    def test_who_waits_goes_on_at_the_other_replica(self) -> None:
        one, two = self.serve(), self.serve()
        other = self.client(two)
        held = other.lock("x", ttl=30).acquire()
        locks = self.client(one, two)
        got = []
        waiter = threading.Thread(target=lambda: got.append(locks.lock("x", wait=30, label="waiter").acquire()))
        waiter.start()
        self.waits(other, "x")
        one.kill()
        held.release()
        waiter.join(15)
        self.assertGreater(got[0].token, held.token)
        self.assertEqual([holder.label for holder in other.inspect("x").holders], ["waiter"])
        got[0].release()

    def test_a_replica_that_is_stopped_is_left_alone(self) -> None:
        one, two = self.serve(), self.serve()
        other = self.client(two)
        held = other.lock("x", ttl=30).acquire()
        locks = self.client(one, two)
        got = []
        waiter = threading.Thread(target=lambda: got.append(locks.lock("x", wait=30, label="waiter").acquire()))
        waiter.start()
        self.waits(other, "x")
        one.signal(signal.SIGSTOP)
        held.release()
        waiter.join(20)
        self.assertEqual(len(got), 1)
        got[0].check()
        got[0].release()

    def test_a_hold_is_renewed_through_the_other_replica(self) -> None:
        one, two = self.serve(), self.serve()
        with self.client(one, two).lock("x", ttl=6) as lock:
            one.signal(signal.SIGSTOP)
            renewals = lock._keeper.renewals
            until("renewed", lambda: lock._keeper.renewals >= renewals + 3)
            lock.check()

    def test_a_service_that_comes_late_is_waited_for(self) -> None:
        service = self.serve()
        locks = self.client(service)
        service.kill()
        after(0.4, lambda: self.addCleanup(Service(self.folder, [], service.url.removeprefix("http://")).kill))
        locks.lock("x", wait=15).acquire().release()

    def test_nobody_there_is_not_the_same_as_busy(self) -> None:
        service = self.serve()
        service.kill()
        locks = self.client(service)
        with self.assertRaises(Unreachable) as caught:
            locks.try_lock("x")
        self.assertFalse(caught.exception.outcome_unknown, "nothing was sent")
        with self.assertRaises(Unreachable):
            locks.lock("x", wait=0.5).acquire()

    def test_a_service_that_is_silent_leaves_the_outcome_open_and_nothing_locked(self) -> None:
        service = self.serve()
        locks = self.client(service)
        locks.lock("warm").acquire().release()
        service.signal(signal.SIGSTOP)
        with self.assertRaises(Unreachable) as caught:
            locks.try_lock("x", ttl=60)
        self.assertTrue(caught.exception.outcome_unknown)
        service.signal(signal.SIGCONT)
        until("given back", lambda: locks.inspect("x").is_free)


    def test_a_grant_that_comes_late_is_believed_in_only_after_it_was_renewed(self) -> None:
        service = self.serve()
        locks = self.client(service)
        locks.lock("warm").acquire().release()
        service.signal(signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            trying = pool.submit(locks.try_lock, "x", ttl=1)
            until("longer than the ttl", lambda: time.monotonic() - began > 1.2)
            service.signal(signal.SIGCONT)
            lock = trying.result()
        assert lock is not None
        self.assertGreater(lock.remaining(), 0.5)
        self.assertEqual([holder.token for holder in locks.inspect("x").holders], [lock.token])
        lock.release()

    def test_a_claim_that_is_sent_again_is_the_same_and_not_in_its_own_way(self) -> None:
        one, two = self.serve(), self.serve()
        locks = self.client(one, two)
        one.signal(signal.SIGSTOP)
        lock = locks.try_lock("x", ttl=30)
        assert lock is not None
        one.signal(signal.SIGCONT)
        # What was asked of the first is answered by now, too, with the same hold.
        until("the first is back", lambda: self.client(one).inspect("x").holders)
        self.assertEqual([holder.token for holder in locks.inspect("x").holders], [lock.token])
        lock.check()
        lock.release()
        self.assertTrue(locks.inspect("x").is_free)


class Forks(Case):
    def test_a_child_of_a_fork_holds_nothing_and_may_lock_for_itself(self) -> None:
        locks = self.client(self.serve())
        with locks.lock("x", ttl=6) as lock:
            child = os.fork()
            if child == 0:
                os._exit(in_the_child(locks, lock))
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            renewals = lock._keeper.renewals
            until("renewed on", lambda: lock._keeper.renewals >= renewals + 2)
            lock.check()


def in_the_child(locks: fencepost.Client, lock: fencepost.Lock) -> int:
    try:
        try:
            with lock:
                pass
            return 1
        except LockLost as loss:
            if loss.reason != "forked" or not lock.lost.wait(1) or lock.is_held:
                return 2
        if locks.try_lock("x") is not None:
            return 3
        with locks.lock("y", ttl=5) as mine:
            mine.check()
        return 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return 4
