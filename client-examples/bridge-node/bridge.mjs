#!/usr/bin/env node
// bridge.mjs - a broker behind a bridge, in Node: serves tradewake.adapter.v1.BrokerAdapterService.
//
//     node bridge.mjs --listen unix:/tmp/broker.sock --state /tmp/broker
//
// What a bridge promises, and where it is kept below:
//   each order once    Journal: written down before the vendor is called; a repeat is answered from there
//   never a guess      carryOut(): what the vendor does not answer is AMBIGUOUS, and stays so until it is looked up
//   nothing missed     Updates: numbered; who was away gets what he missed, or is told to take a snapshot
// The vendor is vendor.mjs, simulated: put yours in its place.
import fs from 'node:fs';
import path from 'node:path';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import { Broker, CODE, Lines, NoAnswer, Refused, SYMBOLS } from './vendor.mjs';

const MAX_PARALLEL = 16;   // calls at once that the vendor stands, per account
const SETTLE_MS = 1000;    // so long after an order the vendor's lists may not have it yet
const HEARTBEAT_MS = 1000;
const REMEMBERED = 1000;   // updates, for whoever comes back

// The vendor's numbers, as data. A number that is not here is AMBIGUOUS: nobody knows what was done.
const CODES = {
  [CODE.NO_CHANGE]: ['OUTCOME_NO_CHANGE', 'REASON_UNSPECIFIED'],
  [CODE.NO_MONEY]: ['OUTCOME_REJECTED', 'REASON_NO_MONEY'],
  [CODE.BAD_VOLUME]: ['OUTCOME_REJECTED', 'REASON_INVALID_VOLUME'],
  [CODE.BAD_SYMBOL]: ['OUTCOME_REJECTED', 'REASON_SYMBOL_NOT_FOUND'],
  [CODE.GONE]: ['OUTCOME_NOT_FOUND', 'REASON_ALREADY_CLOSED'],
  [CODE.BUSY]: ['OUTCOME_RETRY_LATER', 'REASON_BUSY'],
};

const { values: options } = parseArgs({ options: {
  listen: { type: 'string', default: '127.0.0.1:50072' }, state: { type: 'string', default: './bridge-state' } } });
const proto = process.env.TRADEWAKE_PROTO ?? fileURLToPath(new URL('../../proto', import.meta.url));
const definition = grpc.loadPackageDefinition(protoLoader.loadSync('tradewake/adapter/v1/broker_adapter.proto', {
  includeDirs: [proto], keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true }));

const duration = (ms) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });
const timestamp = (ms) => duration(ms);
const milliseconds = (at) => at.seconds * 1000 + at.nanos / 1e6;
const status = (outcome, reason = 'REASON_UNSPECIFIED', more = {}) => ({ outcome, reason, ...more });

/** What was asked, before it is done; what was answered, when it is known. A killed bridge knows it again. */
class Journal {
  constructor(file) {
    this.answers = new Map();   // "account id attempt": answer, or null
    this.attempts = new Map();  // "account id": the last
    this.running = new Set();
    this.lines = new Lines(file, ({ key, answer }) => this.#keep(key, answer));
  }

  #keep(key, answer = null) {
    const [account, id, attempt] = key;
    this.answers.set(key.join(' '), answer);
    this.attempts.set(`${account} ${id}`, Math.max(attempt, this.attempts.get(`${account} ${id}`) ?? 0));
  }

  /** True: it is new, and now written down. trace: the W3C traceparent that came with it, for spans of our own; '' = none. */
  begin(key, trace = '') {
    if (this.answers.has(key.join(' '))) return false;
    this.lines.write({ key, trace });
    this.#keep(key);
    this.running.add(key.join(' '));
    return true;
  }

  /** answer null: nobody knows. */
  end(key, answer) {
    if (answer) {
      this.lines.write({ key, answer });
      this.#keep(key, answer);
    }
    this.running.delete(key.join(' '));
  }

  latest(account, id) {
    const attempt = this.attempts.get(`${account} ${id}`);
    const key = `${account} ${id} ${attempt}`;
    return attempt === undefined ? undefined : { isRunning: this.running.has(key), answer: this.answers.get(key) };
  }
}

/** What happened at one account, numbered; a new process is a new epoch. */
class Updates extends EventEmitter {
  epoch = randomUUID();
  last = 0;
  kept = [];

