// Waiting for a lock: aborted, at a replica that goes, and for a service that is away.

import assert from "node:assert/strict";
import test from "node:test";

import { Client, FencepostError, type Lock, UnreachableError } from "../src/index.js";
import { between, cut, failure, inLine, Place, renewed, until } from "./support.js";

test("a wait that is aborted is out of the line and leaves nothing locked", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const held = await locks.lock("x");
  const stop = new AbortController();
  const waiting = failure(locks.lock("x", { signal: stop.signal }));
  await inLine(locks, "x", 1);
  const reason = new Error("enough");
  stop.abort(reason);
  assert.equal(await waiting, reason);
  assert.deepEqual((await locks.inspect("x")).waiters, []);
  await held.release();
  assert.deepEqual((await locks.inspect("x")).holders, []);
  assert.equal(await failure(locks.lock("x", { signal: stop.signal })), reason);
});

test("a signal that is aborted later has no say in a lock that is held, nor in its release", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  const stop = new AbortController();
  const lock = await locks.lock("x", { ttlMs: 6000, signal: stop.signal });
  stop.abort();
  await renewed(lock, 2);
  lock.check();
  await lock.release();
  assert.deepEqual((await locks.inspect("x")).holders, []);
});

test("a grant that comes late is believed in only after it was renewed", async (t) => {
  const place = new Place(t);
  const { child, url } = await place.serve();
  const locks = place.client(url);
  await (await locks.lock("warm")).release();
  await child.signal("SIGSTOP");
  const began = performance.now();
  const trying = locks.tryLock("x", { ttlMs: 1000 });
  await until("longer than the ttl", () => performance.now() - began > 1200);
  child.process.kill("SIGCONT");
  const lock = await trying;
  assert.ok(lock !== null && lock.remaining() > 500, String(lock?.remaining()));
  assert.equal((await locks.inspect("x")).holders[0]?.token, lock.token);
  await lock.release();
});

test("a claim that is aborted at any moment leaves nothing locked", async (t) => {
  const place = new Place(t);
  const locks = place.client((await place.serve()).url);
  for (let number = 0; number < 40; number++) {
    const signal = AbortSignal.timeout(number % 10);
    const lock = await locks[number % 2 ? "lock" : "tryLock"]("x", { ttlMs: 60_000, signal }).catch((error: unknown) => {
      assert.equal(error, signal.reason);
      return null;
    });
    await lock?.release();
    const { holders, waiters } = await locks.inspect("x");
    assert.deepEqual([holders, waiters], [[], []], `after ${number % 10} ms`);
  }
});

for (const how of ["SIGKILL", "SIGSTOP"] as const) {
  test(`who waits goes on at the other replica after ${how}`, async (t) => {
    const place = new Place(t);
    const [one, two] = [await place.serve(), await place.serve()];
    const other = place.client(two.url);
    const held = await other.lock("x", { ttlMs: 30_000 });
    const waiting = place.client([one.url, two.url]).lock("x", { waitMs: 30_000, label: "waiter" });
    await inLine(other, "x", 1);
    await one.child.signal(how);
    await held.release();
    const lock: Lock = await waiting;
    assert.ok(lock.token > held.token);
    lock.check();
    assert.equal((await other.inspect("x")).holders[0]?.label, "waiter");
    await lock.release();
  });
}

test("a hold is renewed through the other replica", async (t) => {
  const place = new Place(t);
  const [one, two] = [await place.serve(), await place.serve()];
  await using lock = await place.client([one.url, two.url]).lock("x", { ttlMs: 6000 });
  await one.child.signal("SIGSTOP");
  await renewed(lock, 3);
  lock.check();
});

test("nobody there is not the same as busy, and a service that comes late is waited for", async (t) => {
  const place = new Place(t);
  const { child, url, address } = await place.serve();
  const locks = place.client(url);
  await child.kill();
  const gone = await failure(locks.tryLock("x"));
  assert.ok(gone instanceof UnreachableError && !gone.outcomeUnknown, "nothing was sent");
  assert.ok((await failure(locks.lock("x", { waitMs: 500 }))) instanceof UnreachableError);
  const late = locks.lock("x", { waitMs: 15_000 });
  await place.serve([], address);
  await (await late).release();
});

