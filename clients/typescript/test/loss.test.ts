// What goes wrong: the lock is lost, the service is away, the work fails.

import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout } from "node:timers/promises";

import { Clock } from "../src/clock.js";
import { BusyError, Client, type Lock, LockLostError, lossOf } from "../src/index.js";
import { between, cut, failure, Place, until } from "./support.js";

test("a lock that was taken away aborts the work with the next renewal", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const lost = await failure(
    locks.withLock("x", { ttlMs: 3000 }, async (lock) => {
      await locks.forceRelease("x", "test");
      await until("aborted", () => lock.signal.aborted);
      assert.equal(lock.isHeld, false);
      assert.equal(lock.remaining(), 0);
      assert.equal(lock.signal.reason, lock.lost);
      assert.throws(() => lock.check(), LockLostError);
    }),
  );
  assert.ok(lost instanceof LockLostError && lost.reason === "revoked");
});

for (const how of ["SIGSTOP", "SIGKILL"] as const) {
  test(`a service that was ended by ${how} costs the lock before its lease ends`, async (t) => {
    const place = new Place(t);
    const { child, url } = await place.serve();
    const locks = place.client(url);
    let [sent, aborted] = [0, 0];
    const lost = await failure(
      locks.withLock("x", { ttlMs: 6000, lossMarginMs: 3000 }, async (lock) => {
        sent = performance.now();
        await lock.renew();
        const signal = lock.signal;
        signal.addEventListener("abort", () => (aborted = performance.now()));
        await child.signal(how);
        // Work that heeds its signal.
        await setTimeout(60_000, null, { signal }).catch(() => signal.throwIfAborted());
      }),
    );
    assert.ok(lost instanceof LockLostError && lost.reason === "expired", String(lost));
    assert.ok(aborted - sent < 6000, `before the lease ends: ${aborted - sent}`);
    assert.ok(aborted - sent > 2500, `and not much before it has to be: ${aborted - sent}`);
  });
}

test("a service that is away for a moment costs nothing", async (t) => {
  const place = new Place(t);
  const { child, url, address } = await place.serve();
  await using lock = await place.client(url).lock("x", { ttlMs: 4000 });
  await child.kill();
  await until("a renewal is due", () => lock.remaining() < 4000 * 0.6);
  await place.serve([], address);
  await until("renewed again", () => lock.remaining() > 3200);
  lock.check();
});

test("a lock lost by our own pause is known at once", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const worker = place.worker(
    `const lock = await new fencepost.Client(url).lock("x", { ttlMs: 500 });
     console.log("held");
     process.stdin.once("data", () => { console.log(lock.isHeld, lock.signal.aborted, lock.remaining()); process.exit(); });`,
    [url],
  );
  assert.equal(await worker.line(), "held");
  worker.process.kill("SIGSTOP");
  await using lock = await place.client(url).lock("x", { waitMs: 10_000 });
  worker.process.stdin?.write("\n");
  worker.process.kill("SIGCONT");
  assert.equal(await worker.line(), "false true 0");
  lock.check();
});

test("a worker that was killed frees its lock within the ttl", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const worker = place.worker(
    `const lock = await new fencepost.Client(url).lock("x", { ttlMs: 1500 });
     console.log(String(lock.token)); setInterval(() => undefined, 1000);`,
    [url],
  );
  const token = BigInt(await worker.line());
  worker.process.kill("SIGKILL");
  const began = performance.now();
  await using lock = await place.client(url).lock("x", { waitMs: 20_000 });
  assert.ok(performance.now() - began < 1500 + 10_000);
  assert.ok(lock.token > token);
});

test("a process that has nothing else to do ends though it holds a lock", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const worker = place.worker(`await new fencepost.Client(url).lock("x", { ttlMs: 60_000 }); console.log("held");`, [url]);
  assert.equal(await worker.line(), "held");
  const began = performance.now();
  assert.equal(await worker.ended, 0);
  assert.ok(performance.now() - began < 10_000);
});

test("the error of the work is never hidden, and the lock is free", async (t) => {
  const place = new Place(t);
  const { child, url } = await place.serve();
  const locks = place.client(url);
  const own = new Error("my own");
  const fail = (): never => {
    throw own;
  };
  assert.equal(await failure(locks.withLock("x", {}, fail)), own);
  assert.deepEqual((await locks.inspect("x")).holders, []);
  const lost = locks.withLock("x", { ttlMs: 1000 }, async (lock) => {
    await locks.forceRelease("x");
    await until("lost", () => lock.signal.aborted);
    fail();
  });
  assert.equal(await failure(lost), own);
  const using = async (): Promise<void> => {
    await using lock = await locks.lock("y");
    lock.check();
    fail();
  };
  assert.equal(await failure(using()), own);
  const began = performance.now();
  const gone = locks.withLock("x", {}, async () => {
    await child.kill();
    fail();
  });
  assert.equal(await failure(gone), own);
  assert.ok(performance.now() - began < 3000);
});