  add(payload) {
    const message = { sequence: ++this.last, at: timestamp(Date.now()), ...payload };
    this.kept = [...this.kept.slice(1 - REMEMBERED), message];
    this.emit('news', message);
  }

  canResume(epoch, after) {
    const oldest = this.kept[0]?.sequence ?? this.last + 1;
    return epoch === this.epoch && oldest - 1 <= after && after <= this.last;
  }
}

fs.mkdirSync(options.state, { recursive: true });
const broker = new Broker(path.join(options.state, 'ledger'));
const journal = new Journal(path.join(options.state, 'journal'));
const sessions = new Map(), updatesOf = new Map();

const positionMessage = (position) => ({ position_id: position.ticket, symbol: position.symbol, side: position.side,
  volume: position.volume, open_price: position.price, stop_loss: position.stop_loss, take_profit: position.take_profit,
  client_order_id: position.tag, opened_at: timestamp(position.at) });
const orderMessage = (order) => ({ order_id: order.ticket, symbol: order.symbol, side: order.side, type: order.kind,
  volume: order.volume, price: order.price, stop_price: order.stop_price, stop_loss: order.stop_loss,
  take_profit: order.take_profit, client_order_id: order.tag,
  expires_at: order.expires_s ? { seconds: order.expires_s, nanos: 0 } : null });
const done = (deal) => ({ status: status('OUTCOME_DONE', undefined, { from_broker: true }), order_id: deal.order ?? '',
  position_id: deal.ticket ?? '', filled_volume: deal.volume, average_price: deal.price, remaining_volume: deal.rest ?? '' });

/** The vendor's promise for an order. */
function call(account, request) {
  const tag = request.client_order_id;
  const { open, close, modify, cancel } = request;
  switch (request.operation) {
    case 'open':
      if (open.type === 'ORDER_TYPE_MARKET') return account.open({ ...open, tag });
      return account.place({ symbol: open.symbol, side: open.side, kind: open.type, volume: open.volume, price: open.price,
        stop_price: open.stop_price, stop_loss: open.stop_loss, take_profit: open.take_profit, tag,
        expires_s: open.expires_at?.seconds ?? 0 });
    case 'close':
      return account.close({ ticket: close.position_id, volume: close.volume, tag });
    case 'modify':
      if (modify.position_id) return account.modify({ ...modify, ticket: modify.position_id, tag });
      return account.modifyOrder({ ticket: modify.order_id, tag, price: modify.price, stop_price: modify.stop_price,
        stop_loss: modify.stop_loss, take_profit: modify.take_profit, expires_s: modify.expires_at?.seconds });
    default:
      return account.cancel({ ticket: cancel.order_id, tag });
  }
}

/** The answer, or null: nobody knows. */
async function carryOut(account, request) {
  try {
    return done(await call(account, request));
  } catch (error) {
    if (error instanceof NoAnswer) return null;
    if (!(error instanceof Refused)) {
      console.error(error);
      return null;
    }
    const row = CODES[error.code];
    return row ? { status: status(...row, { broker_code: error.code, broker_message: error.message, from_broker: true }) } : null;
  }
}

async function execute(session, request, metadata) {
  const key = [session.key, request.client_order_id, request.attempt];
  if (request.deadline && Date.now() >= milliseconds(request.deadline)) {
    return { status: status('OUTCOME_REJECTED', 'REASON_TIMEOUT', { not_sent: true }) };
  }
  if (!journal.begin(key, String(metadata?.get('traceparent')[0] ?? ''))) {
    const answer = journal.answers.get(key.join(' '));
    return { ...(answer ?? { status: status('OUTCOME_AMBIGUOUS') }), repeated_answer: true };
  }
  const answer = await carryOut(session.account, request);
  journal.end(key, answer);
  return answer ?? { status: status('OUTCOME_AMBIGUOUS', 'REASON_TIMEOUT') };
}

function lookup(session, { client_order_id: id }) {
  const answer = (last, authoritative = true) => ({ last, authoritative, as_of: timestamp(Date.now()) });
  const known = journal.latest(session.key, id);
  if (known?.isRunning) return answer({ status: status('OUTCOME_AMBIGUOUS') }, false); // it is on its way
  const deal = session.account.find(id).at(-1);
  if (deal) {
    const last = done(deal);
    if (session.account.orders.has(deal.order)) last.status.outcome = 'OUTCOME_ACCEPTED'; // it works at the broker
    return answer(last);
  }
  return answer(known?.answer ?? { status: status('OUTCOME_NOT_FOUND') });
}

