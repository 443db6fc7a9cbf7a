// dashboard.mjs - the bridge: a browser on one side, Tradewake's gRPC on the other.
//
//     node dashboard.mjs [--server ADDR:PORT] [--admin ADDR:PORT] [--listen ADDR:PORT]
//
// A browser gets the newest value of each topic (upstream.mjs) as server-sent events. One that reads slowly has at
// most one value of each topic waiting: the newest replaces what has not been sent. It asks nobody who he is, so it
// listens on this machine alone, and takes orders (halt, resume) from its own page only.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Upstream } from './upstream.mjs';

const BROWSERS_MAX = 64;
const BODY_BYTES_MAX = 4096;
const PING_MS = 15_000;
const HTTP_OF = { 3: 400, 5: 404, 7: 403, 8: 429, 9: 409, 16: 401 }; // gRPC's codes; others are 502

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const FILES = {
  '/': 'page/index.html', '/style.css': 'page/style.css', '/icon.svg': 'page/icon.svg',
  ...Object.fromEntries(['app', 'charts', 'copies', 'dialog', 'followers', 'format', 'histogram']
    .map((name) => [`/${name}.mjs`, `page/${name}.mjs`])),
  '/uplot.mjs': 'node_modules/uplot/dist/uPlot.esm.js', '/uplot.css': 'node_modules/uplot/dist/uPlot.min.css',
};
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.mjs': 'text/javascript', '.js': 'text/javascript', '.svg': 'image/svg+xml' };

function optionsRead() {
  try {
    return parseArgs({ options: {
      server: { type: 'string', default: process.env.TRADEWAKE_SERVER ?? '127.0.0.1:50051' },
      admin: { type: 'string', default: process.env.TRADEWAKE_ADMIN ?? '127.0.0.1:9464' },
      listen: { type: 'string', default: process.env.LISTEN ?? '127.0.0.1:8090' },
    } }).values;
  } catch (error) {
    console.error(`dashboard: ${error.message}\nnode dashboard.mjs [--server ADDR:PORT] [--admin ADDR:PORT, or '' for none] [--listen ADDR:PORT]`);
    return process.exit(2);
  }
}

const options = optionsRead();
const upstream = new Upstream(options);
let browsers = 0;

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/** The newest of each topic, until the browser goes away. */
function events(request, response) {
  if (browsers >= BROWSERS_MAX) throw new Refused(503, `${BROWSERS_MAX} browsers are looking already`);
  browsers++;
  const waiting = new Map(); // topic -> text, one each
  let is_full = false;
  const flush = () => {
    while (!is_full && waiting.size > 0) {
      const [topic, text] = waiting.entries().next().value;
      waiting.delete(topic);
      is_full = !response.write(text);
    }
  };
  const tell = (topic) => {
    waiting.delete(topic);
    waiting.set(topic, `event: ${topic}\ndata: ${JSON.stringify(upstream.board.get(topic))}\n\n`);
    flush();
  };
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' });
  response.write('retry: 1000\n\n');
  response.on('drain', () => { is_full = false; flush(); });
  for (const topic of upstream.board.keys()) tell(topic);
  const leave = upstream.listen(tell);
  const ping = setInterval(() => { if (!is_full) is_full = !response.write(': still here\n\n'); }, PING_MS);
  response.on('close', () => { clearInterval(ping); leave(); browsers--; });
}

/** Only our own page may give orders: another site's page can neither send JSON here unasked nor fake its origin. */
function isOurPage(request) {
  const { origin, host } = request.headers;
  return origin === `http://${host}` && /^application\/json\b/.test(request.headers['content-type'] ?? '');
}

async function bodyOf(request) {
  let text = '';
  for await (const piece of request.setEncoding('utf8')) {
    text += piece;
    if (text.length > BODY_BYTES_MAX) throw new Refused(413, `more than ${BODY_BYTES_MAX} bytes`);
  }
  try { return JSON.parse(text); } catch { throw new Refused(400, 'the body is no JSON'); }
}

