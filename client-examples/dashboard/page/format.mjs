// format.mjs - numbers, times and words for people, and small pieces of page.

/** Three figures and a unit: "0.14 ms", "63 ms", "1.2 s". */
export function time(ns) {
  if (!(ns > 0)) return '–';
  const [value, unit] = ns < 1e6 ? [ns / 1e3, 'µs'] : ns < 1e9 ? [ns / 1e6, 'ms'] : [ns / 1e9, 's'];
  return `${value >= 100 ? Math.round(value) : Number(value.toPrecision(2))} ${unit}`;
}

export const count = (n) => n.toLocaleString('en-US');
export const bytes = (n) => `${Math.round(n / 2 ** 20)} MiB`;
export const clock = (text) => new Date(text).toLocaleTimeString('en-GB', { timeZone: 'UTC' });

/** "COPY_STATE_DONE" of an enum whose values begin with "COPY_STATE_": DONE. "" for none. */
export const word = (value, prefix) => (value ?? '').replace(prefix, '').replace(/^(UNSPECIFIED|NONE)$/, '');

const GOOD = new Set(['DONE', 'ACTIVE', 'connected']);
const BAD = new Set(['REJECTED', 'UNKNOWN', 'HALTED', 'GATE_TRIPPED', 'STOP_OUT', 'not connected']);
export const kindOf = (text) => (GOOD.has(text) ? 'good' : BAD.has(text) ? 'bad' : /^(SKIPPED|EXPIRED|PARTIAL|CANCELLED|PAUSED|CLOSE_ONLY|MONITOR)$/.test(text) ? 'warn' : '');

/** element('td', {class: 'n'}, 'text', other): text is text, never markup. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const badge = (text) => element('span', { class: `word ${kindOf(text)}` }, text);
export const $ = (selector, within = document) => within.querySelector(selector);

export async function ask(path, order) {
  const response = await fetch(path, order && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(order) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}