function openSession({ account_key: key, config }) {
  const account = broker.account(key);
  if (!updatesOf.has(key)) updatesOf.set(key, new Updates().setMaxListeners(0));
  const updates = updatesOf.get(key), id = randomUUID();
  sessions.set(id, { id, key, account, updates });
  account.setUp(config);
  account.onChange = (position, closed) => updates.add({ position: { position: positionMessage(position), closed } });
  account.onLine = (connected, why) => updates.add({ connection: { connected, why } });
  return { session_id: id, epoch: updates.epoch, status: status('OUTCOME_DONE'), account: account.state(),
    symbols: Object.keys(SYMBOLS) };
}

/** Nothing happens between the list and its number: there is one thread. */
function snapshot({ account, updates }) {
  const positions = [...account.positions.values()].map(positionMessage), orders = [...account.orders.values()].map(orderMessage);
  return { epoch: updates.epoch, sequence: updates.last, positions, orders, position_count: positions.length,
    order_count: orders.length, account: account.state(), as_of: timestamp(Date.now()) };
}

const refuse = (error) => Object.assign(new Error(error), { code: grpc.status.FAILED_PRECONDITION });
/** @param {(session: any, request: any) => any} act */
const unary = (act) => async ({ request, metadata }, answer) => {
  const session = sessions.get(request.session_id);
  if (session === undefined) return answer(refuse('no such session: OpenSession first'));
  return answer(null, await act(session, request, metadata));
};

const service = {
  GetCapabilities: (_, answer) => answer(null, {
    adapter: 'sample-node', version: '1', hedging: true, partial_close: true, stops_on_open: true, modify_order: true,
    order_types: ['ORDER_TYPE_MARKET', 'ORDER_TYPE_LIMIT', 'ORDER_TYPE_STOP', 'ORDER_TYPE_STOP_LIMIT'],
    times_in_force: ['TIME_IN_FORCE_GTC', 'TIME_IN_FORCE_GTD'], resumable_watch: true, id_strength: 'ID_STRENGTH_JOURNAL',
    client_order_id_max: 64, comment_max: 31, max_parallel: MAX_PARALLEL, not_found_settle: duration(SETTLE_MS),
    heartbeat: duration(HEARTBEAT_MS) }),
  OpenSession: ({ request }, answer) => answer(null, openSession(request)),
  CloseSession: ({ request }, answer) => {
    sessions.get(request.session_id)?.stream?.end();
    sessions.delete(request.session_id);
    answer(null, {});
  },
  GetInstrument: unary((_, { symbol }) => (Object.hasOwn(SYMBOLS, symbol)
    ? { status: status('OUTCOME_DONE'), ...SYMBOLS[symbol] }
    : { status: status('OUTCOME_NOT_FOUND', 'REASON_SYMBOL_NOT_FOUND') })),
  Execute: unary(execute),
  Lookup: unary(lookup),
  Snapshot: unary(snapshot),
  WatchAccount: (stream) => {
    const session = sessions.get(stream.request.session_id);
    if (session === undefined) return stream.destroy(refuse('no such session: OpenSession first'));
    const { updates } = session, { epoch, resume_after: after } = stream.request;
    session.stream = stream;
    if (updates.canResume(epoch, after)) {
      stream.write({ resumed: { epoch: updates.epoch } });
      for (const message of updates.kept.filter((kept) => kept.sequence > after)) stream.write(message);
    } else {
      stream.write({ snapshot_required: { epoch: updates.epoch, why: 'nothing to resume' } });
    }
    const write = (message) => stream.write(message);
    const beat = setInterval(() => stream.write({ heartbeat: { last_sequence: updates.last } }), HEARTBEAT_MS);
    updates.on('news', write);
    for (const end of ['close', 'finish', 'cancelled']) {
      stream.on(end, () => {
        clearInterval(beat);
        updates.off('news', write);
      });
    }
    return undefined;
  },
};

const server = new grpc.Server();
server.addService(definition.tradewake.adapter.v1.BrokerAdapterService.service, service);
if (options.listen.startsWith('unix:')) fs.rmSync(options.listen.slice(5), { force: true });
server.bindAsync(options.listen, grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  const isUnix = options.listen.startsWith('unix:');
  console.log(`listening on ${isUnix ? options.listen : options.listen.replace(/\d+$/, String(port))}`);
});
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(0));