const SCOPE = { follower_id: 'string', master_id: 'string', everything: 'boolean' };
const ORDERS = { '/api/halt': ['Halt', { ...SCOPE, close_positions: 'boolean', note: 'string' }], '/api/resume': ['Resume', SCOPE] };

async function order(path, request) {
  if (!isOurPage(request)) throw new Refused(403, 'only this dashboard\'s own page may do that');
  const [method, fields] = ORDERS[path];
  const body = await bodyOf(request);
  for (const [name, value] of Object.entries(body ?? {}))
    if (typeof value !== fields[name]) throw new Refused(400, `${name}: not a field of ${method}, or of another type`);
  return upstream.call('followers', method, body);
}

function copies(query) {
  const list = (name) => query.getAll(name).filter(Boolean);
  return upstream.copies(
    { follower_id: query.get('follower') ?? '', event_id: query.get('event') ?? '', states: list('state'), reasons: list('reason') },
    { page_token: query.get('page_token') ?? '', slowest_first: query.get('slowest') === '1' });
}

async function answer(request, url) {
  const { pathname: path, searchParams: query } = url;
  if (request.method === 'POST' && path in ORDERS) return order(path, request);
  if (request.method !== 'GET') throw new Refused(405, `${request.method} ${path}`);
  if (path === '/api/history') return upstream.ticks;
  if (path === '/api/copies') return copies(query);
  if (path.startsWith('/api/copies/')) return upstream.copy(decodeURIComponent(path.slice('/api/copies/'.length)));
  if (path === '/api/explain') {
    const [master_id, event_id, follower_id] = ['master', 'event', 'follower'].map((name) => query.get(name) ?? '');
    return upstream.explain({ master_id, event_id, follower_id });
  }
  if (path === '/healthz') return { link: upstream.board.get('link')?.state ?? 'connecting', browsers };
  throw new Refused(404, path);
}

async function file(path, response) {
  const name = FILES[path];
  response.writeHead(200, { 'content-type': `${TYPES[extname(name)]}; charset=utf-8`, 'cache-control': 'no-cache',
    'content-security-policy': "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" });
  response.end(await readFile(here(name)));
}

function json(response, status, value) {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(value));
}

/** A name that an attacker's DNS turned into our address is not one of ours. */
function isOurHost(host) {
  const name = (host ?? '').replace(/:\d+$/, '');
  return /^(127\.\d+\.\d+\.\d+|localhost|\[::1\])$/.test(name) || name === options.listen.replace(/:\d+$/, '');
}

const server = createServer(async (request, response) => {
  response.setHeader('x-content-type-options', 'nosniff');
  try {
    const url = new URL(request.url, 'http://dashboard');
    if (!isOurHost(request.headers.host)) throw new Refused(421, `not known here as ${request.headers.host}`);
    if (request.method === 'GET' && Object.hasOwn(FILES, url.pathname)) await file(url.pathname, response);
    else if (request.method === 'GET' && url.pathname === '/events') events(request, response);
    else json(response, 200, await answer(request, url));
  } catch (error) {
    if (response.headersSent) return void response.destroy();
    json(response, error.status ?? HTTP_OF[error.code] ?? 502, { error: error.details || error.message });
  }
});

const [, listen_host, listen_port] = /^(.*):(\d+)$/.exec(options.listen) ?? [];
if (listen_port === undefined) {
  console.error(`dashboard: --listen is "${options.listen}", expected ADDR:PORT`);
  process.exit(2);
}
server.on('error', (error) => {
  console.error(`dashboard: ${options.listen}: ${error.message}; another place: --listen 127.0.0.1:0`);
  process.exit(1);
});
server.listen(Number(listen_port), listen_host.replace(/^\[|\]$/g, ''), () => {
  upstream.start();
  const { address, port, family } = server.address();
  console.log(`dashboard: http://${family === 'IPv6' ? `[${address}]` : address}:${port}/ shows ${options.server}`);
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    upstream.close();
    server.close(() => process.exit(0));
    server.closeAllConnections();
  });
}
