"""Everything that a program can ask for, while nothing goes wrong."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List, Union

import fencepost
from fencepost import Busy, Event, Invalid, LockLost, Permit, Stale

from .support import Case, Service, until


class Locks(Case):
    def setUp(self) -> None:
        super().setUp()
        self.locks = self.client(self.serve())

    def test_a_lock_is_held_in_its_block_and_free_after_it(self) -> None:
        with self.locks.lock("x", ttl=10, label="me") as lock:
            self.assertTrue(lock.is_held)
            self.assertGreater(lock.token, 0)
            # Counted from when it was asked for, less the drift of two clocks.
            self.assertTrue(8 < lock.remaining() < 9.9)
            (holder,) = self.locks.inspect("x").holders
            self.assertEqual((holder.label, holder.token), ("me", lock.token))
            self.assertIsNone(self.locks.try_lock("x"))
            lock.check()
        self.assertTrue(self.locks.inspect("x").is_free)
        self.assertFalse(lock.is_held)
        self.assertEqual(lock.remaining(), 0)
        self.assertFalse(lock.lost.is_set(), "released is not lost")

    def test_tokens_rise_and_an_older_one_is_stale(self) -> None:
        with self.locks.lock("x") as first:
            self.locks.check_token("x", first.token)
        with self.locks.lock("x") as second:
            self.assertGreater(second.token, first.token)
            with self.assertRaises(Stale) as caught:
                self.locks.check_token("x", first.token)
            self.assertEqual(caught.exception.seen, second.token)

    def test_names_may_have_any_characters(self) -> None:
        for name in ("a/b c?&#%", "..", "ключ", "a.b:c"):
            with self.locks.lock(name):
                self.assertFalse(self.locks.inspect(name).is_free, name)

    def test_who_waits_hears_who_has_it_and_is_out_of_the_line(self) -> None:
        with self.locks.lock("x", label="holder"):
            began = time.monotonic()
            with self.assertRaises(Busy) as caught:
                self.locks.lock("x", wait=2).acquire()
            self.assertGreaterEqual(time.monotonic() - began, 2)
            assert caught.exception.holder is not None
            self.assertEqual(caught.exception.holder.label, "holder")
            self.waits(self.locks, "x", 0)

    def test_waiters_come_in_order(self) -> None:
        order = []
        first = self.locks.lock("x").acquire()

        def wait(number: int) -> None:
            with self.locks.lock("x", wait=60, ttl=30):
                order.append(number)

        with ThreadPoolExecutor(3) as pool:
            for number in range(3):
                pool.submit(wait, number)
                self.waits(self.locks, "x", number + 1)
            first.release()
        self.assertEqual(order, [0, 1, 2])

    def test_a_lock_that_was_waited_for_lasts_a_whole_ttl(self) -> None:
        first = self.locks.lock("x").acquire()
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(self.locks.lock("x", ttl=60, wait=60).acquire)
            self.waits(self.locks, "x")
            first.release()
            lock = second.result()
        self.assertGreater(lock.remaining(), 20, "what is handed over in line lasts 3 s at most")
        (holder,) = self.locks.inspect("x").holders
        assert holder.expires_in is not None
        self.assertGreater(holder.expires_in, 20)
        lock.release()

    def test_a_lease_is_renewed_for_as_long_as_it_is_held(self) -> None:
        with self.locks.lock("x", ttl=4) as lock:
            until("renewed often", lambda: lock._keeper.renewals >= 3)
            lock.check()
            self.assertGreater(lock.renew(), 1.0)

    def test_what_is_lent_may_be_released_twice_and_checked_after(self) -> None:
        lock = self.locks.lock("x").acquire()
        lock.release()
        lock.release()
        with self.assertRaises(fencepost.FencepostError):
            lock.check()
        self.assertEqual(lock.remaining(), 0)

    def test_a_lock_belongs_to_no_thread(self) -> None:
        lock = self.locks.lock("x").acquire()
        releasing = threading.Thread(target=lock.release)
        releasing.start()
        releasing.join()
        self.assertTrue(self.locks.inspect("x").is_free)

    def test_a_claim_is_good_for_one_hold(self) -> None:
        claim = self.locks.lock("x")
        with claim:
            pass
        with self.assertRaises(RuntimeError):
            claim.acquire()

    def test_readers_share_and_their_token_is_good_for_no_write(self) -> None:
        with self.locks.lock("x", mode="shared") as one, self.locks.lock("x", mode="shared") as two:
            self.assertIsNone(self.locks.try_lock("x"))
            self.assertGreater(two.reader_token, 0)
            with self.assertRaises(Invalid):
                one.token
        with self.locks.lock("x") as writer, self.assertRaises(Invalid):
            writer.reader_token

    def test_a_semaphore_has_so_many_permits(self) -> None:
        with self.locks.semaphore("s", 3, take=2) as two, self.locks.semaphore("s", 3, wait=20) as one:
            slots = {permit.slot for permit in two.permits + one.permits}
            self.assertEqual(slots, {0, 1, 2})
            self.assertIsInstance(one.permits[0], Permit)
            self.assertIsNone(self.locks.try_semaphore("s", 3))
            with self.assertRaises(Invalid):
                one.token
            with self.assertRaises(Busy):
                self.locks.semaphore("s", 3, wait=2).acquire()
        with self.locks.semaphore("s", 3, take=3):
            pass

    def test_several_locks_are_all_or_nothing(self) -> None:
        with self.locks.lock_all(["b", "a"]) as both:
            self.assertEqual(set(both.tokens), {"a", "b"})
            self.assertIsNone(self.locks.try_lock_all(["a", "c"]))
            until("given back", lambda: self.locks.inspect("c").is_free)
        with self.locks.lock_all(["a", "c"], wait=20):
            pass

    def test_a_leader_is_known_and_followed(self) -> None:
        with self.locks.leaders("e") as leaders:
            self.assertIsNone(next(leaders))
            with self.locks.lead("e", payload="10.0.0.1:80", ttl=30) as term:
                leader = next(leaders)
                assert leader is not None
                self.assertEqual((leader.payload, leader.token), ("10.0.0.1:80", term.token))
                election = self.locks.election("e")
                self.assertEqual((election.leader and election.leader.payload, election.candidates), ("10.0.0.1:80", []))
                with ThreadPoolExecutor(1) as pool:
                    other = pool.submit(self.locks.lead("e", payload="other", wait=60).acquire)
                    until("a candidate", lambda: self.locks.election("e").candidates)
                    term.release()
                    self.assertGreater(other.result().token, term.token)
                    other.result().release()

    def test_a_leader_at_once_or_not_at_all(self) -> None:
        with self.locks.lead("e"), self.assertRaises(Busy):
            self.locks.lead("e", wait=0).acquire()

    def test_pages_of_locks_come_one_after_the_other(self) -> None:
        names = [f"many/{number:03}" for number in range(120)]
        for start in range(0, 120, 40):
            self.locks.lock_all(names[start : start + 40]).acquire().release()
        self.assertEqual([state.name for state in self.locks.locks("many/")], names)
        self.assertEqual(list(self.locks.locks("many/", contended=True)), [])

    def test_a_holder_hears_that_somebody_asks(self) -> None:
        with self.locks.lock("x", ttl=4) as lock:
            self.locks.ask("x", "please", label="somebody")
            until("heard", lambda: lock.yield_requested is not None)
            assert lock.yield_requested is not None
            self.assertEqual((lock.yield_requested.by, lock.yield_requested.note), ("somebody", "please"))

    def test_a_lock_can_be_held_for_so_long_at_most(self) -> None:
        with self.assertRaises(LockLost) as caught:
            with self.locks.lock("x", ttl=10, max_hold=0.3) as lock:
                self.assertTrue(lock.lost.wait(30))
        self.assertEqual(caught.exception.reason, "max_hold")

    def test_a_hold_that_nobody_has_any_more_is_not_renewed_for_ever(self) -> None:
        self.locks.lock("x", ttl=30).acquire()
        gc.collect()
        until("released", lambda: self.locks.inspect("x").is_free, timeout=25)

    def test_one_thread_renews_everything_and_ends_with_the_client(self) -> None:
        before = threading.active_count()
        client = fencepost.Client(self.serve().url)
        locks = [client.lock(f"n{number}", ttl=5).acquire() for number in range(20)]
        self.assertEqual(threading.active_count(), before + 1)
        until("all renewed", lambda: all(lock._keeper.renewals >= 1 for lock in locks))
        client.close()
        self.assertEqual(threading.active_count(), before)
        self.assertTrue(self.locks.inspect("n7").is_free, "closing releases")
        with self.assertRaises(fencepost.FencepostError):
            client.lock("x").acquire()

    def test_deadlocks_are_told_to_who_asked_for_it(self) -> None:
        one, two = "1" * 16, "2" * 16
        held = self.locks.lock("b", actor=two).acquire()
        with self.locks.lock("a", actor=one), ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(self.locks.lock("b", actor=one, wait=20).acquire)
            self.waits(self.locks, "b")
            with self.assertRaises(fencepost.Deadlock):
                self.locks.lock("a", actor=two, wait=20, fail_on_deadlock=True).acquire()
            held.release()
            waiting.result().release()

    def test_the_store_and_its_circles_can_be_asked(self) -> None:
        self.assertTrue(self.locks.nodes()["fifo"])
        self.assertEqual(self.locks.deadlocks(), [])

    def test_bad_settings_name_their_field(self) -> None:
        for bad in ({"ttl": 0}, {"ttl": float("nan")}, {"wait": -1}, {"ttl": 10, "loss_margin": 6}):
            with self.assertRaises(Invalid) as caught:
                self.locks.lock("x", **bad)
            self.assertIn(list(bad)[-1], str(caught.exception))
        with self.assertRaises(Invalid) as caught:
            self.locks.lock("x", ttl=7200).acquire()
        self.assertEqual(caught.exception.field, "ttl_ms")
        with self.assertRaises(Invalid):
            self.locks.lock_all("abc")
        with self.assertRaises(Invalid):
            self.locks.try_lock("x", wait=5)
        urls: List[Union[str, List[str]]] = ["localhost:7117", "ftp://x", "http://user:secret@host", []]
        for url in urls:
            with self.assertRaises(Invalid) as caught:
                fencepost.Client(url)
            self.assertNotIn("secret", str(caught.exception))


class Events(Case):
    def test_events_go_on_after_the_replica_was_restarted(self) -> None:
        service = self.serve()
        locks = self.client(service)
        with locks.events("x") as events:
            heard: List[Event] = []

            def listen() -> None:
                for event in events:
                    heard.append(event)

            def something_is_heard() -> bool:
                locks.lock("x").acquire().release()
                return bool(heard)

            reader = threading.Thread(target=listen, daemon=True)
            reader.start()
            until("listens", something_is_heard)
            service.kill()
            again = Service(self.folder, [], service.url.removeprefix("http://"))
            self.addCleanup(again.kill)
            until("missed is told", lambda: any(event.kind == "missed" for event in heard))
            number = len(heard)
            locks.lock("y").acquire().release()
            locks.lock("x").acquire().release()
            until("goes on", lambda: any(event.kind == "acquired" for event in heard[number:]))
            self.assertEqual({event.name for event in heard[number:]}, {"x"})
            locks.close()
            reader.join(5)
