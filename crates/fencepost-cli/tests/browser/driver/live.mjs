// The table follows what happens, through this service and past it; a lock's page has its line and its past.

import { Service, end, equal, holdDirectly, live, look, picture, row, rows, until } from './lib.mjs';

const service = await Service.start();
// While the service is away, the browser itself says so.
const page = await look(service, {}, /net::ERR_/);
await live(page);
await until('it says that nothing is held', () => page.getByText('Nothing is held.').isVisible());
await picture(page, 'empty');

// A lock shows when it is taken, with its holder and token.
const lease = await service.take('orders/42', { label: 'checkout-1' });
await until('the lock is there', async () => (await rows(page)).some(({ name, holder, token }) =>
  name === 'orders/42' && holder === 'checkout-1' && token === lease.token));

// Focus stays with its lock, whatever comes above it.
const focused = () => page.evaluate(() => document.activeElement.dataset.name);
await page.keyboard.press('g');
await until('the row has focus', async () => (await focused()) === 'orders/42');
const above = await service.take('above/it', {});
await until('one comes above', async () => (await rows(page))[0].name === 'above/it');
equal(await focused(), 'orders/42', 'focus is where it was');
await page.keyboard.press('Enter');
await until('its page opens', async () => (await page.locator('h1').innerText()) === 'orders/42');
await page.keyboard.press('Escape');
await service.release(above);
await until('it goes again', async () => (await rows(page)).length === 1);
equal(await focused(), 'orders/42', 'focus is still there');

// Of several readers the bar is that of the first to end.
const readers = [];
for (const ttl_ms of [600000, 45000, 600000]) readers.push(await service.take('read/1', { mode: 'shared', ttl_ms }));
await until('all read', async () => (await rows(page)).some(({ name, holder, rest }) => name === 'read/1' && holder.startsWith('3: ') && /^\d+\u00a0s$/.test(rest)));
for (const reader of readers) await service.release(reader);

// Its bar shrinks, and grows when it is renewed.
const short = await service.take('short/1', { ttl_ms: 30000 });
await until('it is there', async () => (await rows(page)).some(({ name }) => name === 'short/1'));
const bar = () => row(page, 'short/1').locator('.left i').evaluate((fill) => fill.getBoundingClientRect().width / fill.parentElement.getBoundingClientRect().width);
const full = await bar();
await until('the bar shrinks', async () => (await bar()) < full - 0.15);
const low = await bar();
// A renewal whose news is late shows a bar that has shrunk since: on a busy machine one alone may never be seen above the mark.
await until('the bar grows again', async () => {
  await service.post('locks/short%2F1/renew', short);
  return (await bar()) > low + 0.03;
});
await service.release(short);

// Who waits is shown in order.
for (const label of ['second', 'third', 'fourth']) await service.waitFor('orders/42', { label });
await until('the line is in order', async () => (await rows(page))[0].waiters === '3second › third › fourth');

// A lock that is taken past this service shows too, with a name that is no markup.
const hostile = '<img src=x onerror="document.title=1">';
const direct = await holdDirectly(hostile, '<b>library</b>');
await until('the direct lock is there', async () => (await rows(page)).some(({ name, holder }) => name === hostile && holder === '<b>library</b>'));
equal(await page.locator('main img, main b:not([class]):not([aria-hidden])').count(), 0, 'names are text');
await row(page, hostile).click();
await until('its page', async () => (await page.locator('h1').innerText()) === hostile);
await until('its history', async () => (await page.locator('tbody tr').count()) === 1);
equal(await page.locator('main img').count(), 0, 'names are text there too');
equal(await page.title(), `${hostile} · Fencepost`, 'nothing ran');
await direct.release();
await until('it came free', async () => (await page.locator('.state').innerText()).endsWith('free'));

