// Legible in light and dark, on a phone, by keyboard and for screen readers. The pictures are for people to look at.

import { Service, accessible, assert, end, equal, live, look, picture, rows, until } from './lib.mjs';

const service = await Service.start();
const WHO = ['billing-api-7f9c', 'worker-03', 'cron@eu-west', 'deploy-bot', 'importer-2'];
const PLACES = ['orders/', 'billing/invoice-', 'jobs/nightly-', 'deploy/service-'];
const leases = [];
for (let number = 0; number < 48; number += 1) {
  const ttl_ms = [600000, 120000, 90000, 300000][number % 4];
  leases[number] = await service.take(`${PLACES[number % 4]}${1000 + number * 37}`, { ttl_ms, label: WHO[number % 5] });
}
await service.waitFor('billing/invoice-1185', { label: 'billing-api-2c41' });
await service.waitFor('billing/invoice-1185', { label: 'refund-job' });
for (const label of ['report-1', 'report-2', 'report-3']) await service.take('catalog/prices', { label, mode: 'shared' });
await service.post('elections/scheduler/campaign', { ttl_ms: 60000, label: 'scheduler-a', payload: 'http://10.0.3.17:8080' });
await service.post('elections/indexer/campaign', { ttl_ms: 600000, label: 'indexer-2', payload: 'shards 0 to 63' });
await service.post('semaphores/api-slots/try', { permits: 4, take: 3, ttl_ms: 60000, label: 'gateway' });
const IMPORT = 'catalog/import';
for (let number = 0; number < 16; number += 1) {
  const lease = await service.take(IMPORT, { label: WHO[number % 5], ttl_ms: number === 6 ? 700 : 20000, wait_ms: 5000 });
  // How long they work: what the drawings are of.
  await new Promise((resolve) => { setTimeout(resolve, [20, 140, 60, 320, 25, 90][number % 6]); });
  if (number === 11) await service.post('locks/catalog%2Fimport/force-release', { reason: 'stuck since the deploy' });
  else if (number !== 6) await service.release(lease);
}
await service.take(IMPORT, { label: 'importer-2', ttl_ms: 90000 });
for (const label of ['importer-3', 'importer-4', 'importer-5']) await service.waitFor(IMPORT, { label });
const actors = ['00000000000000aa', '00000000000000bb', '00000000000000cc'];
for (const [at, actor] of actors.entries()) await service.take(`stock/warehouse-${at + 1}`, { label: `transfer-${at + 1}`, actor });
for (const [at, actor] of actors.entries()) await service.waitFor(`stock/warehouse-${((at + 1) % 3) + 1}`, { label: `transfer-${at + 1}`, actor });

/** Some are late with their renewal, and some nearly gone. */
async function late(page) {
  for (const [number, short] of [[1, 45000], [9, 15000], [13, 44000]]) {
    // The page takes the most that it has seen for the whole.
    for (const ttl_ms of [120000, short]) await service.post(`locks/${encodeURIComponent(leases[number].name)}/renew`, { ...leases[number], ttl_ms });
  }
  const filled = (state) => page.locator(`.body .row:not([hidden]) .left[data-state=${state}] b`).evaluateAll((bars) => bars.map((bar) => bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width));
  for (const [state, most] of [['late', 0.5], ['gone', 0.2]]) await until(`a bar that is ${state}`, async () => (await filled(state)).some((part) => part < most));
}

/** Every view, as a person sees it and as axe does. */
async function tour(page, name) {
  await live(page);
  await until('the table', async () => (await rows(page)).length > 10);
  await until('the deadlock', () => page.locator('[data-alert=deadlock]').isVisible());
  await late(page);
  await accessible(page, `${name}: locks`);
  await picture(page, `busy-${name}`);
  const views = [['lock', '#/lock/catalog%2Fimport', '.timeline'], ['elections', '#/elections', '.cards .card'], ['nodes', '#/nodes', 'tbody tr'], ['deadlocks', '#/deadlocks', '.circle']];
  for (const [view, hash, sign] of views) {
    await page.goto(service.url + '/' + hash);
    await until(view, () => page.locator(sign).first().isVisible());
    await accessible(page, `${name}: ${view}`);
    await picture(page, `${view}-${name}`);
  }
}
const light = await look(service, { colorScheme: 'light' });
await tour(light, 'light');
const dark = await look(service, { colorScheme: 'dark' });
await tour(dark, 'dark');
const phone = await look(service, { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
await tour(phone, 'phone');
equal(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, 'nothing is cut off on a phone');

// The theme is chosen by hand too, and kept.
const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
const [day, night] = [await ground(light), await ground(dark)];
assert(day !== night, 'dark is dark');
await light.keyboard.press('t');
equal(await ground(light), day, 'light by hand');
await light.keyboard.press('t');
equal(await ground(light), night, 'dark by hand');
await light.reload();
equal(await until('it is there', async () => [await ground(light)]), [night], 'and kept');

// Everything is reached by Tab alone, and what has focus is seen.
await light.goto(`${service.url}/#/`);
await live(light);
await until('the table', async () => (await rows(light)).length > 10);
const reached = new Set();
for (let presses = 0; presses < 40; presses += 1) {
  await light.keyboard.press('Tab');
  const [what, seen] = await light.evaluate(() => {
    const at = document.activeElement;
    const { outlineStyle, outlineWidth } = getComputedStyle(at);
    return [at.closest('.row[data-name]') ? 'row' : at.getAttribute('aria-label') ?? at.textContent.trim(), outlineStyle !== 'none' && outlineWidth !== '0px'];
  });
  if (what === 'row' || (await light.evaluate(() => document.activeElement !== document.body))) assert(seen, `focus on ${what} is seen`);
  reached.add(what.replace(/[\d\u202f,].*$/, '').replace(/[▴▾]$/, ''));
}
for (const wanted of ['Locks', 'Elections', 'Nodes', 'Deadlocks', 'Theme: dark', 'Keys and what is shown here', 'Show names that start with', 'In use', 'Contended', 'Free', 'All', 'Name', 'Time left', 'In line', 'row']) {
  assert(reached.has(wanted), `${wanted} is reached by Tab: ${[...reached].join(' | ')}`);
}
await light.keyboard.press('?');
await until('the keys', () => light.locator('dialog[open]').isVisible());
await accessible(light, 'the keys');
await picture(light, 'help-dark');
// Who speaks to their computer can switch single letters off, for good.
await light.locator('#single-keys').uncheck();
await light.keyboard.press('Escape');
await light.reload();
await live(light);
await light.keyboard.press('3');
await light.keyboard.press('t');
equal([await light.evaluate(() => location.hash), await ground(light)], ['#/', night], 'nothing happens');
await light.locator('#help').click();
await light.locator('#single-keys').check();
await light.keyboard.press('Escape');
await until('the table', async () => (await rows(light)).length > 10);
await light.keyboard.press('g');
await until('the rows have focus', () => light.evaluate(() => document.activeElement.getAttribute('aria-rowindex') === '2'));
await light.keyboard.press('ArrowDown');
await light.keyboard.press('Enter');
await until('a lock by keyboard', () => light.locator('.lock-page').isVisible());
await light.keyboard.press('Escape');
await until('the focus is on its row again', () => light.evaluate(() => document.activeElement.getAttribute('aria-rowindex') === '3'));
await end(light, dark, phone);
