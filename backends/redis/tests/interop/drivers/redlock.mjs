// npm `redlock` over `ioredis`, driven by a line protocol: see client.rs.
// Arguments: the folder with node_modules, the package's name there, the servers' ports.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, name, ...ports] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Redis } = require("ioredis");
const library = require(name);
const Redlock = library.default ?? library;

const clients = ports.map((port) => new Redis(Number(port), "127.0.0.1"));
const once = new Redlock(clients, { retryCount: 0 });
const patient = new Redlock(clients, { retryCount: -1, retryDelay: 100, retryJitter: 50 });
// Version 5 tells each refused vote here, and ends the process if nobody listens.
patient.on("error", () => {});
once.on("error", () => {});

// A quorum that refused; anything else is a fault of the test.
function refused(error) {
  if (["ExecutionError", "LockError"].includes(error.name)) return;
  throw error;
}

let held;

async function acquire(redlock, resource, ttl) {
  const lock = await redlock.acquire([resource], Number(ttl)).catch(refused);
  held = lock ?? held;
  return lock ? "held" : "busy";
}

async function extend(ttl) {
  // A lock that was won after retries is extended without any.
  const lock = await once.extend(held, Number(ttl)).catch(refused);
  held = lock ?? held;
  return lock ? "kept" : "lost";
}

async function unlock() {
  const done = await once.release(held).then(() => true, refused);
  return done ? "done" : "lost";
}

const commands = {
  lock: (resource, ttl) => acquire(once, resource, ttl),
  wait: (resource, ttl) => acquire(patient, resource, ttl),
  extend,
  unlock,
};

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(" ");
  const answer = await commands[command](...words).catch((error) => `error ${error}`);
  console.log(answer);
}
process.exit();
