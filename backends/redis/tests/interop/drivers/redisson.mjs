// npm `node-redisson`, a port of Redisson's RLock, driven by a line protocol: see client.rs.
// Arguments: the folder with node_modules, the server's port.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, port] = process.argv.slice(2);
const { Redisson } = createRequire(`${modules}/`)("node-redisson");

const redisson = new Redisson({
  redis: { options: { host: "127.0.0.1", port: Number(port) } },
  lockWatchdogTimeout: 900n,
});

// It attaches its listener only when the server has confirmed the subscription. A message in between is lost, and who waits
// then waits for the whole lease of the holder. Here the listener is there first.
const { commandExecutor } = redisson;
commandExecutor.subscribeOnce = async (channel, listener) => {
  commandExecutor.eventEmitter.once(channel, listener);
  await commandExecutor.subscribeRedis.subscribe(channel);
};

// As in Java: the number of a thread.
const THREAD = "33";
let held;

async function acquire(name, wait, lease) {
  const lock = held?.name === name ? held : redisson.getLock(name, THREAD);
  const got = await lock.tryLock(wait, lease);
  if (got) held = lock;
  return got ? "held" : "busy";
}

// Only the watchdog prolongs there; this is its own command.
async function extend(ttl) {
  const kept = await redisson.redis.rRenewExpiration(held.name, ttl, held.getClientName(THREAD));
  return kept ? "kept" : "lost";
}

const refused = (error) => {
  if (error.message.includes("not locked by current client")) return "lost";
  throw error;
};

const commands = {
  lock: (name, ttl) => acquire(name, 0n, BigInt(ttl)),
  // Without an end of its own: its watchdog keeps it.
  keep: (name) => acquire(name, 0n, true),
  wait: (name, ttl) => acquire(name, false, BigInt(ttl)),
  extend,
  unlock: () => held.unlock().then(() => "done", refused),
  force: (name) => redisson.getLock(name, THREAD).forceUnlock().then((done) => (done ? "done" : "lost")),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(" ");
  const answer = await commands[command](...words).catch((error) => `error ${error}`);
  console.log(answer);
}
process.exit();