test("a service that is silent leaves the outcome open and nothing locked", async (t) => {
  const place = new Place(t);
  const { child, url } = await place.serve();
  const locks = place.client(url);
  await (await locks.lock("warm")).release();
  await child.signal("SIGSTOP");
  const error = await failure(locks.tryLock("x", { ttlMs: 60_000 }));
  assert.ok(error instanceof UnreachableError && error.outcomeUnknown, String(error));
  child.process.kill("SIGCONT");
  await until("given back", async () => (await locks.inspect("x")).holders.length === 0);
});

test("closing the client ends a wait, and no work begins", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const [other, locks] = [place.client(url), new Client(url)];
  const held = await other.lock("x");
  let worked = false;
  const waiting = failure(locks.withLock("x", {}, () => (worked = true)));
  await inLine(other, "x", 1);
  await locks.close();
  const error = await waiting;
  assert.ok(error instanceof FencepostError && error.code === "closed", String(error));
  assert.deepEqual((await other.inspect("x")).waiters, []);
  await held.release();
  assert.deepEqual([(await other.inspect("x")).holders, worked], [[], false]);
});

test("closing the client while the grant is on its way gives it back, and no work begins", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  let closing: Promise<void> | undefined;
  const locks: Client = new Client(url, {
    fetch: between(async (path, send) => {
      const answer = await send();
      if (path.endsWith("/try")) closing = locks.close();
      return answer;
    }),
  });
  const error = await failure(locks.tryLock("x", { ttlMs: 60_000 }));
  assert.ok(error instanceof FencepostError && error.code === "closed", String(error));
  await closing;
  assert.deepEqual((await place.client(url).inspect("x")).holders, []);
});

test("a claim that is aborted while it is confirmed is released with its own token", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const other = place.client(url);
  const held = await other.lock("x");
  const stop = new AbortController();
  const released: unknown[] = [];
  const locks = place.client(url, {
    fetch: between((path, send, init) => {
      if (path.endsWith("/release")) released.push((JSON.parse(String(init.body)) as { token: unknown }).token);
      if (!path.endsWith("/renew")) return send();
      // It never arrives.
      return new Promise((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(new TypeError("aborted")));
        stop.abort();
      });
    }),
  });
  const waiting = failure(locks.lock("x", { ttlMs: 60_000, signal: stop.signal }));
  await inLine(other, "x", 1);
  await held.release();
  assert.equal(await waiting, stop.signal.reason);
  assert.deepEqual((await other.inspect("x")).holders, []);
  assert.equal(released.length, 1);
  assert.ok(BigInt(String(released[0])) > held.token, "not the smallest that there is");
});

test("a claim that is aborted is given back though the first try of that fails", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const stop = new AbortController();
  let releases = 0;
  const locks = place.client(url, {
    fetch: between(async (path, send) => {
      if (path.endsWith("/release") && ++releases === 1) return cut();
      const answer = await send();
      if (!path.endsWith("/try")) return answer;
      stop.abort();
      return cut();
    }),
  });
  assert.equal(await failure(locks.tryLock("x", { ttlMs: 60_000, signal: stop.signal })), stop.signal.reason);
  assert.equal((await locks.inspect("x")).holders.length, 1, "not yet");
  await until("given back", async () => (await locks.inspect("x")).holders.length === 0);
});

test("a claim that another replica hears after the release holds nothing up", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const late: (() => Promise<Response>)[] = [];
  const locks = place.client([url, url], {
    fetch: between((path, send) => {
      if (!path.endsWith("/try") || late.length > 0) return send();
      late.push(send);
      return cut();
    }),
  });
  const lock = await locks.tryLock("x", { ttlMs: 60_000 });
  await lock?.release();
  assert.equal((await late[0]?.())?.status, 200);
  assert.equal((await locks.inspect("x")).holders.length, 1, "taken by nobody");
  await until("given back", async () => (await locks.inspect("x")).holders.length === 0);
});

test("of an answer that is not the service's own nobody knows the outcome", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  for (const status of [500, 502, 503]) {
    const strange = async (path: string, send: () => Promise<Response>): Promise<Response> => {
      const answer = await send();
      return path.endsWith("/try") ? new Response("<html>", { status }) : answer;
    };
    const locks = place.client(url, { fetch: between(strange) });
    const error = await failure(locks.tryLock("x", { ttlMs: 60_000 }));
    assert.ok(error instanceof UnreachableError && error.outcomeUnknown, String(error));
    await until("given back", async () => (await locks.inspect("x")).holders.length === 0);
  }
});
