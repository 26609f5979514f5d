// The TypeScript client in a page of the service's own origin.

import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

import { FOLDER, Service, end, equal, look, until } from './lib.mjs';

const { FENCEPOST_CLIENT: CLIENT, FENCEPOST_COMPILER: COMPILER } = process.env;
const built = path.join(FOLDER, 'client');
execFileSync(process.execPath, [path.join(COMPILER, 'typescript/bin/tsc'), '--project', CLIENT, '--outDir', built, '--typeRoots', path.join(COMPILER, '@types')], { stdio: 'inherit' });

const service = await Service.start();
// A renewal that comes too late is the browser's own message.
const page = await look(service, {}, /status of 409/);
await page.route(`${service.url}/client/**`, (route) => {
  const file = path.basename(new URL(route.request().url()).pathname);
  if (file === 'page') return route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>A page</title>' });
  return route.fulfill({ contentType: 'text/javascript', body: fs.readFileSync(path.join(built, file), 'utf8') });
});
await page.goto(`${service.url}/client/page`);
await page.evaluate(async () => {
  globalThis.fencepost = await import('/client/index.js');
  globalThis.client = new globalThis.fencepost.Client(location.origin);
  globalThis.lock = await globalThis.client.lock('browser/1', { ttlMs: 6000, label: 'a page' });
});
const holders = async () => (await service.ask('GET', 'locks/browser%2F1')).holders;
equal((await holders()).map(({ label }) => label), ['a page'], 'it is held');

// It is renewed by itself, and when asked.
let last = Infinity;
await until('it is renewed', async () => {
  const left = await page.evaluate(() => globalThis.lock.remaining());
  const grew = left > last;
  last = left;
  return grew;
});
equal(await page.evaluate(async () => (await globalThis.lock.renew()) > 0), true, 'it is renewed when asked');

// Another in line has it when it is released.
await page.evaluate(() => { globalThis.next = globalThis.client.lock('browser/1', { ttlMs: 6000, waitMs: 60000, label: 'next' }); });
await until('it waits', async () => (await service.ask('GET', 'locks/browser%2F1')).waiters.length === 1);
await page.evaluate(() => globalThis.lock.release());
equal(await page.evaluate(async () => (await globalThis.next).token > globalThis.lock.token), true, 'the next has it');

// Taken away, its signal stops the work.
const lost = page.evaluate(async () => {
  const lock = await globalThis.next;
  globalThis.working = true;
  try {
    await new Promise((_, reject) => { lock.signal.addEventListener('abort', () => reject(lock.signal.reason)); });
    return 'nothing';
  } catch (error) {
    return [error instanceof globalThis.fencepost.LockLostError, globalThis.fencepost.lossOf(error).reason, lock.isHeld];
  }
});
await until('it works', () => page.evaluate(() => globalThis.working === true));
await service.post('locks/browser%2F1/force-release', { reason: 'a test' });
equal(await lost, [true, 'revoked', false], 'the signal says why');
equal(await holders(), [], 'it is free');
await end(page);
