// Keys: what they show, and who may take a lock from its holder. All of it by keyboard.

import { createHash, randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';

import { FOLDER, Service, accessible, assert, end, equal, live, look, picture, rows, until } from './lib.mjs';

const entries = [];
function key(principal, ...allow) {
  const text = `fpk_${randomBytes(32).toString('hex')}`;
  entries.push(`[[key]]\nprincipal = "${principal}"\nsha256 = "${createHash('sha256').update(text).digest('hex')}"\nallow = ${JSON.stringify(allow)}\n`);
  return text;
}
const worker = key('worker', 'acquire:*', 'observe:*');
const viewer = key('viewer', 'observe:orders/', 'observe:stock/', 'acquire:orders/');
const admin = key('admin', 'observe:*', 'admin:*', 'acquire:*');
const blind = key('blind', 'acquire:orders/');
const auth = path.join(FOLDER, 'auth.toml');
fs.writeFileSync(auth, entries.join('\n'));
const service = await Service.start('--auth-file', auth);
const lease = await service.take('orders/1', { label: 'holder' }, worker);
await service.take('stock/1', { label: 'counter' }, worker);
await service.take('payroll/secret', { label: 'hidden' }, worker);

// A refused key is the browser's own message.
// So is one that comes too late to take a lock from whom it was meant.
const page = await look(service, {}, /status of (401|409)/);
const enter = async (text) => {
  await until('it asks for a key', () => page.evaluate(() => document.activeElement?.id === 'key'));
  await page.keyboard.type(text);
  await page.keyboard.press('Enter');
};
await picture(page, 'key');
await accessible(page, 'the question for a key');
await enter('wrong');
await until('it is refused', () => page.getByText('This key is not known here.').isVisible());
await page.locator('#key').fill('');
await enter(blind);
await until('it sees nothing', () => page.getByText('may not observe anything').isVisible());
await page.locator('#key').fill('');
await enter(`${viewer.slice(0, 20)}\u200b${viewer.slice(20)}`);
await until('it is no key', () => page.getByText('This is no key').isVisible());
equal(await page.evaluate(() => Object.keys(sessionStorage)), [], 'and not kept');
await page.locator('#key').fill('');
// Whoever is impatient comes in once.
let [asked, open] = [0, undefined];
const opened = new Promise((resolve) => { open = resolve; });
await page.route('**/v1/whoami', async (route) => { asked += 1; await opened; await route.continue(); });
await enter(viewer);
await until('it is being looked at', () => page.getByRole('button', { name: 'Show locks' }).isDisabled());
await page.keyboard.press('Enter');
open();
await live(page);
equal(asked, 1, 'asked once');
await page.unroute('**/v1/whoami');
await until('what it may see', async () => JSON.stringify((await rows(page)).map(({ name }) => name)) === '["orders/1","stock/1"]');
await service.take('stock/2', { label: 'late' }, worker);
await until('also what comes', async () => (await rows(page)).length === 3);
assert(!(await page.content()).includes('payroll'), 'what it may not see is nowhere');
equal(await page.evaluate((text) => [Object.values(localStorage).join().includes(text), document.cookie, Object.values(sessionStorage).includes(text)], viewer),
  [false, '', true], 'the key is kept for this window only');
await page.keyboard.press('g');
await until('the rows have focus', () => page.evaluate(() => document.activeElement.dataset.name === 'orders/1'));
await page.keyboard.press('Enter');
await until('the lock', async () => (await page.locator('h1').innerText()) === 'orders/1');
equal(await page.locator('.actions button').count(), 0, 'who is no admin has no buttons');
await page.keyboard.press('f');
equal(await page.locator('dialog').count(), 0, 'nor keys for them');

// Another key, in the same window.
await page.locator('#who').focus();
await page.keyboard.press('Enter');
await enter(admin);
await live(page);
await until('the lock again', async () => (await page.locator('h1').innerText()) === 'orders/1');
await until('it is held', () => page.locator('#force').isEnabled());
await page.keyboard.press('a');
await until('it asks first', () => page.locator('dialog[open]').isVisible());
await page.keyboard.type('please');
await page.keyboard.press('Enter');
await until('asked', () => page.getByText('holder was asked').first().isVisible());
const renewed = await service.post('locks/orders%2F1/renew', lease, worker);
equal([renewed.yield_requested.by, renewed.yield_requested.note], ['admin', 'please'], 'the holder hears it');
await page.keyboard.press('f');
await until('it asks first', () => page.locator('dialog[open]').isVisible());
await accessible(page, 'the confirmation');
await picture(page, 'force');
await page.keyboard.press('Escape');
await until('it is closed', async () => (await page.locator('dialog').count()) === 0);
equal((await service.ask('GET', 'locks/orders%2F1', undefined, worker)).holders.length, 1, 'nothing happened without a yes');
// It goes to another while somebody decides: that one was not meant.
await page.keyboard.press('f');
await until('it asks first', () => page.getByText('Take “orders/1” from holder?').isVisible());
await service.release(lease, worker);
await service.take('orders/1', { label: 'next' }, worker);
await page.keyboard.press('Enter');
await until('it asks again', () => page.getByText('Take “orders/1” from next?').isVisible());
equal((await service.ask('GET', 'locks/orders%2F1', undefined, worker)).holders.map(({ label }) => label), ['next'], 'nothing was done');
await page.keyboard.press('Escape');
await until('it is closed', async () => (await page.locator('dialog').count()) === 0);
await page.locator('#force').focus();
await page.keyboard.press('Enter');
await page.keyboard.type('it hangs');
await page.keyboard.press('Tab');
await page.keyboard.press('Tab');
await page.keyboard.press('Enter');
await until('it is free', async () => (await service.ask('GET', 'locks/orders%2F1', undefined, worker)).holders.length === 0);
await until('the past says who and why', async () => (await page.locator('tbody tr').first().innerText()).includes('taken by force by admin: it hangs'));
await until('focus is back', () => page.evaluate(() => document.activeElement !== document.body || document.querySelector('#force').disabled));

// A key that is taken out of the file is asked for again.
fs.writeFileSync(`${auth}.new`, entries.filter((entry) => !entry.includes('"admin"')).join('\n'));
fs.renameSync(`${auth}.new`, auth);
await until('it is asked for again', () => page.getByText('This key is not known any more.').isVisible());
equal(await page.evaluate(() => Object.keys(sessionStorage)), [], 'the key is forgotten');
await end(page);
