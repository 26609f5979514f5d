// Small helpers for the page. Whatever comes from a lock is text, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'text') element.textContent = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
  return element;
}

/** An element with attributes (`text` is its text, `onclick` a listener) and children; a string is text. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** The same in a drawing. */
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Sets a text only if it is another one: no layout for what has not changed. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A duration in whole seconds: what changes all the time must not flicker. */
export const calm = (ms) => (ms < 1000 ? '<\u00a01\u00a0s' : span(Math.floor(ms / 1000) * 1000));

/** A duration in at most two units. */
export function span(ms) {
  return written(ms).replaceAll(' ', '\u00a0');
}

function written(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '–';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10 && ms % 1000) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86400].map(Math.floor);
  const two = (first, second) => (second.startsWith('0') ? first : `${first} ${second}`);
  if (minutes < 60) return two(`${minutes} m`, `${Math.floor(seconds % 60)} s`);
  if (hours < 24) return two(`${hours} h`, `${minutes % 60} m`);
  return two(`${days} d`, `${hours % 24} h`);
}

/** A number with a thin space between thousands. */
export const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, '\u202f');

/** `1 lock`, `2 locks`. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** How somebody is called who may have said nothing. */
export const named = (label) => label || 'no label';

/** Tells a screen reader, and nobody else. */
export function say(text) {
  const said = document.getElementById('said');
  said.textContent = '';
  requestAnimationFrame(() => { said.textContent = text; });
}
