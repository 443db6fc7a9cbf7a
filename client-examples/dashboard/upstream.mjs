// upstream.mjs - what Tradewake says, turned into a board: one value per topic, the newest.
//
// However many browsers look, there is one stream of each kind and one poll of each kind. Everything kept has a
// bound: TICKS seconds of figures, BURSTS bursts, FOLLOWERS_MAX followers, one page of whatever is listed.
//
//   link       {state, text}                 live, stale, reconnecting or drained
//   tick       {n, at, own, path, ...}       one second: percentiles and the rows of the heatmap
//   total      {own, path}                   since the server's start
//   stages     {at, count, is_cut, stages}   of the last second in which copies were made; is_cut: of its first thousand
//   bursts     [burst, ...]                  newest first
//   executor   ExecutorStatus
//   staircase  [{threads, own}]              own time by the threads that there were at a copy's start, since start
//   copies     [{state, reason, count}]      since start, from /metrics
//   followers  {followers, left_out, halts}
import grpc from '@grpc/grpc-js';
import { fileURLToPath } from 'node:url';
import protoLoader from '@grpc/proto-loader';
import { Sum } from './page/histogram.mjs';

const TICK_MS = 1000;
const SLOW_MS = 2000;
const STALE_MS = 3500;
const CALL_WITHIN_MS = 3000;
const TICKS = 600;
const BURSTS = 12;
const FOLLOWERS_MAX = 500;
const RETRY_MS = 500;
/** The stream of every copy costs the most: it is read while somebody looks, and of a tick no more than this. At thousands
 *  of copies a second, reading each of them would take the processor from the server that is looked at. */
const SAMPLES_A_TICK = 1000;
const SAMPLES = { max_batch: 250, max_delay: { nanos: 200e6 }, filter: {} };

const STAGES = [
  ['planned', (times) => times.planned_ns],
  ['journaled', (times) => times.journaled_ns - times.planned_ns],
  ['started', (times) => times.started_ns - times.journaled_ns],
  ['called', (times) => times.called_ns - times.started_ns],
  ['answered', (times) => times.answered_ns - times.called_ns],
];

const definition = protoLoader.loadSync(
  ['copies', 'events', 'followers', 'metrics'].map((name) => `tradewake/v1/${name}.proto`).concat('grpc/health/v1/health.proto'),
  { includeDirs: [process.env.TRADEWAKE_PROTO ?? fileURLToPath(new URL('../../proto', import.meta.url))],
    keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true });
const contract = grpc.loadPackageDefinition(definition);

const msOf = (time) => time.seconds * 1e3 + time.nanos / 1e6;
const iso = (time) => (time ? new Date(time.seconds * 1e3 + Math.floor(time.nanos / 1e6)).toISOString() : null);
const copyJson = (copy) => ({ ...copy, received_at: iso(copy.received_at), updated_at: iso(copy.updated_at) });

export class Upstream {
  board = new Map(); // topic -> the newest
  ticks = [];
  #listeners = new Set();
  #clients;
  #admin;
  #bursts = new Map();
  #window = emptyWindow();
  #stages = null;
  #samples = null;
  #n_samples = 0; // read in this tick
  #heard_ms = 0; // when the last answer came
  #is_draining = false;
  #problem = '';
  #n = 0;
  #closed = false;
  #timers = [];