// Released, a lock goes to the next in line; the page of a lock has all that.
await page.keyboard.press('Escape');
await service.release(lease);
await until('the next has it', async () => (await rows(page)).some(({ name, holder }) => name === 'orders/42' && holder === 'second'));
const quick = await service.take('orders/42b', {});
await service.release(quick);
for (let number = 0; number < 5; number += 1) await service.release(await service.take('orders/7', { label: `client-${number}` }));
await service.take('orders/7', { label: 'lost', ttl_ms: 700 });
await service.take('orders/7', { label: 'now', wait_ms: 10000 });
await page.goto(`${service.url}/#/lock/orders%2F7`);
await until('the timeline is drawn', async () => (await page.locator('.timeline .hold rect').count()) === 7);
await until('a loss is marked', async () => (await page.locator('.timeline .hold .cross').count()) === 1);
const numbers = () => page.locator('.histogram .value').evaluateAll((values) => values.map((value) => Number(value.textContent)));
await until('the histogram has every hold that is over', async () => (await numbers()).reduce((sum, n) => sum + n, 0) === 6);
const drawn = () => page.locator('.histogram .bin').evaluateAll((bins) => bins.filter((bin) => bin.getBoundingClientRect().height > 1).length);
await until('a bar for each of its numbers', async () => (await drawn()) === (await numbers()).length);
await until('holds and losses', async () => (await page.locator('.facts dd').allInnerTexts()).slice(0, 2).join() === '7,1');
await until('the newest first', async () => (await page.locator('tbody tr').first().locator('td').first().innerText()) === 'now');
equal(await page.locator('.facts dt').allInnerTexts(), ['Holds', 'Losses', 'Median', 'Longest'], 'all of them are listed');
for (let number = 0; number < 102; number += 1) await service.release(await service.take('orders/often', {}));
await page.goto(`${service.url}/#/lock/orders%2Foften`);
await until('what is of the listed ones only says so', async () => (await page.locator('.facts dt').allInnerTexts()).join() === 'Holds,Losses,Median of the last 100,Longest of the last 100');
await page.goto(`${service.url}/#/lock/orders%2F42`);
await until('its line', async () => JSON.stringify(await page.locator('.line .who').allInnerTexts()) === '["third","fourth"]');

// Search is by prefix, and any order can be had.
await page.keyboard.press('/');
await until('search has focus', () => page.evaluate(() => document.activeElement.id === 'search'));
await page.keyboard.type('orders/7');
await until('only that', async () => JSON.stringify((await rows(page)).map(({ name }) => name)) === '["orders/7"]');
await page.goto(`${service.url}/#/lock/orders%2F42`);
await until('another lock is not hidden by a search', async () => (await page.locator('.holders .who').innerText()) === 'second');
await page.keyboard.press('Escape');
await page.locator('#search').fill('');
await until('all again', async () => (await rows(page)).length >= 2);
await page.getByRole('button', { name: 'Held for' }).click();
await until('longest first', async () => (await rows(page))[0].name === 'orders/42');
await page.getByRole('button', { name: 'Held for' }).click();
await until('shortest first', async () => (await rows(page))[0].name === 'orders/7');

// Elections and deadlocks have their places.
await service.post('elections/scheduler/campaign', { label: 'node-a', payload: 'http://10.0.0.7', ttl_ms: 60000 });
await page.keyboard.press('2');
await until('the leader', async () => (await page.locator('.cards .card').allInnerTexts()).some((text) => text.includes('node-a') && text.includes('http://10.0.0.7')));
const [one, other] = ['00000000000000aa', '00000000000000bb'];
await service.take('stock/a', { label: 'transfer-1', actor: one });
await service.take('stock/b', { label: 'transfer-2', actor: other });
await service.waitFor('stock/b', { label: 'transfer-1', actor: one });
await service.waitFor('stock/a', { label: 'transfer-2', actor: other });
await until('the deadlock is told', () => page.locator('[data-alert=deadlock]').isVisible());
await page.keyboard.press('4');
await until('it is drawn', async () => (await page.locator('.circle .arrow').count()) === 2 && (await page.locator('.circle .box').count()) === 2);

