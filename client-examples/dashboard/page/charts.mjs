// charts.mjs - lines over time (uPlot), the heatmap, the staircase, the stages.
import uPlot from '/uplot.mjs';
import { ROWS, ROWS_PER_DECADE, rowLower } from '/histogram.mjs';
import { $, count, element, time } from '/format.mjs';

export const SECONDS = 600;
/** Two minutes at first, ten in the end: a page that was just opened is not nine tenths empty. */
const spanOf = (ticks) => Math.min(SECONDS, Math.max(120, ticks));
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LINES = [['p50', '--p50'], ['p95', '--p95'], ['p99', '--p99'], ['max', '--max']];

/** Four lines over the last ten minutes; a second without copies is a gap. Log scale: 0.1 and 100 ms both read. */
export class Lines {
  #plot = null;
  #data = [[], [], [], [], []];

  constructor(place, part) {
    this.place = place;
    this.part = part;
    new ResizeObserver(() => this.#plot?.setSize(this.#size())).observe(place);
  }

  #size() { return { width: Math.max(200, this.place.clientWidth), height: this.place.clientHeight - 32 }; }

  /** Once more with the colours of now. */
  redress() { this.#plot?.destroy(); this.#plot = null; this.#draw(); }

  show(ticks) {
    this.#data = [ticks.map(({ at }) => at / 1e3), ...LINES.map(([name]) =>
      ticks.map((tick) => (tick[this.part].count ? Math.max(tick[this.part][name], 1e3) / 1e6 : null)))];
    this.#draw();
    const last = ticks.findLast((tick) => tick[this.part].count);
    this.place.setAttribute('aria-label', last
      ? `Median ${time(last[this.part].p50)}, maximum ${time(last[this.part].max)} in the last second with copies` : 'no copies in the last ten minutes');
  }

  #draw() {
    if (this.#plot) { this.#plot.setData(this.#data); return; }
    const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line') } };
    this.#plot = new uPlot({
      ...this.#size(), cursor: { points: { size: 6 } },
      scales: { x: { range: () => { const now = this.#data[0].at(-1) ?? Date.now() / 1e3; return [now - spanOf(this.#data[0].length), now]; } },
                y: { distr: 3, range: (plot, low, high) => decades(low ?? 0.1, high ?? 10) } },
      axes: [{ ...axis, size: 32, space: 70, values: (plot, values) => values.map((at) => utc(at).slice(0, 8)), incrs: [30, 60, 120, 300] }, { ...axis, size: 64, values: (plot, values) => values.map((value) => (value && isDecade(value) ? time(value * 1e6) : '')) }],
      series: [{ label: 'UTC', value: (plot, at) => (at == null ? '–' : utc(at)) }, ...LINES.map(([label, name]) => ({
        label, stroke: colour(name), width: 1.5, points: { show: true, size: 4, fill: colour(name) },
        value: (plot, value) => (value == null ? '–' : time(value * 1e6)) }))],
    }, this.#data, this.place);
  }
}

const utc = (at) => new Date(at * 1e3).toISOString().slice(11, 19);
const isDecade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
const decades = (low, high) => [10 ** Math.floor(Math.log10(low)), 10 ** Math.max(Math.ceil(Math.log10(high)), Math.floor(Math.log10(low)) + 1)];

const HEAT_LEFT = 52, HEAT_BOTTOM = 18;

/** Time to the right, own time upwards (log), colour for how many. The ramp is in lightness, so that no eye needs a hue. */
export class Heat {
  #ticks = [];
  constructor(canvas) {
    this.canvas = canvas;
    new ResizeObserver(() => this.redress()).observe(canvas);
  }

