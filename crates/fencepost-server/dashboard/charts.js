// Drawings of a lock's past, by hand.

import { count, h, many, named, span, svg } from './dom.js';

export const ENDS = {
  released: 'released', lost: 'lost: renewed too late', expired: 'expired: not renewed', forced: 'taken by force',
  unseen: 'over, seen elsewhere', held: 'held now',
};
export const endOf = (hold) => hold.end?.how ?? 'held';
export const isLoss = (hold) => ['lost', 'expired', 'forced'].includes(endOf(hold));

const LANE = 22;
const LANES = 6;
const AXIS = 20;
const CHARACTER = 6.6;

/** A round step so that about so many fit. */
function step(length, wanted) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].map((s) => s * 1000);
  return steps.find((size) => length / size <= wanted) ?? Math.ceil(length / wanted / 86400000) * 86400000;
}

/** Puts each hold into the first lane that is free: readers overlap, writers do not. */
function lanes(holds) {
  const ends = [];
  return holds.map((hold) => {
    const [from, to] = [-hold.began_ago_ms, hold.held_ms - hold.began_ago_ms];
    let lane = ends.findIndex((end) => end <= from + 1);
    if (lane < 0) lane = ends.length < LANES ? ends.length : ends.indexOf(Math.min(...ends));
    ends[lane] = to;
    return { hold, from, to, lane };
  });
}

/** Who had the lock, from left to right; the right edge is now. */
export function timeline(holds, width) {
  const placed = lanes([...holds].reverse());
  const start = Math.min(-1000, ...placed.map(({ from }) => from));
  const rows = Math.max(1, ...placed.map(({ lane }) => lane + 1));
  const height = rows * LANE + AXIS;
  const x = (at) => ((at - start) / -start) * (width - 2) + 1;
  const losses = holds.filter(isLoss).length;
  const label = `Timeline: ${many(holds.length, 'hold')} in the last ${span(-start)}, ${many(losses, 'loss', 'losses')}. The table below has each of them.`;
  const every = step(-start, Math.max(2, width / 130));
  const ticks = [];
  for (let at = 0; at >= start; at -= every) {
    const place = x(at);
    ticks.push(svg('line', { class: 'tick', x1: place, x2: place, y1: 0, y2: height - AXIS }));
    if (place > 30) ticks.push(svg('text', { class: 'axis', x: Math.min(place, width - 2), y: height - 6, 'text-anchor': at === 0 ? 'end' : 'middle', text: at === 0 ? 'now' : `−${short(-at)}` }));
  }
  const bars = placed.map(({ hold, from, to, lane }) => {
    const [left, y] = [x(from), lane * LANE + 3];
    const wide = Math.max(3, x(to) - left - 1);
    const text = named(hold.label);
    const fits = Math.floor((wide - 10) / CHARACTER);
    return svg('g', { class: `hold ${endOf(hold)}` },
      svg('title', { text: `${text} · token ${hold.token} · ${span(hold.held_ms)} · ${ENDS[endOf(hold)]}` }),
      svg('rect', { x: left, y, width: wide, height: LANE - 6, rx: Math.min(3, wide / 2) }),
      fits >= 3 && svg('text', { x: left + 6, y: y + LANE - 11, text: text.length > fits ? `${text.slice(0, fits - 1)}…` : text }),
      isLoss(hold) && svg('path', { class: 'cross', d: `M${left + wide - 4} ${y + 4}l8 8m0 -8l-8 8` }));
  });
  return svg('svg', { class: 'timeline', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label }, ticks, bars);
}

/** What the colours of the timeline mean. */
export function legend(holds) {
  const present = new Set(holds.map(endOf));
  return h('ul', { class: 'legend' }, Object.entries(ENDS).filter(([end]) => present.has(end))
    .map(([end, text]) => h('li', { class: end, text })));
}

/** How many holds lasted how long. */
export function histogram(times, width) {
  const filled = times.map(({ count: n }, at) => (n ? at : -1)).filter((at) => at >= 0);
  const [first, last] = [Math.max(0, filled[0] - 1), Math.min(times.length - 1, filled.at(-1) + 1)];
  const shown = times.slice(first, last + 1);
  const most = Math.max(...shown.map(({ count: n }) => n));
  const [height, top] = [150, 16];
  const slot = width / shown.length;
  const base = height - AXIS;
  const title = (at) => {
    const [from, to] = [times[first + at - 1]?.up_to_ms ?? 0, times[first + at].up_to_ms];
    return to === null ? `longer than ${short(from)}` : `${short(from)} to ${short(to)}`;
  };
  const bars = shown.map(({ count: n, up_to_ms: to }, at) => {
    const tall = n ? Math.max(2, (n / most) * (base - top)) : 0;
    return svg('g', {},
      svg('title', { text: `${title(at)}: ${n}` }),
      svg('rect', { class: 'bin', x: at * slot + 1.5, y: base - tall, width: Math.max(1, slot - 3), height: tall, rx: 2 }),
      n > 0 && svg('text', { class: 'value', x: (at + 0.5) * slot, y: base - tall - 4, 'text-anchor': 'middle', text: count(n) }),
      svg('text', { class: 'axis', x: (at + 0.5) * slot, y: height - 6, 'text-anchor': 'middle', text: to === null ? 'more' : `≤ ${short(to)}` }));
  });
  const spoken = shown.map(({ count: n }, at) => n && `${title(at)}: ${n}`).filter(Boolean).join(', ');
  return svg('svg', { class: 'histogram', viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': `Hold times. ${spoken}` },
    svg('line', { class: 'tick', x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5 }), bars);
}

function short(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60000) return `${ms / 1000} s`;
  if (ms < 3600000) return `${ms / 60000} m`;
  return ms < 86400000 ? `${ms / 3600000} h` : `${ms / 86400000} d`;
}

/** The last answers of a node: one line, no axes. */
export function sparkline(samples, width = 120, height = 22) {
  const most = Math.max(4, ...samples.map(({ ms }) => ms));
  const x = (at) => width - (samples.length - 1 - at) * (width / 59) - 2;
  const points = samples.map(({ ms }, at) => `${x(at).toFixed(1)},${(height - 3 - (ms / most) * (height - 6)).toFixed(1)}`);
  return svg('svg', { class: 'spark', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true' },
    svg('line', { class: 'tick', x1: 0, x2: width, y1: height - 1.5, y2: height - 1.5 }),
    svg('polyline', { points: points.join(' ') }),
    samples.length === 1 && samples[0].well && svg('circle', { class: 'one', cx: x(0), cy: points[0].split(',')[1], r: 1.8 }),
    samples.map(({ well }, at) => !well && svg('circle', { cx: x(at), cy: height - 3, r: 1.8 })));
}
