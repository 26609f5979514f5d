// Light, dark, or as the system has it. Only this choice outlives the window.

import { say } from './dom.js';

const KEY = 'fencepost-theme';
const CHOICES = [['system', '◐'], ['light', '☀'], ['dark', '☾']];

function stored() {
  try {
    return localStorage.getItem(KEY) ?? 'system';
  } catch {
    return 'system';
  }
}

function apply(choice) {
  const [name, sign] = CHOICES.find(([known]) => known === choice) ?? CHOICES[0];
  document.documentElement.dataset.theme = name;
  const button = document.getElementById('theme');
  button.setAttribute('aria-label', `Theme: ${name === 'system' ? 'as the system' : name}`);
  button.title = button.getAttribute('aria-label');
  button.firstElementChild.textContent = sign;
  return name;
}

export function next() {
  const now = CHOICES.findIndex(([name]) => name === document.documentElement.dataset.theme);
  const name = apply(CHOICES[(now + 1) % CHOICES.length][0]);
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // A browser that keeps nothing still has a theme until the window is closed.
  }
  say(document.getElementById('theme').title);
}

apply(stored());
document.getElementById('theme').addEventListener('click', next);
