// app.mjs - the page: the bridge's topics, each into its panel. Nothing here keeps more than ten minutes of ticks.
import { $, ask, bytes, clock, count, element, time } from '/format.mjs';
import { Heat, Lines, SECONDS, staircase, stages } from '/charts.mjs';
import { counts, list_copies } from '/copies.mjs';
import { followers } from '/followers.mjs';

const SILENT_MS = 5000; // of the bridge

let ticks = [];
let heard_ms = Date.now();
let is_filling = false;
const own_lines = new Lines($('#own-chart'), 'own'), path_lines = new Lines($('#path-chart'), 'path'), heat = new Heat($('#heat'));

// ---- Link ----

const LINK_WORDS = { connecting: 'connecting', live: 'live', stale: 'stale', reconnecting: 'reconnecting', drained: 'drained' };
let link_state = '';

function show_link({ state, text }) {
  const place = $('#link');
  document.body.classList.toggle('old', state !== 'live');
  if (state !== link_state) { // a screen reader hears of changes only
    link_state = place.dataset.state = state;
    $('b', place).textContent = LINK_WORDS[state] ?? state;
    $('span:last-child', place).textContent = text;
    if (state === 'live') list_copies();
  }
}

setInterval(() => {
  if (Date.now() - heard_ms > SILENT_MS) show_link({ state: 'reconnecting', text: 'the bridge behind this page does not answer' });
}, 1000);

// ---- Figures ----

function tile(name, figures, when = '') {
  const place = $(`[data-figures="${name}"]`);
  if (figures.count === 0) return;
  for (const part of ['p50', 'p95', 'p99', 'max']) $(`[data-p="${part}"]`, place).textContent = time(figures[part]);
  const total = $('[data-p="count"]', place);
  if (total) total.textContent = count(figures.count);
  const place_when = $('[data-when]', place);
  if (place_when) place_when.textContent = when;
}

function show_ticks() {
  const last = ticks.findLast(({ own, held }) => own.count + held > 0);
  if (last) {
    const age_s = Math.round((ticks.at(-1).at - last.at) / 1e3);
    const when = `${count(last.own.count)} copies, ${age_s < 2 ? 'now' : age_s < 90 ? `${age_s} s ago` : `${Math.round(age_s / 60)} min ago`}`;
    for (const name of ['own', 'path', 'broker']) tile(name, last[name], when);
  }
  own_lines.show(ticks);
  path_lines.show(ticks);
  heat.show(ticks);
  if ($('#seconds').closest('details').open) show_seconds();
}

function show_seconds() {
  const busy = ticks.filter(({ own }) => own.count > 0).slice(-60).reverse();
  $('#seconds tbody').replaceChildren(...busy.map(({ at, own, path }) => element('tr', {}, element('td', {}, clock(at)),
    ...[count(own.count), ...['p50', 'p95', 'p99', 'max'].map((name) => time(own[name])), time(path.p50)].map((cell) => element('td', { class: 'n' }, cell)))));
}
$('#seconds').closest('details').addEventListener('toggle', show_seconds);

/** A tick that follows the last one is added; with a gap (a slow browser, a bridge that began anew) all are fetched. */
async function on_tick(tick) {
  if (is_filling) return;
  if (ticks.length > 0 && tick.n === ticks.at(-1).n + 1) {
    ticks.push(tick);
    if (ticks.length > SECONDS) ticks.shift();
    return show_ticks();
  }
  is_filling = true;
  try {
    ticks = await ask('/api/history');
    show_ticks();
  } catch {
    ticks = [];
  } finally {
    is_filling = false;
  }
}

// ---- Bursts, executor ----

let burst_told = '';

function show_bursts(list) {
  $('#bursts-empty').hidden = list.length > 0;
  $('#bursts tbody').replaceChildren(...list.map(({ at, own, path, held }) => element('tr', {}, element('td', {}, clock(at)),
    ...[count(own.count), time(own.p50), time(own.p95), time(own.max), time(path.p50), held ? count(held) : '0'].map((cell) => element('td', { class: 'n' }, cell)))));
  const [newest] = list;
  if (!newest || newest.at === burst_told) return;
  burst_told = newest.at;
  $('#news').textContent = `Burst of ${count(newest.own.count)} copies, median own time ${time(newest.own.p50)}, maximum ${time(newest.own.max)}`;
}

function show_executor(status) {
  const share = status.threads_ready ? Math.min(1, status.calls_in_flight / status.threads_ready) : 0;
  $('#executor-bar span').style.width = `${share * 100}%`;
  $('#executor-bar').setAttribute('aria-label', `${status.calls_in_flight} calls in flight on ${status.threads_ready} ready threads`);
  const fact = (label, value, is_bad = false) => element('div', {}, element('dt', {}, label), element('dd', { class: is_bad ? 'bad' : null }, value));
  $('#executor').replaceChildren(
    fact('threads ready', count(status.threads_ready)), fact('needed at worst', count(status.threads_needed), status.threads_needed > status.threads_ready),
    fact('in flight', count(status.calls_in_flight)), fact('most at once', count(status.peak_in_flight)), fact('queued', count(status.calls_queued), status.calls_queued > 0),
    fact('created late', count(status.threads_created_late), status.threads_created_late > 0), fact('lost', count(status.threads_lost), status.threads_lost > 0),
    fact('memory', bytes(status.resident_bytes)));
  $('#executor-words').textContent = `${status.groups} ${status.groups === 1 ? 'group' : 'groups'}, ${status.pinned ? 'pinned to their cores' : 'not pinned'}, leaders ${status.realtime ? 'with' : 'without'} real-time priority; ${count(status.calls_completed)} calls completed`;
}

// ---- Theme ----

function dress(theme) {
  document.documentElement.dataset.theme = theme;
  $('#theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  $('#theme').setAttribute('aria-label', `Use the ${theme === 'dark' ? 'light' : 'dark'} colours`);
  [own_lines, path_lines, heat].forEach((chart) => chart.redress());
}
const system = matchMedia('(prefers-color-scheme: dark)');
dress(localStorage.getItem('theme') ?? (system.matches ? 'dark' : 'light'));
system.addEventListener('change', () => { if (!localStorage.getItem('theme')) dress(system.matches ? 'dark' : 'light'); });
$('#theme').addEventListener('click', () => {
  const theme = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  localStorage.setItem('theme', theme);
  dress(theme);
});

// ---- The stream ----

const TOPICS = { link: show_link, tick: on_tick, total: ({ own }) => tile('total', own), stages, bursts: show_bursts, executor: show_executor,
                 staircase, copies: counts, followers };

staircase([]);
const source = new EventSource('/events');
for (const [topic, show] of Object.entries(TOPICS)) {
  source.addEventListener(topic, ({ data }) => {
    heard_ms = Date.now();
    show(JSON.parse(data));
  });
}
source.addEventListener('error', () => show_link({ state: 'reconnecting', text: 'the bridge behind this page does not answer' }));
