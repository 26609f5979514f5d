// Everything that a program can ask for, while nothing goes wrong.

import assert from "node:assert/strict";
import test from "node:test";

import {
  BusyError,
  Client,
  DeadlockError,
  FencepostError,
  InvalidError,
  type LockEvent,
  LockLostError,
  NotHeldError,
  StaleError,
} from "../src/index.js";
import { failure, inLine, Place, renewed, until } from "./support.js";

test("a lock is held in its block and free after it", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  let token = 0n;
  {
    await using lock = await locks.lock("x", { ttlMs: 10_000, label: "me" });
    token = lock.token;
    assert.ok(lock.isHeld && token > 0n);
    // Counted from when it was asked for, less the drift of two clocks.
    assert.ok(lock.remaining() > 8000 && lock.remaining() < 9900);
    const [holder] = (await locks.inspect("x")).holders;
    assert.deepEqual([holder?.label, holder?.token], ["me", token]);
    assert.equal(await locks.tryLock("x"), null);
    await locks.checkToken("x", token);
    lock.check();
  }
  assert.deepEqual((await locks.inspect("x")).holders, []);
  const again = await locks.lock("x");
  assert.ok(again.token > token);
  const stale = await failure(locks.checkToken("x", token));
  assert.ok(stale instanceof StaleError && stale.seen === again.token);
  await again.release();
  await again.release();
  assert.equal(again.remaining(), 0);
  assert.equal(again.signal.aborted, false, "released is not lost");
  assert.throws(() => again.check(), FencepostError);
});

test("names may have any characters, but a URL has no place for dots alone", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  for (const name of ["a/b c?&#%", "ключ", "a.b:c", "%2e"]) {
    await using lock = await locks.lock(name);
    assert.equal((await locks.inspect(name)).holders[0]?.token, lock.token, name);
  }
  for (const name of ["", ".", ".."]) await assert.rejects(locks.lock(name), InvalidError);
});

test("who waits hears who has it, comes in order, and lasts a whole ttl", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const first = await locks.lock("x", { label: "holder" });
  const began = performance.now();
  const busy = await failure(locks.lock("x", { waitMs: 2_000 }));
  assert.ok(busy instanceof BusyError && busy.holder?.label === "holder" && busy.waitedMs >= 2_000);
  assert.ok(performance.now() - began >= 2_000);
  await inLine(locks, "x", 0);

  const order: number[] = [];
  const waiting: Promise<void>[] = [];
  for (const number of [0, 1, 2]) {
    const options = { waitMs: 60_000, ttlMs: 60_000 };
    waiting.push(
      locks.withLock("x", options, async (lock) => {
        order.push(number);
        assert.ok(lock.remaining() > 20_000, "what is handed over in line lasts 3 s at most");
        const [holder] = (await locks.inspect("x")).holders;
        assert.ok((holder?.expiresInMs ?? 0) > 20_000);
      }),
    );
    await inLine(locks, "x", number + 1);
  }
  await first.release();
  await Promise.all(waiting);
  assert.deepEqual(order, [0, 1, 2]);
});

test("a lease is renewed for as long as it is held, and hears that somebody asks", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  await using lock = await locks.lock("x", { ttlMs: 4000 });
  await renewed(lock, 3);
  lock.check();
  assert.ok((await lock.renew()) > 1000);
  await locks.ask("x", "please", "somebody");
  await until("heard", () => lock.yieldRequested !== null);
  assert.equal(lock.yieldRequested?.by, "somebody");
});

test("readers, permits, several names and leaders", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  {
    await using one = await locks.lock("r", { mode: "shared" });
    await using two = await locks.lock("r", { mode: "shared" });
    assert.ok(two.readerToken > 0n);
    assert.equal(two.tokens.size, 0, "none that is good for a write");
    assert.throws(() => one.token, InvalidError);
    assert.equal(await locks.tryLock("r"), null);
  }
  {
    await using two = await locks.semaphore("s", { permits: 3, take: 2 });
    await using one = await locks.semaphore("s", { permits: 3, waitMs: 20_000 });
    const slots = [...two.permits, ...one.permits].map(({ slot }) => slot).sort();
    assert.deepEqual(slots, [0, 1, 2]);
    assert.equal(await locks.trySemaphore("s", { permits: 3 }), null);
    assert.ok((await failure(locks.semaphore("s", { permits: 3, waitMs: 2_000 }))) instanceof BusyError);
    assert.throws(() => one.token, InvalidError);
  }
  {
    await using both = await locks.lockAll(["b", "a"]);
    assert.deepEqual([...both.tokens.keys()].sort(), ["a", "b"]);
    assert.equal(await locks.tryLockAll(["a", "c"]), null);
    await until("given back", async () => (await locks.inspect("c")).holders.length === 0);
  }
  const leaders = locks.leaders("e");
  assert.equal((await leaders.next()).value, null);
  const term = await locks.lead("e", { payload: "10.0.0.1:80" });
  assert.equal((await leaders.next()).value?.payload, "10.0.0.1:80");
  const other = locks.lead("e", { payload: "other", waitMs: 60_000 });
  await until("a candidate", async () => (await locks.election("e")).candidates.length === 1);
  await term.release();
  assert.ok((await other).token > term.token);
  assert.equal((await locks.election("e")).leader?.payload, "other");
  await leaders.return();
  await (await other).release();
});

