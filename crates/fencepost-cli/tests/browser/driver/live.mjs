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
equal(await page.locator('.timeline .hold .cross').count(), 1, 'a loss is marked');
const counts = await page.locator('.histogram .value').evaluateAll((values) => values.map((value) => Number(value.textContent)));
equal(counts.reduce((sum, n) => sum + n, 0), 6, 'the histogram has every hold that is over');
const drawn = await page.locator('.histogram .bin').evaluateAll((bins) => bins.filter((bin) => bin.getBoundingClientRect().height > 1).length);
equal(drawn, counts.length, 'a bar for each of its numbers');
equal(await page.locator('.facts dd').allInnerTexts().then((facts) => facts.slice(0, 2)), ['7', '1'], 'holds and losses');
equal(await page.locator('tbody tr').first().locator('td').first().innerText(), 'now', 'the newest first');
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

// The service goes, and comes back: so does the page.
await page.keyboard.press('1');
await service.stop();
await until('it says so', async () => (await page.locator('#link').innerText()) === 'Reconnecting');
await service.again();
await live(page);
await service.take('after/restart', { label: 'new' });
await until('it goes on', async () => (await rows(page)).some(({ name }) => name === 'after/restart'));
await end(page);
