// backend.mjs - a web backend in front of Tradewake.
//
//     node backend.mjs [--server ADDR:PORT] [--listen ADDR:PORT]
//
//   POST  /trades                what a master did; answers what happened at each follower
//   GET   /copies                copies by filter, in pages      GET /copies/ID  one of them
//   PATCH /followers/ID          {"mode": "FOLLOWER_MODE_PAUSED"}, If-Match: ETAG
//   POST  /halt   POST /resume   the kill switch
//   GET   /samples               each copy's own time, live (SSE)
//   GET   /copies/stream         every change of the copies, live and resumable (SSE)
//
// Bodies and answers use the names of the contract (proto/tradewake/v1). README.md tells what an answer means.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { httpOf, problemOf, Refusal } from './problem.mjs';
import { read } from './input.mjs';
import { copiesFeed, copyJson, relay, samplesFeed } from './streams.mjs';
import { call, connect, iso, now } from './tradewake.mjs';

/** @typedef {import('node:http').IncomingMessage} Request */
/** @typedef {import('node:http').ServerResponse} Response */
/** @typedef {import('./generated/tradewake/v1/SubmitEventResponse').SubmitEventResponse__Output} Submitted */
/** @typedef {{request: Request, response: Response, query: URLSearchParams, id: string, deadline: number}} Exchange */
/** @typedef {{status?: number, body: unknown}} Reply */

const TIMEOUT_MS_DEFAULT = 10_000;
const TIMEOUT_MS_MAX = 60_000;
/** Of a trade's time, kept for asking how things stand. */
const RESERVE_MS_MAX = 300;
const BODY_BYTES_MAX = 64 * 1024;
/** Tradewake answers at once or is not there. */
const READY_MS = 3000;
const ACTIONS = ['open', 'modify', 'close', 'place', 'modify_order', 'cancel', 'trigger'];

/** @param {string} message @returns {never} */
function usage(message) {
  console.error(`backend: ${message}\nnode backend.mjs [--server ADDR:PORT] [--listen ADDR:PORT]`);
  process.exit(2);
}

function optionsRead() {
  try {
    return parseArgs({ options: {
      server: { type: 'string', default: process.env.TRADEWAKE_SERVER ?? '127.0.0.1:50051' },
      listen: { type: 'string', default: process.env.LISTEN ?? '127.0.0.1:8080' },
    } }).values;
  } catch (error) {
    return usage(/** @type {Error} */ (error).message);
  }
}

const { server: address = '', listen = '' } = optionsRead();
// gRPC would take port 443 where none is named.
if (!/^unix:|:\d+$/.test(address)) usage(`--server is "${address}", expected ADDR:PORT`);
const [, host, port] = /^(.*):(\d+)$/.exec(listen) ?? usage(`--listen is "${listen}", expected ADDR:PORT`);
const tradewake = connect(address);

