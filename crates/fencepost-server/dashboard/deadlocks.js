// Who waits in a circle, as a drawing and in words.

import { calm, h, many, named, put, svg } from './dom.js';
import { lockHash } from './rows.js';
import { View } from './view.js';

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Locks on a circle; an arrow leads from each to the one that its holder waits for. */
function graph(circle) {
  const [width, height, across] = [520, Math.max(200, 90 + circle.length * 42), 150];
  const [middle, center] = [width / 2, height / 2];
  const [rx, ry] = [width / 2 - across / 2 - 8, height / 2 - 34];
  const places = circle.map((_, at) => {
    const angle = -Math.PI / 2 + (at * 2 * Math.PI) / circle.length;
    return circle.length === 2 ? { x: middle + (at ? rx : -rx), y: center } : { x: middle + rx * Math.cos(angle), y: center + ry * Math.sin(angle) };
  });
  const arrows = places.map((from, at) => {
    const to = places[(at + 1) % places.length];
    const [dx, dy] = [to.x - from.x, to.y - from.y];
    const long = Math.hypot(dx, dy) || 1;
    // From the edge of one box to the edge of the other.
    const edge = Math.min((across / 2 + 6) / Math.abs(dx / long || 1e-9), 32 / Math.abs(dy / long || 1e-9));
    const bend = circle.length === 2 ? 34 : 0;
    const [sx, sy, ex, ey] = [from.x + (dx / long) * edge, from.y + (dy / long) * edge, to.x - (dx / long) * edge, to.y - (dy / long) * edge];
    const [mx, my] = [(sx + ex) / 2 - (dy / long) * bend, (sy + ey) / 2 + (dx / long) * bend];
    const angle = (Math.atan2(ey - my, ex - mx) * 180) / Math.PI;
    return [svg('path', { class: 'arrow', d: `M${sx} ${sy}Q${mx} ${my} ${ex} ${ey}` }),
      svg('path', { class: 'tip', d: 'M0 0l-9 -4.5v9z', transform: `translate(${ex} ${ey}) rotate(${angle})` })];
  });
  const boxes = circle.map((lock, at) => svg('g', { transform: `translate(${places[at].x - across / 2} ${places[at].y - 24})` },
    svg('title', { text: `${lock.name}, held by ${named(lock.holders[0]?.label)}` }),
    svg('rect', { class: 'box', width: across, height: 48, rx: 6 }),
    svg('text', { class: 'box-name', x: across / 2, y: 20, 'text-anchor': 'middle', text: cut(lock.name, 20) }),
    svg('text', { class: 'box-holder', x: across / 2, y: 37, 'text-anchor': 'middle', text: cut(named(lock.holders[0]?.label), 22) })));
  return svg('svg', { class: 'circle', viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Circle of ${many(circle.length, 'lock')}; told in words beside it` }, arrows, boxes);
}

export class Deadlocks extends View {
  title = 'Deadlocks';
  #book;
  #list = h('div', { class: 'circles' });
  #drawn = '';
  #held = [];
  root = h('section', { class: 'view' }, h('h1', { tabindex: '-1', text: 'Deadlocks' }), this.#list);

  constructor(book) {
    super();
    this.#book = book;
    book.addEventListener('health', () => this.root.isConnected && this.update());
  }

  update() {
    const circles = this.#book.deadlocks;
    const key = JSON.stringify(circles.map((circle) => circle.map((lock) => [lock.name, lock.holders[0]?.token])));
    if (key === this.#drawn) return this.#times();
    [this.#drawn, this.#held] = [key, []];
    if (!circles.length) {
      this.#list.replaceChildren(h('div', { class: 'empty' }, h('p', { text: 'Nobody waits in a circle.' }),
        h('p', { class: 'dim', text: 'Circles show for claims that name their actor: the library does so with by(&actor), the service with "actor".' })));
      return;
    }
    this.#list.replaceChildren(...circles.map((circle) => h('article', { class: 'card' },
      h('h2', { text: `Circle of ${many(circle.length, 'lock')}` }),
      h('div', { class: 'columns' }, graph(circle), h('ol', { class: 'words' }, circle.map((lock, at) => {
        const next = circle[(at + 1) % circle.length];
        const holder = lock.holders[0];
        const held = h('span');
        this.#held.push(held);
        return h('li', {}, h('a', { href: lockHash(lock.name), text: lock.name }), ' is held by ', h('b', { text: named(holder?.label) }),
          held, ', who waits for ', h('a', { href: lockHash(next.name), text: next.name }));
      }))), h('p', { class: 'dim', text: 'It ends when one of them gives up: open a lock to ask its holder, or to take it.' }))));
    this.#times();
  }

  /** Only these go on. */
  #times() {
    this.#book.deadlocks.flat().forEach(({ holders: [holder] }, at) => put(this.#held[at], holder?.held_ms === undefined ? '' : ` for ${calm(holder.held_ms)}`));
  }
}