// What happens all at once is asked for in turn, also without the listing.
await page.keyboard.press('1');
const listing = '**/v1/locks?*';
await page.route(listing, (route) => route.abort());
await service.post('batches/try', { names: Array.from({ length: 60 }, (_, at) => `burst/${at}`), ttl_ms: 600000 });
await page.locator('#search').fill('burst/');
await until('all of them', async () => (await page.locator('.summary').innerText()).startsWith('60 locks held'));
await page.locator('#search').fill('');
await page.unroute(listing);

// A lock that the store has forgotten is forgotten here, too, whatever its letters are.
await service.release(await service.take('ключ/1', {}));
await page.locator('[data-filter=free]').click();
await until('it is free', async () => (await rows(page)).some(({ name }) => name === 'ключ/1'));
await page.route(listing, async (route) => {
  const answer = await route.fetch();
  const said = await answer.json();
  await route.fulfill({ response: answer, json: { ...said, locks: said.locks.filter(({ name }) => name !== 'ключ/1') } });
});
await until('it is gone', async () => !(await rows(page)).some(({ name }) => name === 'ключ/1'));
await page.unroute(listing);
await page.locator('[data-filter=used]').click();

// A page of the listing that fails is read again, though something else was answered meanwhile.
const broken = await look(service, {}, /net::ERR_/);
let failed = 0;
await broken.route(listing, (route) => { failed += 1; return route.abort(); });
await broken.reload();
await live(broken);
await until('it fails', () => failed > 0);
await service.take('answered/1', {});
await until('one is answered', async () => (await rows(broken)).some(({ name }) => name === 'answered/1'));
await broken.unroute(listing);
await until('all are read', async () => /locks held · \d+ waiting$/.test(await broken.locator('.summary').innerText()) && (await rows(broken)).length > 10);
broken.well();
await broken.close();

// A window that nobody looks at asks for nothing; what was too much to keep is read when somebody does.
const requests = [];
page.on('request', (request) => requests.push(request.url()));
const shown = (is) => page.evaluate((visible) => {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => !visible });
  document.dispatchEvent(new Event('visibilitychange'));
}, is);
await page.evaluate(() => {
  const parse = JSON.parse;
  JSON.parse = (text) => {
    const said = parse(text);
    globalThis.heard = said?.name ?? globalThis.heard;
    return said;
  };
});
await page.evaluate(() => { location.hash = '#/lock/orders%2F42'; });
const age = async () => page.locator('.holders dd').nth(1).innerText();
await until('its page', async () => (await age()) !== '');
await shown(false);
const many = Array.from({ length: 1200 }, (_, at) => `unseen/${at}`);
for (let from = 0; from < many.length; from += 200) await service.post('batches/try', { names: many.slice(from, from + 200), ttl_ms: 600000 });
await service.take('last', {});
await until('all of it is told', () => page.evaluate(() => globalThis.heard === 'last'));
requests.length = 0;
for (let times = 0; times < 4; times += 1) {
  const before = await age();
  await until('time goes on', async () => (await age()) !== before);
}
equal(requests, [], 'nothing is asked for');
await shown(true);
await page.evaluate(() => { location.hash = '#/'; });
await page.locator('#search').fill('unseen/');
await until('all are read', async () => (await page.locator('.summary').innerText()).replace('\u202f', '') === '1200 locks held · 0 waiting');
equal(requests.filter((url) => url.includes('/v1/locks/unseen')), [], 'not one by one');
await page.locator('#search').fill('');
await until('all again', async () => (await rows(page))[0].name !== 'unseen/0');

// The service goes, and comes back: so does the page.
await service.stop();
await until('it says so', async () => (await page.locator('#link').innerText()) === 'Reconnecting');
await service.again();
await live(page);
await service.take('after/restart', { label: 'new' });
await until('it goes on', async () => (await rows(page)).some(({ name }) => name === 'after/restart'));
await end(page);
