// burst.mjs - a master closes everything at once: 27 closes, and each of his followers' orders.
//
//     node burst.mjs [--server ADDR:PORT] [--master M1] [--positions 27] [--json]
//
// It opens the positions, waits until every follower has them, sends all closes at once and collects
// one sample for each copy from WatchOwnTime. What it prints is the service's own part: from the
// event's receipt to the moment the follower's order call was made. Exit 1 when a copy is missing,
// had to wait for another order (held), or is not what it should be.
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const SAMPLES_WITHIN_MS = 15_000;
const CALL_WITHIN_MS = 30_000;
const TRIES_MAX = 5;

function optionsRead() {
  try {
    return parseArgs({ options: {
      server: { type: 'string', default: process.env.TRADEWAKE_SERVER ?? '127.0.0.1:50051' },
      master: { type: 'string', default: 'M1' },
      positions: { type: 'string', default: '27' },
      json: { type: 'boolean', default: false },
    } }).values;
  } catch (error) {
    console.error(`burst: ${error.message}\n` +
                  'node burst.mjs [--server ADDR:PORT] [--master M1] [--positions 27] [--json]');
    return process.exit(2);
  }
}

const options = optionsRead();

const protoFolder = fileURLToPath(new URL('../../proto', import.meta.url));
const definition = protoLoader.loadSync(
  ['tradewake/v1/events.proto', 'tradewake/v1/metrics.proto'],
  { includeDirs: [protoFolder], keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true });
const { tradewake } = grpc.loadPackageDefinition(definition);
const credentials = grpc.credentials.createInsecure();
const events = new tradewake.v1.EventService(options.server, credentials);
const metrics = new tradewake.v1.MetricsService(options.server, credentials);

// A unary call as a promise. UNAVAILABLE may be sent again as it is: the event_id makes it safe, an
// event that arrived after all is answered with duplicate = true and sends nothing. Any other error,
// a deadline that passed too, is not an answer; ask GetCopy or send the same id again.
async function call(client, method, request) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await new Promise((resolve, reject) => {
        client[method](request, { deadline: Date.now() + CALL_WITHIN_MS },
          (error, answer) => (error ? reject(error) : resolve(answer)));
      });
    } catch (error) {
      if (error.code !== grpc.status.UNAVAILABLE || attempt === TRIES_MAX) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt));
    }
  }
}

// The wall clock to the microsecond: path time counts from here.
function now() {
  const ms = performance.timeOrigin + performance.now();
  const seconds = Math.floor(ms / 1e3);
  return { seconds, nanos: Math.round((ms - seconds * 1e3) * 1e3) * 1e3 };
}

function submit(eventId, action, waitFor) {
  return call(events, 'SubmitEvent', {
    event: { event_id: eventId, master_id: options.master, observed_at: now(), ...action },
    wait_for: waitFor,
    view: 'COPY_VIEW_ALL',
  });
}

// One sample per copy of the events we send. ready resolves when the stream has started, done when
// `wanted` copies of `action` have been seen, or after SAMPLES_WITHIN_MS with what there is.
function collect(action, isOurs) {
  const samples = new Map();
  const stream = metrics.WatchOwnTime({ filter: { master_id: options.master } });
  let dropped = 0, wanted = Infinity, started, enough;
  const ready = new Promise((resolve, reject) => { started = resolve; stream.on('error', reject); });
  stream.on('data', ({ payload, batch, dropped: lost }) => {
    if (payload === 'started') started();
    if (payload === 'dropped') dropped += lost.count;
    if (payload !== 'batch') return;
    for (const sample of batch.samples) {
      if (sample.action === action && isOurs(sample.event_id)) samples.set(sample.copy_id, sample);
    }
    if (samples.size >= wanted) enough?.();
  });
  const done = (count) => new Promise((resolve) => {
    wanted = count;
    const timer = setTimeout(finish, SAMPLES_WITHIN_MS);
    function finish() {
      clearTimeout(timer);
      stream.on('error', () => {});  // the CANCELLED that we ask for
      stream.cancel();
      resolve({ samples: [...samples.values()], dropped });
    }
    enough = finish;
    if (samples.size >= wanted) finish();
  });
  return { ready, done };
}

const percentile = (sorted, p) => sorted[Math.max(0, Math.ceil(sorted.length * p) - 1)] ?? 0;