/** One line, one event. @param {string} event @param {Record<string, unknown>} facts */
function log(event, facts) {
  const quoted = (/** @type {unknown} */ value) => (/[\s"]/.test(String(value)) ? JSON.stringify(value) : value);
  const words = Object.entries(facts).map(([key, value]) => `${key}=${quoted(value)}`);
  console.error(`${new Date().toISOString()} ${event} ${words.join(' ')}`);
}

/** @param {Request} request */
async function bodyOf(request) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > BODY_BYTES_MAX) throw new Refusal('', `the body is larger than ${BODY_BYTES_MAX} bytes`,
                                               { code: 'RESOURCE_EXHAUSTED', reason: 'TOO_LARGE' });
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch (error) {
    throw new Refusal('', `the body is no JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/** Query parameters as an object for read(). `lists` may be repeated, `flags` need no value.
 *  @param {URLSearchParams} query @param {string[]} lists @param {string[]} flags */
function fieldsOf(query, lists, flags) {
  /** @type {Record<string, unknown>} */
  const fields = {};
  for (const key of new Set(query.keys())) {
    const values = query.getAll(key);
    if (lists.includes(key)) fields[key] = values;
    else if (values.length > 1) throw new Refusal(key, 'is named twice');
    else if (flags.includes(key)) fields[key] = values[0] === '' || values[0] === 'true';
    else fields[key] = values[0];
  }
  return fields;
}

/** The states that stay. UNKNOWN is none of them, nor is a state that a newer Tradewake may have.
 *  @type {Set<import('./generated/tradewake/v1/CopyState').CopyState>} */
const OVER = new Set(['COPY_STATE_DONE', 'COPY_STATE_PARTIAL', 'COPY_STATE_REJECTED', 'COPY_STATE_SKIPPED',
                      'COPY_STATE_EXPIRED', 'COPY_STATE_CANCELLED']);

/**
 * What the followers did with an event, and what its sender may make of it. A copy that is UNKNOWN may
 * have executed: Tradewake asks the broker. It is neither a success nor a failure, and the one thing
 * that must not happen now is the same trade under a new event_id.
 * @param {Submitted} submitted @returns {Reply}
 */
function tradeReply({ event_id, received_at, ...submitted }) {
  const unknown = submitted.copies.filter(({ state }) => state === 'COPY_STATE_UNKNOWN').map(({ copy_id }) => copy_id);
  const pending = submitted.copies.filter(({ state }) => !OVER.has(state)).length - unknown.length;
  const is_settled = unknown.length === 0 && pending === 0;
  const next = is_settled ? undefined
    : `not settled: ask GET /copies?event_id=${encodeURIComponent(event_id)}, or send it again with this event_id`;
  return { status: is_settled ? 200 : 202,
           body: { event_id, settled: is_settled, next, unknown, received_at: iso(received_at), ...submitted, pending } };
}

/**
 * Waits for the brokers until just before the deadline. When that answer is late it asks once more, with
 * the same event_id and without waiting, how things stand: nothing is sent again, and "two are still on
 * their way" is worth more to a caller than "no answer".
 * @param {import('./generated/tradewake/v1/TradeEvent').TradeEvent} event @param {number} deadline
 */
async function submit(event, deadline) {
  const reserve_ms = Math.min(RESERVE_MS_MAX, (deadline - Date.now()) / 4);
  const onRetry = (/** @type {{details: string}} */ { details }, /** @type {number} */ attempt) =>
    log('trade.retry', { event_id: event.event_id, attempt, why: details });
  try {
    return await call(tradewake.events, 'SubmitEvent', { event, wait_for: 'WAIT_FOR_DONE', view: 'COPY_VIEW_ALL' },
      { deadline: deadline - reserve_ms, onRetry });
  } catch (error) {
    if (problemOf(error).code !== 'DEADLINE_EXCEEDED') throw error;
    log('trade.late', { event_id: event.event_id });
    return await call(tradewake.events, 'SubmitEvent', { event, wait_for: 'WAIT_FOR_ACCEPTED', view: 'COPY_VIEW_ALL' },
      { deadline, onRetry });
  }
}

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function postTrade({ request, deadline }) {
  const body = await bodyOf(request);
  const event = read('TradeEvent', body);
  const named = ACTIONS.filter((action) => action in event);
  if (named.length > 1) throw new Refusal('action', `is ${named.join(' and ')}; one event is one action`);
  // Made once: every try carries the same id and the same moment, whoever tries again.
  event.event_id ??= request.headers['idempotency-key'] ?? randomUUID();
  event.observed_at ??= now();
  try {
    return tradeReply(await submit(event, deadline));
  } catch (error) {
    const problem = problemOf(error);
    // Whether it arrived is not known, and need not be: the same event_id finds out.
    const is_open = problem.code === 'UNAVAILABLE' || problem.code === 'DEADLINE_EXCEEDED';
    const next = is_open ? 'it may have arrived: send it again with this event_id' : undefined;
    throw Object.assign(/** @type {Error} */ (error), { beside: { event_id: event.event_id, next } });
  }
}

const FILTER_LISTS = ['states', 'reasons', 'actions'];

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function listCopies({ query, deadline }) {
  const fields = Object.entries(fieldsOf(query, FILTER_LISTS, ['slowest_first']));
  const is_paging = (/** @type {string} */ key) => ['page_size', 'page_token', 'slowest_first'].includes(key);
  const request = read('ListCopiesRequest', {
    ...Object.fromEntries(fields.filter(([key]) => is_paging(key))),
    filter: Object.fromEntries(fields.filter(([key]) => !is_paging(key))),
  });
  const { copies, next_page_token } = await call(tradewake.copies, 'ListCopies', request, { deadline });
  return { body: { copies: copies.map(copyJson), next_page_token } };
}

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function getCopy({ id, deadline }) {
  return { body: copyJson(await call(tradewake.copies, 'GetCopy', { copy_id: id }, { deadline })) };
}

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function patchFollower({ request, id, deadline }) {
  const body = await bodyOf(request);
  const other = Object.keys(Object(body)).find((name) => name !== 'mode');
  if (other !== undefined) throw new Refusal(other, 'cannot be changed here; only "mode" can');
  if (body?.mode === undefined) throw new Refusal('mode', 'is missing');
  const etag = request.headers['if-match']?.replace(/^"(.*)"$/, '$1') ?? '';
  const follower = await call(tradewake.followers, 'UpdateFollower',
    { follower: { ...read('Follower', body), follower_id: id, etag }, update_mask: { paths: ['mode'] } },
    // With an etag the second of two same updates is refused: it would blame somebody else for the first.
    { deadline, repeatable: etag === '' });
  const { follower_id, blocked_by, connected, open_positions } = follower;
  return { body: { follower_id, mode: follower.mode, etag: follower.etag, blocked_by, connected, open_positions } };
}

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function halt({ request, deadline }) {
  return { body: await call(tradewake.followers, 'Halt', read('HaltRequest', await bodyOf(request)), { deadline }) };
}

/** @param {Exchange} exchange @returns {Promise<Reply>} */
async function resume({ request, deadline }) {
  return { body: await call(tradewake.followers, 'Resume', read('ResumeRequest', await bodyOf(request)), { deadline }) };
}

/** What ends when its reader goes away, or the backend does. @type {Set<AbortController>} */
const readers = new Set();

/** @template Message @param {Exchange} exchange @param {import('./streams.mjs').Feed<Message>} feed */
async function stream({ response }, feed) {
  const reader = new AbortController();
  readers.add(reader);
  response.on('close', () => reader.abort());
  try {
    await relay(response, feed, reader.signal);
  } finally {
    readers.delete(reader);
  }
}

/** @param {Exchange} exchange */
async function streamCopies(exchange) {
  // EventSource sends the header; the parameter is for readers that keep the place themselves.
  const { query, request } = exchange;
  const place = request.headers['last-event-id'] ?? query.get('last_event_id') ?? '';
  query.delete('last_event_id');
  const filter = read('CopyFilter', fieldsOf(query, FILTER_LISTS, []));
  await stream(exchange, copiesFeed(tradewake, filter, String(place)));
}

/** @param {Exchange} exchange */
async function streamSamples(exchange) {
  const filter = read('SampleFilter', fieldsOf(exchange.query, [], ['exclude_warm_up', 'exclude_held']));
  await stream(exchange, samplesFeed(tradewake, filter));
}

/** @type {[string, RegExp, (exchange: Exchange) => Promise<Reply | void>][]} */
const routes = [
  ['POST', /^\/trades$/, postTrade],
  ['GET', /^\/copies$/, listCopies],
  ['GET', /^\/copies\/stream$/, streamCopies],
  ['GET', /^\/copies\/([^/]+)$/, getCopy],
  ['PATCH', /^\/followers\/([^/]+)$/, patchFollower],
  ['POST', /^\/halt$/, halt],
  ['POST', /^\/resume$/, resume],
  ['GET', /^\/samples$/, streamSamples],
];

/** @param {string} text */
function timeoutOf(text) {
  const ms = Number(text);
  if (Number.isInteger(ms) && ms >= 1 && ms <= TIMEOUT_MS_MAX) return ms;
  throw new Refusal('timeout_ms', `is "${text}", expected 1 to ${TIMEOUT_MS_MAX}`);
}

/** @param {Request} request @param {Response} response */
async function answer(request, response) {
  const url = new URL(request.url ?? '/', 'http://backend');
  const query = url.searchParams;
  const deadline = Date.now() + timeoutOf(query.get('timeout_ms') ?? String(TIMEOUT_MS_DEFAULT));
  query.delete('timeout_ms');
  for (const [method, pattern, handle] of routes) {
    const match = pattern.exec(url.pathname);
    if (match && method === request.method)
      return handle({ request, response, query, id: decodeURIComponent(match[1] ?? ''), deadline });
  }
  throw new Refusal('', `there is no ${request.method} ${url.pathname} here`, { code: 'NOT_FOUND', reason: 'NOT_FOUND' });
}

/** @param {Response} response @param {number} status @param {unknown} body @param {Record<string, string>} [headers] */
function send(response, status, body, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...headers });
  response.end(JSON.stringify(body) + '\n');
}

const server = createServer(async (request, response) => {
  try {
    const reply = await answer(request, response);
    if (reply) send(response, reply.status ?? 200, reply.body);
  } catch (error) {
    const problem = problemOf(error);
    const { status, headers } = httpOf(error, problem);
    if (status === 500) log('request.failed', { path: request.url, error: /** @type {Error} */ (error)?.stack });
    if (response.headersSent) response.destroy();
    else send(response, status, { error: problem, .../** @type {any} */ (error)?.beside }, headers);
  }
});

/** What has been asked is still answered; the live streams end, their readers find the next backend. */
function stop() {
  log('backend.stopping', { readers: readers.size });
  server.close(() => tradewake.close());
  readers.forEach((reader) => reader.abort());
  server.closeIdleConnections();
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);

server.on('error', (error) => {
  console.error(`backend: ${listen}: ${error.message}`);
  process.exit(1);
});
server.listen(Number(port), host, () => {
  const here = /** @type {import('node:net').AddressInfo} */ (server.address());
  log('backend.listening', { http: `${here.address}:${here.port}`, tradewake: address });
  // Only said: it may come later, and is found when it does.
  tradewake.events.waitForReady(Date.now() + READY_MS, (error) => {
    if (error && server.listening) log('tradewake.silent', { address, do: 'start it, or name it with --server' });
  });
});