  /** @param {{server: string, admin: string}} where admin: '' when there is none to be asked */
  constructor({ server, admin }) {
    const credentials = grpc.credentials.createInsecure();
    const options = {
      'grpc.keepalive_time_ms': 20_000, 'grpc.keepalive_timeout_ms': 10_000, 'grpc.keepalive_permit_without_calls': 1,
      'grpc.initial_reconnect_backoff_ms': 100, 'grpc.max_reconnect_backoff_ms': 1000,
      'grpc.max_receive_message_length': 16 << 20,
    };
    const { v1 } = contract.tradewake;
    this.server = server;
    this.#admin = admin;
    this.#clients = {
      copies: new v1.CopyService(server, credentials, options),
      events: new v1.EventService(server, credentials, options),
      followers: new v1.FollowerService(server, credentials, options),
      metrics: new v1.MetricsService(server, credentials, options),
      health: new contract.grpc.health.v1.Health(server, credentials, options),
    };
  }

  start() {
    this.#readWindows('GROUP_BY_UNSPECIFIED', (summary) => this.#onWindow(summary));
    this.#readWindows('GROUP_BY_BURST', (summary) => this.#onBursts(summary));
    this.#every(TICK_MS, () => this.#tick());
    this.#every(TICK_MS, () => this.#pollExecutor());
    this.#every(SLOW_MS, () => this.#pollSinceStart());
    this.#every(SLOW_MS, () => this.#pollFollowers());
    this.#every(SLOW_MS, () => this.#pollCounts());
  }

  close() {
    this.#closed = true;
    this.#timers.forEach(clearTimeout);
    this.#samples?.cancel();
    Object.values(this.#clients).forEach((client) => client.close());
  }

  /** Told of each topic that changes. While anybody listens, every copy's times are read. @returns {() => void} */
  listen(listener) {
    this.#listeners.add(listener);
    this.#readSamples();
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) this.#samples?.cancel();
    };
  }

  /** One unary call; rejects with grpc's error. */
  call(service, method, request) {
    const client = this.#clients[service];
    return new Promise((resolve, reject) => {
      client[method](request, { deadline: Date.now() + CALL_WITHIN_MS },
        (error, answer) => (error ? reject(error) : resolve(answer)));
    });
  }

  async copies(filter, { page_token, slowest_first }) {
    const answer = await this.call('copies', 'ListCopies', { filter, page_size: 25, page_token, slowest_first });
    return { copies: answer.copies.map(copyJson), next_page_token: answer.next_page_token };
  }

  async copy(copy_id) { return copyJson(await this.call('copies', 'GetCopy', { copy_id })); }

  /** A copy's event once more through the rules as they are now, as if it came now: step by step. Sends nothing. */
  async explain({ master_id, event_id, follower_id }) {
    const { event, received_at } = await this.call('events', 'GetEvent', { master_id, event_id });
    const way_ms = Math.max(0, msOf(received_at) - msOf(event.observed_at ?? received_at));
    const ms = Date.now() - way_ms;
    const observed_at = { seconds: Math.floor(ms / 1e3), nanos: Math.floor(ms % 1e3) * 1e6 };
    const { explanations } = await this.call('events', 'ExplainEvent', { event: { ...event, observed_at }, follower_id });
    return explanations[0] ?? null;
  }

  #tell(topic, value) {
    this.board.set(topic, value);
    this.#listeners.forEach((listener) => listener(topic));
  }

  /** A poll never overlaps itself: the next one is set when the last has ended. */
  #every(period_ms, poll) {
    const index = this.#timers.push(null) - 1;
    const round = async () => {
      await poll().catch((error) => this.#failed(error));
      if (!this.#closed) this.#timers[index] = setTimeout(round, period_ms);
    };
    round();
  }

  #failed(error) {
    if (/SHUTTING_DOWN/.test(error.details ?? '')) this.#is_draining = true;
    this.#problem = error.details || error.message;
  }

  #later(what) { if (!this.#closed) setTimeout(() => { if (!this.#closed) what(); }, RETRY_MS); }

  // ---- Streams: each begins anew when it ends, for ever ----

  #readWindows(group_by, on_summary) {
    const stream = this.#clients.metrics.WatchOwnTimeSummary({ group_by, window: { seconds: 1 }, filter: {} });
    stream.on('data', (message) => { if (message.payload === 'summary') on_summary(message.summary); });
    stream.on('error', (error) => this.#failed(error));
    stream.on('close', () => this.#later(() => this.#readWindows(group_by, on_summary)));
  }

  #readSamples() {
    if (this.#samples) return;
    const stream = this.#samples = this.#clients.metrics.WatchOwnTime(SAMPLES);
    stream.on('data', (message) => {
      if (message.payload !== 'batch' || this.#n_samples >= SAMPLES_A_TICK) return;
      this.#n_samples += message.batch.samples.length;
      message.batch.samples.forEach((sample) => this.#onSample(sample));
      if (this.#n_samples >= SAMPLES_A_TICK) stream.cancel(); // the next tick begins it anew
    });
    stream.on('error', (error) => { if (error.code !== grpc.status.CANCELLED) this.#failed(error); });
    stream.on('close', () => { this.#samples = null; }); // likewise
  }

  #onWindow(summary) {
    for (const group of summary.groups) {
      for (const [name, field] of WINDOW_PARTS) this.#window[name].add(group[field]);
      this.#window.held += group.held;
    }
    this.#window.samples_lost = summary.samples_lost;
  }

  #onBursts(summary) {
    if (summary.groups.length === 0) return;
    for (const group of summary.groups) {
      if (!/^\d{4}-/.test(group.key)) continue; // "other": more bursts than an answer has groups
      const burst = this.#bursts.get(group.key) ?? { own: new Sum(), path: new Sum(), held: 0 };
      burst.own.add(group.own_time);
      burst.path.add(group.path_time);
      burst.held += group.held;
      this.#bursts.set(group.key, burst);
    }
    const keys = [...this.#bursts.keys()].sort().reverse();
    keys.slice(BURSTS).forEach((key) => this.#bursts.delete(key));
    this.#tell('bursts', keys.slice(0, BURSTS).map((at) => {
      const { own, path, held } = this.#bursts.get(at);
      return { at, own: own.figures(), path: path.figures(), held };
    }));
  }

  #onSample({ times }) {
    if (times.held_ns > 0) return; // as own time: it waited for what is not ours to hurry
    this.#stages ??= { count: 0, sums: STAGES.map(() => new Sum()) };
    this.#stages.count++;
    STAGES.forEach(([, duration], i) => this.#stages.sums[i].addValue(Math.max(0, duration(times))));
  }

  // ---- Polls ----

  async #tick() {
    const at = Date.now();
    const { own, path, wait, broker, held, samples_lost } = this.#window;
    const tick = { n: ++this.#n, at, own: own.figures(), path: path.figures(), wait: wait.figures(),
                   broker: broker.figures(), rows: own.rows(), held, samples_lost };
    this.#window = { ...emptyWindow(), samples_lost };
    this.ticks.push(tick);
    if (this.ticks.length > TICKS) this.ticks.shift();
    this.#tell('link', this.#link(at));
    this.#tell('tick', tick);
    const is_cut = this.#n_samples >= SAMPLES_A_TICK;
    this.#n_samples = 0;
    if (this.#listeners.size > 0) this.#readSamples();
    if (this.#stages) {
      const { count, sums } = this.#stages;
      this.#stages = null;
      this.#tell('stages', { at, count, is_cut, stages: STAGES.map(([name], i) => ({ name, ...sums[i].figures() })) });
    }
  }

  #link(now_ms) {
    const silent_ms = now_ms - this.#heard_ms;
    if (this.#is_draining) return { state: 'drained', text: 'the server ended in good order, or is about to; waiting for the next one' };
    if (silent_ms < STALE_MS) return { state: 'live', text: `connected to ${this.server}` };
    const state = this.#clients.metrics.getChannel().getConnectivityState(false);
    if (state === grpc.connectivityState.READY && this.#heard_ms > 0)
      return { state: 'stale', text: `connected, but silent for ${Math.round(silent_ms / 1000)} s` };
    return { state: 'reconnecting', text: `nobody answers at ${this.server}: ${this.#problem}` };
  }

  async #pollExecutor() {
    const executor = await this.call('metrics', 'GetExecutorStatus', {});
    const { status } = await this.call('health', 'Check', { service: 'readiness' });
    this.#is_draining = status !== 'SERVING';
    this.#heard_ms = Date.now();
    this.#tell('executor', { ...executor, warm_since: iso(executor.warm_since) });
  }

  async #pollSinceStart() {
    const total = await this.call('metrics', 'GetOwnTimeSummary', {});
    const threads = await this.call('metrics', 'GetOwnTimeSummary', { group_by: 'GROUP_BY_THREADS' });
    const own = new Sum(), path = new Sum();
    total.groups.forEach((group) => { own.add(group.own_time); path.add(group.path_time); });
    this.#tell('total', { own: own.figures(), path: path.figures() });
    this.#tell('staircase', threads.groups.filter(({ own_time }) => own_time?.count > 0)
      .map(({ key, own_time }) => ({ threads: key, own: new Sum().add(own_time).figures() })));
  }

  async #pollFollowers() {
    const followers = [];
    let page_token = '';
    do {
      const page = await this.call('followers', 'ListFollowers', { page_size: FOLLOWERS_MAX, page_token });
      followers.push(...page.followers);
      page_token = page.next_page_token;
    } while (page_token && followers.length < FOLLOWERS_MAX);
    const { halts } = await this.call('followers', 'ListHalts', {});
    this.#tell('followers', {
      is_cut: page_token !== '',
      followers: followers.slice(0, FOLLOWERS_MAX).map((one) => ({
        follower_id: one.follower_id, display_name: one.display_name, mode: one.mode, adapter: one.adapter,
        connected: one.connected, connection_message: one.connection_message, halted: one.halted,
        gate_tripped: one.gate_tripped, blocked_by: one.blocked_by, drift_count: one.drift_count,
        open_positions: one.open_positions, balance: one.account?.balance ?? '', currency: one.account?.currency ?? '' })),
      halts: halts.map((halt) => ({ ...halt, since: iso(halt.since) })),
    });
  }

  /** Copies by state and reason are on the admin port alone; without one the panel says so. */
  async #pollCounts() {
    if (!this.#admin) return this.#tell('copies', { problem: 'started without --admin ADDR:PORT, which gives these numbers' });
    try {
      const answer = await fetch(`http://${this.#admin}/metrics`, { signal: AbortSignal.timeout(CALL_WITHIN_MS) });
      this.#tell('copies', { counts: countsOf(await answer.text()) });
    } catch (error) {
      this.#tell('copies', { ...this.board.get('copies'), problem: `the admin port ${this.#admin} does not answer: ${error.cause?.message ?? error.message}` });
    }
  }
}

const WINDOW_PARTS = [['own', 'own_time'], ['path', 'path_time'], ['wait', 'queue_wait'], ['broker', 'broker_time']];

function emptyWindow() {
  return { own: new Sum(), path: new Sum(), wait: new Sum(), broker: new Sum(), held: 0, samples_lost: 0 };
}

/** `tradewake_copies_total{state="DONE",reason="NONE"} 810` of a page of /metrics: how copies ended, and those that are UNKNOWN now. */
export function countsOf(text) {
  const counts = [];
  for (const [, labels, value] of text.matchAll(/^tradewake_copies_total\{([^}]*)\} ([0-9.eE+]+)$/gm)) {
    const label = (name) => new RegExp(`${name}="([^"]*)"`).exec(labels)?.[1] ?? '';
    if (Number(value) > 0) counts.push({ state: label('state'), reason: label('reason'), count: Number(value) });
  }
  const unknown = Number(/^tradewake_copies_unknown (\d+)$/m.exec(text)?.[1] ?? 0);
  if (unknown > 0) counts.push({ state: 'UNKNOWN', reason: '', count: unknown });
  return counts.sort((a, b) => b.count - a.count);
}