  show(ticks) { this.#ticks = ticks; this.redress(); }

  redress() {
    const scale = devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext('2d');
    pen.scale(scale, scale);
    const full = this.#ticks.filter(({ rows }) => rows.length > 0);
    const used = full.flatMap(({ rows }) => rows.map(([row]) => row));
    const lowest = Math.max(0, Math.floor((Math.min(ROWS_PER_DECADE, ...used)) / ROWS_PER_DECADE) * ROWS_PER_DECADE);
    const highest = Math.min(ROWS, Math.ceil((Math.max(4 * ROWS_PER_DECADE - 1, ...used) + 1) / ROWS_PER_DECADE) * ROWS_PER_DECADE);
    const cell_h = (height - HEAT_BOTTOM - 4) / (highest - lowest), span_s = spanOf(this.#ticks.length), cell_w = (width - HEAT_LEFT) / span_s;
    const y = (row) => height - HEAT_BOTTOM - (row - lowest) * cell_h;
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    pen.fillStyle = colour('--soft');
    pen.strokeStyle = colour('--line');
    for (let row = lowest; row <= highest; row += ROWS_PER_DECADE) {
      pen.fillText(time(rowLower(row)), 0, Math.max(10, y(row) + 4));
      pen.beginPath();
      pen.moveTo(HEAT_LEFT, y(row));
      pen.lineTo(width, y(row));
      pen.stroke();
    }
    const now = this.#ticks.at(-1)?.at ?? Date.now();
    pen.textAlign = 'center';
    const step = span_s > 300 ? 2 : span_s > 120 ? 1 : 0.5;
    for (let minute = step; minute * 60 < span_s; minute += step)
      pen.fillText(minute < 1 ? `−${minute * 60} s` : `−${minute} min`, width - minute * 60 * cell_w, height - 4);
    const most = Math.max(1, ...full.flatMap(({ rows }) => rows.map(([, n]) => n)));
    pen.fillStyle = colour('--accent');
    for (const { at, rows } of full) {
      const x = width - ((now - at) / 1e3 + 1) * cell_w;
      if (x < HEAT_LEFT) continue;
      for (const [row, n] of rows) {
        pen.globalAlpha = 0.25 + 0.75 * Math.log(1 + n) / Math.log(1 + most);
        pen.fillRect(x, y(row + 1), Math.max(3, cell_w), cell_h);
      }
    }
    pen.globalAlpha = 1;
    const total = full.reduce((sum, { own }) => sum + own.count, 0);
    this.canvas.setAttribute('aria-label', `Heatmap of own time: ${count(total)} copies in the last ten minutes, the fullest cell ${count(most)}`);
  }
}

// threads [from, to], own time ms [from, to] of the medians, maximum. notes: a pool that grew, then threads that were ready.
const PUBLISHED = [
  [33, 36, 5.5, 14], [40, 69, 19, 19], [73, 102, 45, 45], [134, 163, 71, 71], [344, 486, 125, 190, 244],
];
const PUBLISHED_READY = [512, 512, 1.2, 1.2, 7.9];
const BOX = { width: 640, height: 250, left: 60, right: 14, top: 24, bottom: 34 };

function svg(name, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** groups: [{threads: "513-1024", own}] of this server. */
export function staircase(groups) {
  const x = (threads) => BOX.left + (Math.log2(threads) - 4) / 9 * (BOX.width - BOX.left - BOX.right);
  const y = (ms) => BOX.height - BOX.bottom - (Math.log10(Math.min(1000, Math.max(0.01, ms))) + 2) / 5 * (BOX.height - BOX.top - BOX.bottom);
  const ours = groups.map(({ threads, own }) => {
    const [from, to] = threads.split('-').map((text) => Math.min(8192, Math.max(16, Number(text) || 16)));
    return { threads, own, middle: x(Math.sqrt(from * (to || from))) };
  });
  const label = groups.length === 0 ? 'The published staircase; this server has copied nothing yet.'
    : `The published median rises from 5.5 to 190 milliseconds as the pool grows. Here: ${groups.map(({ threads, own }) => `${threads} threads, median ${time(own.p50)}, maximum ${time(own.max)}`).join('; ')}.`;
  const picture = svg('svg', { viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: 'img', 'aria-label': label });
  for (const ms of [0.01, 0.1, 1, 10, 100, 1000]) {
    picture.append(svg('line', { class: 'grid', x1: BOX.left, x2: BOX.width - BOX.right, y1: y(ms), y2: y(ms) }),
                   svg('text', { x: 4, y: y(ms) + 4 }, time(ms * 1e6)));
  }
  for (const threads of [16, 64, 256, 1024, 4096])
    picture.append(svg('text', { x: x(threads), y: BOX.height - 18, 'text-anchor': 'middle' }, threads));
  picture.append(svg('text', { x: (BOX.left + BOX.width) / 2, y: BOX.height - 3, 'text-anchor': 'middle' }, 'threads when the copy started'));
  for (const [from, to, low, high, max] of [...PUBLISHED, PUBLISHED_READY]) {
    if (max) picture.append(svg('line', { class: 'published', x1: (x(from) + x(to)) / 2, x2: (x(from) + x(to)) / 2, y1: y(high), y2: y(max) }));
    picture.append(svg('rect', { class: 'published', x: x(from) - 3, y: y(high) - 3, width: x(to) - x(from) + 6, height: y(low) - y(high) + 6, rx: 3 }));
  }
  for (const { middle, own } of ours) {
    picture.append(svg('line', { class: 'ours', x1: middle, x2: middle, y1: y(own.p50 / 1e6), y2: y(own.max / 1e6) }),
                   svg('circle', { class: 'ours', cx: middle, cy: y(own.p50 / 1e6), r: 5 }));
  }
  picture.append(svg('rect', { class: 'published', x: BOX.left, y: 4, width: 12, height: 10, rx: 2 }), svg('text', { class: 'key', x: BOX.left + 18, y: 13 }, 'published, another machine'),
                 svg('circle', { class: 'ours', cx: BOX.left + 215, cy: 9, r: 5 }), svg('text', { class: 'key', x: BOX.left + 226, y: 13 }, 'this server since start: median, line to the maximum'));
  $('#stair').replaceChildren(picture);
  const row = (...cells) => element('tr', {}, ...cells.map((cell, i) => element('td', { class: i > 1 ? 'n' : null }, cell)));
  const ms = (value) => (value ? time(value * 1e6) : '–');
  $('#stair-table tbody').replaceChildren(
    ...PUBLISHED.map(([from, to, low, high, max]) => row(`${from}–${to}`, 'published, a pool that grew', low === high ? ms(low) : `${ms(low)} – ${ms(high)}`, ms(max))),
    row('512 ready', 'published, ready before', ms(PUBLISHED_READY[2]), ms(PUBLISHED_READY[4])),
    ...ours.map(({ threads, own }) => row(threads, 'this server', time(own.p50), time(own.max))));
}

const STAGE_WORDS = { planned: 'planned', journaled: 'in the journal', started: 'a thread took it', called: 'order call made', answered: 'the broker answered' };

export function stages({ stages: list, count: n, is_cut, at }) {
  const share = (ns) => Math.min(1, Math.max(0, (Math.log10(Math.max(ns, 100)) - 2) / 8)) * 100;
  $('#stages-empty').hidden = true;
  $('#stages-when').textContent = `${is_cut ? 'the first ' : ''}${count(n)} copies at ${new Date(at).toISOString().slice(11, 19)} UTC`;
  $('#stages tbody').replaceChildren(...list.map(({ name, p50, p95, max }) => {
    const bar = element('span');
    bar.style.left = `${share(p50)}%`;
    bar.style.width = `${Math.max(2, share(p95) - share(p50))}%`;
    return element('tr', {}, element('td', {}, STAGE_WORDS[name] ?? name), ...[p50, p95, max].map((ns) => element('td', { class: 'n' }, time(ns))),
                   element('td', { 'aria-hidden': 'true' }, element('span', { class: 'track' }, bar)));
  }));
}
