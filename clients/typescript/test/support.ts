// A real service for each test, and real processes beside it.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import type { TestContext } from "node:test";

import { Client, type ClientOptions, type Lock } from "../src/index.js";

export function program(): string {
  const path = process.env["FENCEPOST_PROGRAM"];
  if (!path) {
    throw new Error("FENCEPOST_PROGRAM is not set: run these tests by `cargo test -p fencepost-cli --test clients`");
  }
  return path;
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits for something that has to come. */
export async function until(what: string, condition: () => unknown, ms = 60_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`never: ${what}`);
    await sleep(10);
  }
}

/** What an awaited promise was rejected with. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => {
      throw new Error("it did not fail");
    },
    (error: unknown) => error,
  );
}

export class Child {
  readonly #lines: AsyncIterator<string>;

  constructor(readonly process: ChildProcess) {
    const lines: Interface = createInterface({ input: process.stdout! });
    this.#lines = lines[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    const next = await this.#lines.next();
    return next.done ? "" : next.value;
  }

  get ended(): Promise<number | null> {
    const { process } = this;
    if (process.exitCode !== null || process.signalCode !== null) return Promise.resolve(process.exitCode);
    return new Promise((resolve) => process.once("exit", (code) => resolve(code)));
  }

  /** Stops or kills it, and waits until all of its threads have. */
  async signal(how: "SIGSTOP" | "SIGKILL"): Promise<void> {
    this.process.kill(how);
    if (how === "SIGKILL") return void (await this.ended);
    const threads = `/proc/${this.process.pid}/task`;
    const isStopped = (thread: string): boolean => /\) T/.test(readFileSync(`${threads}/${thread}/stat`, "utf8"));
    await until("stopped", () => readdirSync(threads).every(isStopped));
  }

  async kill(): Promise<void> {
    this.process.kill("SIGCONT");
    this.process.kill("SIGKILL");
    await this.ended;
  }
}

/** A place for one test, with everything that ends with it. */
export class Place {
  readonly folder = mkdtempSync(join(tmpdir(), "fencepost-node-"));
  readonly #ends: (() => unknown)[] = [];

  constructor(test: TestContext) {
    this.#ends.push(() => rmSync(this.folder, { recursive: true, force: true }));
    // What was begun last ends first: nobody writes to the folder any more when it is removed.
    test.after(async () => {
      for (const end of this.#ends.reverse()) await end();
    });
  }

  start(command: string, words: string[], environment: NodeJS.ProcessEnv = {}): Child {
    const log = openSync(join(this.folder, "log"), "a");
    const child = new Child(
      spawn(command, words, { stdio: ["pipe", "pipe", log], env: { ...process.env, ...environment } }),
    );
    this.#ends.push(() => child.kill());
    return child;
  }

  /** Another process that runs this code, with the client as `fencepost`. */
  worker(code: string, words: string[], environment: NodeJS.ProcessEnv = {}): Child {
    const module = new URL("../src/index.js", import.meta.url).href;
    const script = `import * as fencepost from ${JSON.stringify(module)};\nconst [url] = process.argv.slice(1);\n${code}`;
    return this.start(process.execPath, ["--input-type=module", "-e", script, ...words], environment);
  }

  async serve(words: string[] = [], listen = "127.0.0.1:0"): Promise<{ child: Child; url: string; address: string }> {
    const store = `sqlite:${join(this.folder, "locks.db")}`;
    const child = this.start(program(), ["--store", store, "serve", "--listen", listen, ...words]);
    const url = await child.line();
    if (!url) throw new Error(readFileSync(join(this.folder, "log"), "utf8"));
    return { child, url, address: url.replace(/^https?:\/\//, "") };
  }

  client(urls: string | string[], options: ClientOptions = {}): Client {
    const client = new Client(urls, options);
    this.#ends.push(() => client.close());
    return client;
  }

  log(): string {
    return readFileSync(join(this.folder, "log"), "utf8");
  }
}

export async function inLine(client: Client, name: string, number: number): Promise<void> {
  await until(`${number} in line for ${name}`, async () => (await client.inspect(name)).waiters.length === number);
}

/** Waits until a lease was renewed so often. */
export async function renewed(lock: Lock, times: number): Promise<void> {
  let [last, seen] = [lock.remaining(), 0];
  await until(`renewed ${times} times`, () => {
    const left = lock.remaining();
    if (left > last) seen += 1;
    last = left;
    return seen >= times;
  });
}

/** A `fetch` that something can come between. What it sends is sent whoever stops waiting for the answer. */
export function between(
  action: (path: string, send: () => Promise<Response>, init: RequestInit) => Promise<Response>,
): typeof fetch {
  return (input, init = {}) => {
    const send = (): Promise<Response> => fetch(input, { ...init, signal: null });
    return action(new URL(String(input)).pathname, send, init);
  };
}

/** As a connection that breaks: nobody knows what was heard. */
export function cut(): Promise<never> {
  return Promise.reject(new TypeError("cut"));
}