test("pages, nodes and circles", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const names = Array.from({ length: 120 }, (_, number) => `many/${String(number).padStart(3, "0")}`);
  for (let start = 0; start < 120; start += 40) {
    await (await locks.lockAll(names.slice(start, start + 40))).release();
  }
  const seen: string[] = [];
  for await (const state of locks.locks("many/")) seen.push(state.name);
  assert.deepEqual(seen, names);
  assert.equal((await locks.nodes())["fifo"], true);

  const [one, two] = ["1".repeat(16), "2".repeat(16)];
  const [a, b] = [await locks.lock("a", { actor: one }), await locks.lock("b", { actor: two })];
  const waiting = locks.lock("b", { actor: one, waitMs: 20_000 });
  await inLine(locks, "b", 1);
  const circle = await failure(locks.lock("a", { actor: two, waitMs: 20_000, failOnDeadlock: true }));
  assert.ok(circle instanceof DeadlockError);
  await b.release();
  await (await waiting).release();
  await a.release();
  assert.deepEqual(await locks.deadlocks(), []);
});

test("what is said for all claims holds for each, but whoever tries does not wait", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const locks = place.client(url, { defaults: { ttlMs: 60_000, waitMs: 2_000, label: "mine" } });
  const lock = await locks.tryLock("x");
  const [holder] = (await locks.inspect("x")).holders;
  assert.ok(lock && holder?.label === "mine" && lock.remaining() > 30_000);
  assert.equal(await locks.tryLock("x"), null);
  assert.equal(await locks.tryLockAll(["x", "y"]), null);
  assert.ok(await locks.trySemaphore("s", { permits: 1 }));
  const busy = await failure(locks.lock("x"));
  assert.ok(busy instanceof BusyError && busy.waitedMs >= 2_000, String(busy));
});

test("a lock is taken by force only from whom it was meant", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const [first] = [await locks.lock("x")];
  await first.release();
  const second = await locks.lock("x", { label: "second" });
  assert.ok((await failure(locks.forceRelease("x", "stuck", first.token))) instanceof NotHeldError);
  await second.renew();
  assert.equal((await locks.forceRelease("x", "stuck", second.token))?.label, "second");
  const reader = await locks.lock("r", { mode: "shared" });
  assert.equal((await locks.forceRelease("r", "stuck", reader.readerToken))?.shared, true);
});

test("a lock can be held for so long at most", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const lost = await failure(
    locks.withLock("x", { ttlMs: 10_000, maxHoldMs: 300 }, (lock) => until("lost", () => lock.signal.aborted)),
  );
  assert.ok(lost instanceof LockLostError && lost.reason === "max_hold");
});

test("events go on after the replica was restarted", async (t) => {
  const place = new Place(t);
  const { child, url, address } = await place.serve();
  const locks = place.client(url);
  const [heard, stop] = [[] as LockEvent[], new AbortController()];
  const listening = (async () => {
    for await (const event of locks.events("x", { signal: stop.signal })) heard.push(event);
  })();
  await until("listens", async () => {
    await (await locks.lock("x")).release();
    return heard.length > 0;
  });
  await child.kill();
  await place.serve([], address);
  await until("missed is told", () => heard.some(({ kind }) => kind === "missed"));
  const number = heard.length;
  await (await locks.lock("y")).release();
  await (await locks.lock("x")).release();
  await until("goes on", () => heard.slice(number).some(({ kind }) => kind === "acquired"));
  assert.deepEqual(new Set(heard.slice(number).map(({ name }) => name)), new Set(["x"]));
  stop.abort();
  await listening;
});

test("a closed client holds nothing", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const client = new Client(url);
  await client.lock("x");
  await client.close();
  assert.deepEqual((await place.client(url).inspect("x")).holders, []);
  assert.ok((await failure(client.lock("x"))) instanceof FencepostError);
});

test("bad settings name their field", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  for (const bad of [{ ttlMs: 0 }, { ttlMs: NaN }, { waitMs: -1 }, { ttlMs: 10, lossMarginMs: 6 }]) {
    const field = Object.keys(bad).at(-1) ?? "";
    await assert.rejects(locks.lock("x", bad), { name: "InvalidError", message: new RegExp(field) });
  }
  await assert.rejects(locks.tryLock("x", { waitMs: 5 }), InvalidError);
  await assert.rejects(locks.trySemaphore("x", { permits: 1, waitMs: 5 }), InvalidError);
  const refused = await failure(locks.lock("x", { ttlMs: 7_200_000 }));
  assert.ok(refused instanceof InvalidError && refused.field === "ttl_ms");
  for (const url of ["localhost:7117", "ftp://x", "http://user:secret@host", []]) {
    assert.throws(() => new Client(url), (error: Error) => error instanceof InvalidError && !/secret/.test(error.message));
  }
});
