// Keys and certificates.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { appendFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { Client, DeniedError, FencepostError, InvalidError, UnreachableError } from "../src/index.js";
import { keyFile } from "../src/node.js";
import { failure, Place, program, until } from "./support.js";

function newKey(file: string, principal: string, ...rights: string[]): string {
  const words = ["key", principal, ...rights.flatMap((right) => ["--allow", right])];
  const made = execFileSync(program(), words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  appendFileSync(file, made.slice(made.indexOf("[[key]]")));
  const key = /fpk_\w+/.exec(made)?.[0];
  assert.ok(key);
  return key;
}

test("a key opens what it is for, and can be rotated under way", async (t) => {
  const place = new Place(t);
  const [auth, file] = [join(place.folder, "auth.toml"), join(place.folder, "key")];
  const rights = ["acquire:orders/", "observe:orders/"];
  const first = newKey(auth, "orders", ...rights);
  const { url } = await place.serve(["--auth-file", auth]);
  writeFileSync(file, `${first}\n`);
  const locks = place.client(url, { apiKey: keyFile(file) });
  await using lock = await locks.lock("orders/1", { ttlMs: 30_000 });
  assert.ok((await failure(locks.forceRelease("orders/1"))) instanceof DeniedError);
  assert.ok((await failure(locks.lock("other"))) instanceof DeniedError);
  const nobody = await failure(place.client(url).lock("orders/1"));
  assert.ok(nobody instanceof DeniedError && nobody.status === 401);

  const second = newKey(`${auth}.new`, "orders", ...rights);
  renameSync(`${auth}.new`, auth);
  const old = place.client(url, { apiKey: first });
  await until("rotated", async () => (await old.inspect("orders/1").catch(() => null)) === null);
  const read = keyFile(file);
  assert.equal(await read(), first);
  for (const halfWritten of ["", "no key at all\n"]) {
    writeFileSync(file, halfWritten);
    assert.equal(await read(), first, "while it is being written");
    assert.ok((await failure(keyFile(file)())) instanceof InvalidError);
  }
  writeFileSync(file, `${second}\n\n`);
  assert.equal(await read(), second);
  assert.ok((await lock.renew()) > 10_000);
  assert.ok((await failure(place.client(url, { apiKey: keyFile("/nothing") }).tryLock("x"))) instanceof InvalidError);
  assert.throws(() => keyFile(""), InvalidError);
});

test("a function that gives no key, or too late, is told of and blocks nothing", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  let key: () => string | Promise<string> = () => Promise.reject(new Error("no vault"));
  const locks = place.client(url, { apiKey: () => key() });
  const refused = await failure(locks.tryLock("x"));
  assert.ok(refused instanceof FencepostError && /no vault/.test(refused.message), String(refused));
  key = () => "key";
  const lock = await locks.lock("x", { ttlMs: 60_000 });
  key = () => new Promise(() => undefined);
  const began = performance.now();
  const late = await failure(lock.release());
  assert.ok(late instanceof UnreachableError && !late.outcomeUnknown, String(late));
  assert.ok(performance.now() - began < 4000);
  key = () => "key";
  await until("released", async () => (await locks.inspect("x")).holders.length === 0);
});

test("a key that fits into no header is refused, and not shown", async (t) => {
  const place = new Place(t);
  const { url } = await place.serve();
  const isQuiet = (error: unknown): boolean => error instanceof InvalidError && !/secret/.test(error.message);
  for (const bad of ["secret\nx", "secret\u00e9", "secret key", " ", ""]) {
    assert.throws(() => new Client(url, { apiKey: bad }), isQuiet);
    await assert.rejects(place.client(url, { apiKey: () => bad }).tryLock("x"), isQuiet);
  }
  await (await place.client(url, { apiKey: " key\n" }).lock("x")).release();
});

test("TLS with a key", async (t) => {
  const place = new Place(t);
  const tls = process.env["FENCEPOST_TEST_TLS"] ?? "";
  const auth = join(place.folder, "auth.toml");
  const key = newKey(auth, "orders", "acquire:orders/");
  const served = await place.serve(
    ["--auth-file", auth, "--tls-cert", join(tls, "server.pem"), "--tls-key", join(tls, "server.key")],
  );
  const url = served.url.replace("127.0.0.1", "localhost");
  assert.match(url, /^https:/);
  const code = `const client = new fencepost.Client(url, { apiKey: process.argv[2] });
    try {
      console.log(await client.withLock("orders/1", { ttlMs: 3000 }, async (lock) => {
        await new Promise((resolve) => setTimeout(resolve, 3500));
        return lock.isHeld;
      }));
    } catch (error) { console.log(error.name, error.message); process.exit(1); }`;
  const trusting = place.worker(code, [url, key], { NODE_EXTRA_CA_CERTS: join(tls, "ca.pem") });
  assert.equal(await trusting.line(), "true", place.log());
  const strange = place.worker(code.replace("ttlMs: 3000", "ttlMs: 3000, waitMs: 2000"), [url, key]);
  assert.match(await strange.line(), /^UnreachableError .*certificate/);
});
