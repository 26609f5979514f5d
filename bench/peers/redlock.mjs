// npm `redlock` over `ioredis` in a contest: ../src/contest.rs says what it is told and what it tells.
// Arguments: the folder with node_modules, the package's name there, then the words of the contest.
import { createRequire } from "node:module";
import { once } from "node:events";

const [modules, name, addresses, tasks, shared, holdMicros, lengthMicros] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Redis } = require("ioredis");
const library = require(name);
const Redlock = library.default ?? library;

const TTL_MS = 30_000;
const WARM_MS = 150;
const GRACE_MS = 2000;
const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const clients = addresses.split(",").map((address) => new Redis(`redis://${address}`));
// What one node says does not matter, a quorum does; without a listener either would end the process.
clients.forEach((client) => client.on("error", () => {}));
// Its defaults, except that it never gives up.
const redlock = new Redlock(clients, { retryCount: -1 });
redlock.on("error", () => {});

async function takeTurns(task, lock, hold, end, state) {
  while (now() < end) {
    state.asked = now();
    const held = await redlock.acquire([lock], TTL_MS);
    const from = now();
    if (hold > 0) await sleep(hold);
    const until = now();
    // A release that finds no quorum throws; it is tried once, as a caller would.
    await redlock.release(held).catch(() => {});
    state.lines.push(`${task} ${state.asked} ${from} ${until} ${now()} 0`);
  }
  state.over = true;
}

async function allTurns(shared, hold, lengthMs) {
  const end = now() + BigInt(Math.round(lengthMs * 1e6));
  const states = Array.from({ length: Number(tasks) }, () => ({ lines: [], asked: now(), over: false }));
  const lock = (task) => (shared.startsWith("own") ? `${shared}-${task}` : shared);
  const all = states.map((state, task) => takeTurns(task, lock(task), hold, end, state));
  await Promise.race([Promise.all(all), sleep(lengthMs + GRACE_MS)]);
  return states.flatMap(({ lines, asked, over }) => (over ? lines : [...lines, `stuck ${asked}`]));
}

await allTurns(shared.startsWith("own") ? shared : `own-warm-${process.pid}`, 0, WARM_MS);
console.log("ready");
process.stdin.resume();
await once(process.stdin, "end");
const before = process.cpuUsage();
const lines = await allTurns(shared, Number(holdMicros) / 1000, Number(lengthMicros) / 1000);
const used = process.cpuUsage(before);
lines.push(`cpu ${(used.user + used.system) * 1000}`, "end", "");
process.stdout.write(lines.join("\n"), () => process.exit());
