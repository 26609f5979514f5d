// The pages that `verify` and `bench` write, opened as files, as whoever gets one by mail opens it.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { FOLDER, STORE, accessible, assert, equal, picture } from './lib.mjs';

const { FENCEPOST_PROGRAM: PROGRAM, FENCEPOST_BROWSER: BROWSER, FENCEPOST_SETUP: SETUP } = process.env;
const { chromium } = createRequire(path.join(SETUP, 'x.js'))('playwright-core');

const CLIENTS = 5;

/** Runs the command to its end, and tells its exit code. */
const ended = (...args) => new Promise((resolve) => {
  const child = spawn(PROGRAM, args, { cwd: FOLDER, stdio: ['ignore', 'ignore', 'inherit'] });
  child.on('exit', resolve);
});

/** Longer each time: on a busy machine a bug may take its time to show. */
async function verified(wanted, file, ...flags) {
  for (const span of ['2s', '4s', '8s', '16s', '32s']) {
    const code = await ended('verify', '--store', STORE, '--clients', `${CLIENTS}`, '--for', span, '--ttl', '1s', '--html', file, ...flags);
    if (code === wanted) return;
    equal(code, 75, `verify ${flags.join(' ')}`);
  }
  throw new Error(`never seen: ${flags.join(' ')}`);
}

await verified(1, 'broken.html', '--plant', 'no-lock');
await verified(0, 'clean.html');
equal(await ended('bench', '--store', STORE, '--for', '2s', '--clients', '3', '--html', 'bench.html'), 0, 'bench');

const browser = await chromium.launch({ executablePath: BROWSER, args: ['--no-sandbox', '--disable-dev-shm-usage', '--force-color-profile=srgb'] });
const wrong = [];

async function opened(file, scheme) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: scheme });
  const page = await context.newPage();
  const url = pathToFileURL(path.join(FOLDER, file)).href;
  page.on('console', (message) => wrong.push(`${file}: ${message.text()}`));
  page.on('pageerror', (error) => wrong.push(`${file}: ${error.stack}`));
  page.on('request', (request) => { if (request.url() !== url) wrong.push(`${file} asks for ${request.url()}`); });
  await page.goto(url);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(width <= 1280, `${file} is ${width} wide`);
  return page;
}

/** So many marks of a class has each picture in which there are lanes. */
const marks = (page, mark) => page.evaluate((wanted) => [...document.querySelectorAll('svg')]
  .filter((svg) => svg.querySelector('.lane')).map((svg) => svg.querySelectorAll(wanted).length), mark);

for (const scheme of ['light', 'dark']) {
  const broken = await opened('broken.html', scheme);
  const lanes = await marks(broken, '.lane');
  assert(lanes.length > 1 && lanes.every((count) => count === CLIENTS), `a lane for each client: ${lanes}`);
  // Beside the one in the legend.
  const reds = await marks(broken, 'rect.bad');
  assert(reds.some((count) => count > 1), `what is broken is red: ${reds}`);
  const colour = await broken.locator('rect.bad').last().evaluate((mark) => getComputedStyle(mark).fill);
  const [red, green, blue] = colour.match(/\d+/g).map(Number);
  assert(red > 150 && red > green + 50 && red > blue + 50, `it is red indeed: ${colour}`);
  const tips = await broken.locator('rect.bad title').allTextContents();
  assert(tips.length > 0 && tips.every((tip) => /^C\d+: /.test(tip)), `each says why: ${tips[0]}`);
  assert(!tips.some((tip) => tip.includes('verify/')), `in words for people: ${tips[0]}`);
  await accessible(broken, 'a page of verify');
  await picture(broken, `report-broken-${scheme}`);
  await broken.locator('figure').first().evaluate((figure) => figure.scrollIntoView());
  await picture(broken, `report-broken-lanes-${scheme}`);

  const clean = await opened('clean.html', scheme);
  assert((await marks(clean, '.lane')).every((count) => count === CLIENTS), 'a lane for each client');
  equal(await clean.locator('rect.bad title').count(), 0, 'nothing is red that is well');
  await picture(clean, `report-clean-${scheme}`);

  const bench = await opened('bench.html', scheme);
  assert((await bench.locator('svg').count()) > 2, 'there are pictures');
  assert((await bench.locator('tbody tr').count()) > 2, 'there are figures');
  await accessible(bench, 'a page of bench');
  await picture(bench, `report-bench-${scheme}`);
}
equal(wrong, [], 'nothing went wrong in the browser');
await browser.close();
process.exit(0);