test("`await using` says that its lock was lost, unless `check` did", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const work = async (checks: boolean): Promise<void> => {
    await using lock = await locks.lock("x", { ttlMs: 1000 });
    await locks.forceRelease("x");
    await until("lost", () => lock.signal.aborted);
    if (checks) lock.check();
  };
  for (const checks of [false, true]) {
    const error = await failure(work(checks));
    assert.ok(error instanceof LockLostError, String(error));
  }
});

test("a loss is found in whatever `await using` makes of it", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const work = async (): Promise<void> => {
    await using lock = await locks.lock("x", { ttlMs: 1000 });
    await locks.forceRelease("x");
    // As a `fetch` that is aborted does.
    await setTimeout(60_000, null, { signal: lock.signal });
  };
  const error = await failure(work());
  assert.ok(!(error instanceof LockLostError), "two errors in one");
  assert.equal(lossOf(error)?.reason, "revoked", String(error));
  const loss = lossOf(error);
  assert.equal(lossOf(loss), loss);
  assert.equal(lossOf(new Error("wrapped", { cause: loss })), loss);
  const circle = new Error("my own");
  circle.cause = circle;
  for (const other of [circle, null, undefined, "lost", new BusyError("x", "held")]) assert.equal(lossOf(other), null);
});

test("work whose client is closed hears of it, and others may begin", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const locks = new Client(url);
  const using = async (): Promise<void> => {
    await using lock = await locks.lock("y");
    await until("aborted", () => lock.isHeld === false);
  };
  const own = new Error("my own");
  const [working, usingIt, failing] = [
    locks.withLock("x", {}, (lock) => until("aborted", () => lock.signal.aborted)),
    using(),
    locks.withLock("z", {}, async (lock) => {
      await until("aborted", () => lock.signal.aborted);
      throw own;
    }),
  ].map(failure);
  const other = place.client(url);
  for (const name of ["x", "y", "z"]) {
    await until("held", async () => (await other.inspect(name)).holders.length > 0);
  }
  await locks.close();
  for (const name of ["x", "y", "z"]) assert.deepEqual((await other.inspect(name)).holders, []);
  for (const lost of [await working, await usingIt]) {
    assert.ok(lost instanceof LockLostError && lost.reason === "closed", String(lost));
  }
  assert.equal(await failing, own);
});

for (const [lockDelayMs, releases] of [[undefined, 1], [30_000, 0]] as const) {
  test(`a lock that expired is ${releases ? "released" : "left to rest"} with a delay of ${lockDelayMs}`, async (t) => {
    const place = new Place(t);
    const { url } = await place.serve();
    let sent = 0;
    const locks = place.client(url, {
      fetch: between((path, send) => {
        if (path.endsWith("/release")) sent += 1;
        return path.endsWith("/renew") ? cut() : send();
      }),
    });
    const options = lockDelayMs === undefined ? {} : { lockDelayMs };
    for (const [name, more, reason] of [["x", { ttlMs: 1000 }, "expired"], ["y", { maxHoldMs: 200 }, "max_hold"]] as const) {
      sent = 0;
      const wait = (lock: Lock): Promise<void> => until("lost", () => lock.signal.aborted);
      const lost = await failure(locks.withLock(name, { ...options, ...more }, wait));
      assert.ok(lost instanceof LockLostError && lost.reason === reason, String(lost));
      // What was sent in the background was sent before this was answered.
      await locks.inspect(name);
      assert.equal(sent, releases, reason);
    }
    if (releases) await until("free", async () => (await locks.inspect("y")).holders.length === 0);
  });
}

test("the signal looks at the clock, however busy the loop was", async (t) => {
  const place = new Place(t);
  const lock = await place.client((await place.serve()).url).lock("x", { ttlMs: 300 });
  const began = performance.now();
  while (performance.now() - began < 350);
  assert.equal(lock.signal.aborted, true);
});

test("work that ended in time is done though nobody confirms the release, which is tried on", async (t) => {
  const place = new Place(t);
  const { child, url, address } = await place.serve();
  const locks = place.client(url);
  assert.equal(await locks.withLock("x", { ttlMs: 30_000 }, () => child.kill().then(() => 7)), 7);
  await place.serve([], address);
  await until("released", async () => (await locks.inspect("x")).holders.length === 0);
});

test("the clock counts sleep, and never goes back", () => {
  let [monotonic, wall] = [0, 1_000_000];
  const clock = new Clock(
    () => monotonic,
    () => wall,
  );
  const began = clock.now();
  // Read finely, it is not ahead of either.
  for (let step = 0; step < 1000; step++) {
    monotonic += 0.3;
    wall = 1_000_000 + Math.floor(monotonic);
    clock.now();
  }
  assert.ok(Math.abs(clock.now() - began - 300) < 10);
  wall += 60_000;
  assert.ok(clock.now() - began >= 60_300, "asleep for a minute");
  const last = clock.now();
  wall -= 3_600_000;
  assert.ok(clock.now() >= last, "set back");
  monotonic += 5;
  wall += 5;
  assert.ok(clock.now() - last >= 5);
});
