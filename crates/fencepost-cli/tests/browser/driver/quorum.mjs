// Five nodes that vote: one away is a note, three away is what the page says first.

import { STORE, Service, accessible, ask, assert, command, end, equal, live, look, picture, rows, until } from './lib.mjs';

const service = await Service.start();
// Without a majority the service answers 503, and the browser says so. New nodes may have lost their memory, until somebody says that they are new.
const page = await look(service, {}, /status of 50\d/);
await live(page);
await page.keyboard.press('3');
await until('nobody has a lock yet, and it is said why', async () => {
  const said = await service.take('orders/1', { ttl_ms: 60000 }).then(() => 'granted', (error) => error.message);
  equal(said === 'granted', false, 'a node that may have forgotten votes');
  return said.includes('quarantined');
});
await until('that is seen', async () => (await page.locator('.pill[data-state=late]').allInnerTexts()).filter((text) => text.startsWith('quarantined for')).length >= 3);
await until('and told', async () => /^No quorum: \d of 5 nodes vote, 3 must\..* Not voting: /.test(await page.locator('[data-alert=quorum]').innerText()));
assert(!(await page.locator('[data-alert=quorum]').innerText()).includes('Away'), 'a node that answers is not away');
equal([...new Set(await page.locator('.nodes td:nth-child(3)').allInnerTexts())].filter((vote) => /quarantined./.test(vote)), [], 'how long is said once');
await picture(page, 'quorum-quarantined');
await command('init', '--store', STORE);
for (let number = 1; number <= 12; number += 1) await service.take(`orders/${number}`, { label: `checkout-${number}`, ttl_ms: 60000 });
await page.keyboard.press('1');
await until('the locks', async () => (await rows(page)).length === 12);
await page.keyboard.press('3');
await until('five vote', async () => {
  // Three are enough for a lock, so a node may be heard only now and then.
  await service.release(await service.take('voting', { ttl_ms: 60000 }));
  return (await page.locator('.pill[data-state=well]').count()) === 5;
});
await picture(page, 'quorum-well');
await ask('stop 0');
await until('one is away', async () => (await page.locator('.pill:not([data-state=well])').count()) === 1);
await until('locks go on', async () => (await page.locator('[data-alert=quorum]').innerText()).includes('1 of 5 nodes does not vote, locks go on'));
await ask('stop 1');
await ask('stop 2');
await until('no quorum', async () => (await page.locator('[data-alert=quorum]').innerText()).includes('No quorum: 2 of 5 nodes vote, 3 must'));
await accessible(page, 'nodes without a quorum');
await picture(page, 'quorum-broken-nodes');
await page.keyboard.press('1');
await until('what is shown is old, and says so', async () => /^No quorum: .* What is shown is .* old\./.test(await page.locator('[data-alert=quorum]').innerText()));
equal(await page.locator('.alert').count(), 1, 'one cause is told once');
assert((await rows(page)).length === 12, 'what was known is still shown');
equal(await page.locator('#link').innerText(), 'Store away', 'it is not called live');
await accessible(page, 'locks without a quorum');
await picture(page, 'quorum-broken');
await end(page);
