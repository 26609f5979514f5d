// What all stories share: a service, clients, a browser, and what must never happen in it.

import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import readline from 'node:readline';

const { FENCEPOST_PROGRAM: PROGRAM, FENCEPOST_BROWSER: BROWSER, FENCEPOST_SETUP: SETUP, FENCEPOST_PICTURES: PICTURES } = process.env;
export const { FENCEPOST_STORE: STORE, FENCEPOST_FOLDER: FOLDER } = process.env;

const require = createRequire(path.join(SETUP, 'x.js'));
const { chromium } = require('playwright-core');
const AXE = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

/** What the page may do: nothing but what it was made for. */
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
  + "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** How long a story waits for what must come. */
const PATIENCE_MS = 30000;

const children = new Set();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));
process.on('unhandledRejection', (error) => {
  console.log(error.stack);
  process.exit(1);
});

export function assert(is, what) {
  if (!is) throw new Error(`not so: ${what}`);
}

export function equal(found, wanted, what) {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`${what}: ${one} is not ${other}`);
}

/** Waits until it is so. What it says last is told if it never is. */
export async function until(what, is) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    let found;
    try {
      found = await is();
    } catch (error) {
      found = error.message;
      if (Date.now() > end) throw error;
    }
    if (found === true || (found && typeof found === 'object')) return found;
    if (Date.now() > end) throw new Error(`it never came: ${what} (${JSON.stringify(found)})`);
    await new Promise((resolve) => { setTimeout(resolve, 40); });
  }
}

/** Asks whoever started the story for something. */
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
export async function ask(question) {
  console.log(`ask ${question}`);
  equal((await answers.next()).value, 'done', question);
}

function start(args, environment = {}) {
  const child = spawn(PROGRAM, args, { cwd: FOLDER, env: { ...process.env, ...environment }, stdio: ['pipe', 'pipe', 'pipe'] });
  children.add(child);
  child.stderr.on('data', (text) => { child.said = (child.said ?? '') + text; });
  child.ended = new Promise((resolve) => { child.on('exit', (code) => { children.delete(child); resolve(code); }); });
  return child;
}

const firstLine = (child) => new Promise((resolve, reject) => {
  readline.createInterface({ input: child.stdout }).once('line', resolve);
  child.ended.then(() => reject(new Error(`it ended: ${child.said}`)));
});

/** A holder past the service: the command on the store itself, until it is let go. */
export async function holdDirectly(name, label) {
  const child = start(['run', '--store', STORE, '--label', label, name, '--', 'sh', '-c', 'echo held; read -r line; exit 0']);
  equal(await firstLine(child), 'held', 'the command holds the lock');
  return { release: async () => { child.stdin.end(); await child.ended; } };
}

/** Runs the command to its end. */
export async function command(...args) {
  equal(await start(args).ended, 0, args.join(' '));
}

export class Service {
  static async start(...args) {
    const service = new Service();
    service.args = args;
    await service.#run('127.0.0.1:0');
    return service;
  }

  async #run(listen) {
    this.child = start(['serve', '--store', STORE, '--listen', listen, ...this.args]);
    this.url = await firstLine(this.child);
  }

  async stop() {
    this.child.kill('SIGKILL');
    await this.child.ended;
  }

  /** At the same place as before. */
  again() {
    return this.#run(new URL(this.url).host);
  }

  async ask(method, route, body, key) {
    const answer = await fetch(`${this.url}/v1/${route}`, {
      method, body: body && JSON.stringify(body),
      headers: { ...(body && { 'content-type': 'application/json' }), ...(key && { authorization: `Bearer ${key}` }) },
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(`${route}: ${JSON.stringify(said)}`);
    return said;
  }

  post(route, body, key) {
    return this.ask('POST', route, body, key);
  }

  /** For longer than any story takes, unless told otherwise: nobody renews. */
  take(name, claim, key) {
    return this.post(`locks/${encodeURIComponent(name)}/acquire`, { ttl_ms: 600000, ...claim }, key);
  }

  release(lease, key) {
    return this.post(`locks/${encodeURIComponent(lease.name)}/release`, lease, key);
  }

  /** Joins the line, and is in it when this resolves; what comes of it is not waited for. */
  async waitFor(name, claim) {
    this.take(name, { wait_ms: 120000, ...claim }).catch(() => undefined);
    await until(`${claim.label} is in line`, async () => {
      const { waiters } = await this.ask('GET', `locks/${encodeURIComponent(name)}`);
      return waiters.some((waiter) => waiter.label === claim.label);
    });
  }
}

let browser;

/** A window, and a watch on what must not happen: errors, violations of the policy, requests to others. */
export async function look(service, options = {}, expected = /^$/) {
  browser ??= await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox', '--disable-dev-shm-usage', '--force-color-profile=srgb'] });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: 'no-preference', ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on('console', (message) => {
    const text = `${message.text()} ${message.location().url}`;
    if (['error', 'warning'].includes(message.type()) && !expected.test(text)) wrong.push(`console: ${text}`);
  });
  page.on('pageerror', (error) => wrong.push(`error: ${error.stack}`));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(service.url).origin) wrong.push(`another host: ${request.url()}`);
  });
  await page.exposeFunction('violated', (what) => wrong.push(`policy: ${what}`));
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => globalThis.violated(`${event.violatedDirective} ${event.blockedURI}`));
  });
  const answer = await page.goto(`${service.url}/`);
  equal(answer.headers()['content-security-policy'], POLICY, 'the policy');
  page.well = () => equal(wrong, [], 'nothing went wrong in the browser');
  return page;
}

export const live = (page) => until('it is live', async () => (await page.locator('#link').innerText()) === 'Live');

/** The texts of the rows in sight, by column. */
export const rows = (page) => page.evaluate(() => [...document.querySelectorAll('.body .row:not([hidden])')]
  .sort((one, other) => one.getAttribute('aria-rowindex') - other.getAttribute('aria-rowindex'))
  .map((row) => Object.fromEntries([...row.children].map((cell) => [cell.className.split(' ')[0], cell.textContent]))));

export const row = (page, name) => page.locator(`.body .row:not([hidden])[data-name=${JSON.stringify(name)}]`);

/** What axe finds that matters. */
export async function accessible(page, where) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter(({ impact }) => ['serious', 'critical'].includes(impact));
  equal(serious.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html)]), [], `axe on ${where}`);
}

export const picture = (page, name) => page.screenshot({ path: path.join(PICTURES, `${name}.png`) });

export async function end(...pages) {
  pages.forEach((page) => page.well());
  await browser?.close();
  process.exit(0);
}
