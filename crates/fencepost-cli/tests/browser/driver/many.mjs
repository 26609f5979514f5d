// Ten thousand locks: few rows in the document, wherever one looks.

import { Service, assert, end, equal, live, look, picture, rows, until } from './lib.mjs';

const [LOCKS, BATCH] = [10000, 250];
const service = await Service.start();
const name = (number) => `many/${String(number).padStart(5, '0')}`;
for (let from = 0; from < LOCKS; from += BATCH) {
  const names = Array.from({ length: BATCH }, (_, at) => name(from + at));
  await service.post('batches/try', { names, ttl_ms: 3600000, label: `worker-${from / BATCH}` });
}
const page = await look(service);
await live(page);
await until('all are counted', async () => (await page.locator('.summary').innerText()) === '10\u202f000 locks held · 0 waiting');
const inDocument = () => page.locator('[role=row]').count();
const scroll = (to) => page.locator('.body').evaluate((body, part) => { body.scrollTop = part * body.scrollHeight; }, to);
let most = await inDocument();
for (const part of [0.1, 0.5, 0.9, 0.3, 1]) {
  await scroll(part);
  const first = Math.floor(part * LOCKS);
  await until(`rows near ${first}`, async () => (await rows(page)).some((shown) => Math.abs(Number(shown.name.slice(5)) - first) < 60));
  most = Math.max(most, await inDocument());
}
assert(most <= 200, `${most} rows in the document`);
await until('the last one', async () => (await rows(page)).at(-1).name === name(LOCKS - 1));
equal(await page.locator('.grid').getAttribute('aria-rowcount'), String(LOCKS + 1), 'a screen reader hears how many there are');
await page.keyboard.press('g');
await until('the rows have focus', () => page.evaluate(() => document.activeElement.dataset.name !== undefined));
await page.keyboard.press('End');
await until('the keyboard gets there', () => page.evaluate((last) => document.activeElement.dataset.name === last, name(LOCKS - 1)));
await page.keyboard.press('Home');
await until('and back', () => page.evaluate((first) => document.activeElement.dataset.name === first, name(0)));
await picture(page, 'many');
await page.getByRole('button', { name: 'Holder' }).click();
await until('another order', async () => (await rows(page))[0].holder === 'worker-0' && (await rows(page)).length > 20);

/** How long the longest frame is while somebody scrolls through all of it. */
const scrolled = () => page.evaluate(() => new Promise((resolve) => {
  const body = document.querySelector('.body');
  const [frames, start] = [[], performance.now()];
  let last = start;
  const step = (at) => {
    frames.push(at - last);
    last = at;
    body.scrollTop = ((at - start) / 4000) * body.scrollHeight;
    if (at - start < 4000) requestAnimationFrame(step);
    else resolve({ longest: Math.max(...frames.slice(1)), frames: frames.length });
  };
  requestAnimationFrame(step);
}));
// A machine that does other things delays a frame now and then; a page that is slow does so each time.
let smooth = false;
for (let times = 0; times < 5 && !smooth; times += 1) {
  const { longest, frames } = await scrolled();
  console.log(`frames while scrolling: ${frames} in 4 s, the longest ${longest.toFixed(1)} ms, at most ${most} rows`);
  smooth = longest <= 100;
}
assert(smooth, 'no frame is longer than 100 ms');
await end(page);