function figures(times_ns) {
  const sorted = times_ns.map((ns) => ns / 1e6).sort((a, b) => a - b);
  return { count: sorted.length, p50_ms: percentile(sorted, 0.5), p95_ms: percentile(sorted, 0.95),
           max_ms: sorted.at(-1) ?? 0 };
}

function byThreads(samples) {
  const groups = new Map();
  for (const sample of samples) {
    const key = sample.threads_at_start;
    groups.set(key, [...(groups.get(key) ?? []), sample.own_time_ns]);
  }
  return [...groups].sort(([a], [b]) => a - b)
    .map(([threads, times]) => ({ threads_at_start: threads, ...figures(times) }));
}

function row(label, { count, p50_ms, p95_ms, max_ms }) {
  const ms = (value) => value.toFixed(3).padStart(9);
  return `${label.padEnd(28)}${String(count).padStart(7)}${ms(p50_ms)}${ms(p95_ms)}${ms(max_ms)}`;
}

async function main() {
  const positions = Number(options.positions);
  const run = `burst-${Date.now()}`;
  const ids = Array.from({ length: positions }, (_, i) => `${run}-${i + 1}`);
  const master = await call(events, 'GetMaster', { master_id: options.master });
  const wanted = positions * master.followers;

  const opened = await Promise.all(ids.map((id) => submit(`open-${id}`, { open: {
    position_id: id, symbol: 'EURUSD', side: 'SIDE_BUY', volume: '0.10', price: '1.1' } }, 'WAIT_FOR_DONE')));
  const open = opened.flatMap(({ copies }) => copies).filter(({ state }) => state === 'COPY_STATE_DONE');

  const collected = collect('COPY_ACTION_CLOSE', (eventId) => eventId.startsWith(`close-${run}`));
  await collected.ready;
  const before = await call(metrics, 'GetExecutorStatus', {});
  const closed = await Promise.all(ids.map((id) => submit(
    `close-${id}`, { close: { position_id: id, price: '1.1' } }, 'WAIT_FOR_DONE')));
  const { samples, dropped } = await collected.done(wanted);
  const after = await call(metrics, 'GetExecutorStatus', {});

  const done = closed.flatMap(({ copies }) => copies).filter(({ state }) => state === 'COPY_STATE_DONE');
  const held = samples.filter(({ times }) => times.held_ns > 0);
  const result = {
    positions, followers: master.followers, opened: open.length, closed: done.length,
    samples: samples.length, dropped, held: held.length,
    threads_before: before.threads, threads_after: after.threads,
    threads_created_late: after.threads_created_late - before.threads_created_late,
    own_time: byThreads(samples),
    path_time: figures(samples.map(({ times }) => times.upstream_ns + times.called_ns)),
  };

  if (options.json) {
    console.log(JSON.stringify(result));
  } else {
    console.log(`${positions} closes at once for ${master.followers} followers: ${wanted} copies\n`);
    console.log(`${'own time, threads at start'.padEnd(28)} copies   p50 ms   p95 ms   max ms`);
    for (const group of result.own_time) console.log(row(`  ${group.threads_at_start}`, group));
    console.log(row('path time (from observed_at)', result.path_time));
    console.log(`\nthreads before ${before.threads}, after ${after.threads}, created late ` +
                `${result.threads_created_late}; held ${held.length}; dropped ${dropped}`);
  }
  const wrong = [
    [master.followers === 0, `nobody follows ${options.master}`],
    [open.length !== wanted, `${open.length} of ${wanted} opens are DONE`],
    [done.length !== wanted, `${done.length} of ${wanted} closes are DONE`],
    [samples.length !== wanted, `${samples.length} of ${wanted} samples came`],
    [held.length > 0, `${held.length} copies were held`],
  ].filter(([is]) => is);
  for (const [, what] of wrong) console.error(`burst: ${what}`);
  return wrong.length ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(`burst: ${options.server}: ${error.details || error.message}`);
  if (error.code === grpc.status.UNAVAILABLE)
    console.error('start a server with `build/release/tradewake dev`, or name it with --server or TRADEWAKE_SERVER');
  process.exitCode = error.code === grpc.status.UNAVAILABLE ? 3 : 1;
} finally {
  events.close();
  metrics.close();
}
