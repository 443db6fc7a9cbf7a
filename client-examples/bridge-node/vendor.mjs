// vendor.mjs - a broker, as its SDK for Node would look: promises, numbered errors, events. Simulated; yours takes its
// place. Its ledger is a file of one JSON object a line, the broker's own truth: it stays when this process is killed.
import fs from 'node:fs';

const E8 = 100000000n;

/** Decimals as whole numbers of 1e-8: never floating point. @param {string} text */
export const units = (text) => {
  const [, sign, whole, part = ''] = /^(-?)(\d+)(?:\.(\d{1,8}))?$/.exec(text) ?? [];
  if (whole === undefined) throw new Refused(131, `"${text}" is no number`);
  const value = BigInt(whole) * E8 + BigInt(part.padEnd(8, '0'));
  return sign ? -value : value;
};
/** @param {bigint} value */
export const text = (value) => {
  const digits = (value < 0n ? -value : value).toString().padStart(9, '0');
  const part = digits.slice(-8).replace(/0+$/, '');
  return (value < 0n ? '-' : '') + digits.slice(0, -8) + (part && `.${part}`);
};

const pair = (tick, largest, contract, base, profit, bid, ask) => ({
  tick_size: tick, min_volume: '0.01', volume_step: '0.01', max_volume: largest, contract_size: contract,
  base_currency: base, profit_currency: profit, bid, ask });
export const SYMBOLS = {
  EURUSD: pair('0.00001', '100', '100000', 'EUR', 'USD', '1.10000', '1.10020'),
  GBPUSD: pair('0.00001', '100', '100000', 'GBP', 'USD', '1.27000', '1.27020'),
  USDJPY: pair('0.001', '100', '100000', 'USD', 'JPY', '150.000', '150.020'),
  XAUUSD: pair('0.01', '50', '100', 'XAU', 'USD', '2400.00', '2400.30'),
};

export const CODE = { NO_CHANGE: 10025, NO_MONEY: 10019, BAD_VOLUME: 10014, BAD_SYMBOL: 10013, GONE: 10036, BUSY: 10024 };

/** The broker's own word that nothing was done. */
export class Refused extends Error {
  constructor(code, words) { super(words); this.code = code; }
}
/** Nobody knows whether it was done. */
export class NoAnswer extends Error {}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A file of JSON lines, read at the start; a line that was cut was never written. */
export class Lines {
  constructor(path, take) {
    this.file = fs.openSync(path, 'a+', 0o600);
    const lines = fs.readFileSync(path, 'utf8').split('\n');
    if (lines.pop() !== '') fs.writeSync(this.file, '\n');
    for (const line of lines) {
      try { take(JSON.parse(line)); } catch (error) { if (!(error instanceof SyntaxError)) throw error; }
    }
  }

  write(entry) { fs.writeSync(this.file, JSON.stringify(entry) + '\n'); }
}

export class Broker {
  constructor(path) {
    this.accounts = new Map();
    this.lastTicket = 1000;
    this.ledger = new Lines(path, (entry) => this.#apply(entry));
  }

  account(name) {
    if (!this.accounts.has(name)) this.accounts.set(name, new Account(this, name));
    return this.accounts.get(name);
  }

  ticket() { return String(++this.lastTicket); }

  /** Done is what is in the file. */
  commit(entry) {
    this.ledger.write(entry);
    this.#apply(entry);
  }

  #apply({ account: name, gone = [], positions = [], orders = [], tag, deal }) {
    const account = this.account(name);
    for (const ticket of gone) {
      account.positions.delete(ticket);
      account.orders.delete(ticket);
    }
    for (const position of positions) account.positions.set(position.ticket, position);
    for (const order of orders) account.orders.set(order.ticket, order);
    account.deals.set(tag, [...(account.deals.get(tag) ?? []), deal]);
    this.lastTicket = Math.max(this.lastTicket, ...[...positions, ...orders].map((one) => Number(one.ticket)));
  }
}

class Account {
  constructor(broker, name) {
    Object.assign(this, { broker, name, positions: new Map(), orders: new Map(), deals: new Map() });
    this.onChange = this.onLine = () => {};
    this.setUp({});
  }

  /** faults: "open#1=no_money,close#2=no_answer": what the N-th call of an operation meets. */
  setUp({ latency = '1', faults = '' }) {
    this.latency = Number(latency);
    this.calls = new Map();
    this.faults = new Map(faults.split(',').filter(Boolean).map((rule) => rule.split('=')));
  }

  state() { return { currency: 'USD', balance: '10000', equity: '10000', free_margin: '10000', leverage: 100 }; }

  find(tag) { return this.deals.get(tag) ?? []; }

  // ---- Orders.

  open({ symbol, side, volume, tag, stop_loss, take_profit }) {
    return this.#call('open', () => {
      const price = this.#price(symbol, side);
      this.#checkVolume(symbol, volume);
      const position = { ticket: this.broker.ticket(), symbol, side, volume, price, stop_loss: stop_loss || '0',
        take_profit: take_profit || '0', tag, at: Date.now() };
      return this.#commit({ positions: [position] }, tag, { ticket: position.ticket, volume, price }, position, false);
    });
  }

  /** The ticket stays with the rest, as MT5's does. */
  close({ ticket, volume, tag }) {
    return this.#call('close', () => {
      const position = this.#position(ticket);
      const held = units(position.volume);
      const part = volume && units(volume) < held ? units(volume) : held;
      const price = this.#price(position.symbol, position.side === 'SIDE_BUY' ? 'SIDE_SELL' : 'SIDE_BUY');
      const left = { ...position, volume: text(held - part) };
      const deal = { ticket, volume: text(part), price, rest: left.volume };
      const isGone = part === held;
      return this.#commit(isGone ? { gone: [ticket] } : { positions: [left] }, tag, deal, left, isGone);
    });
  }

  modify({ ticket, stop_loss, take_profit, tag }) {
    return this.#call('modify', () => {
      const position = this.#position(ticket);
      const changed = { ...position, stop_loss: stop_loss || position.stop_loss, take_profit: take_profit || position.take_profit };
      if (['stop_loss', 'take_profit'].every((key) => units(changed[key]) === units(position[key]))) {
        throw new Refused(CODE.NO_CHANGE, 'no change');
      }
      return this.#commit({ positions: [changed] }, tag, { ticket, volume: '0', price: '0' }, changed, false);
    });
  }

  place(order) {
    return this.#call('place', () => {
      this.#price(order.symbol, order.side);
      this.#checkVolume(order.symbol, order.volume);
      const placed = { ...order, ticket: this.broker.ticket(), stop_loss: order.stop_loss || '0',
        take_profit: order.take_profit || '0' };
      return this.#commit({ orders: [placed] }, order.tag, { order: placed.ticket, volume: '0', price: '0' });
    });
  }

  modifyOrder({ ticket, tag, ...changes }) {
    return this.#call('modify', () => {
      const order = this.#order(ticket);
      const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== '' && value !== undefined));
      const changed = { ...order, ...given };
      if (JSON.stringify(changed) === JSON.stringify(order)) throw new Refused(CODE.NO_CHANGE, 'no change');
      return this.#commit({ orders: [changed] }, tag, { order: ticket, volume: '0', price: '0' });
    });
  }

  cancel({ ticket, tag }) {
    return this.#call('cancel', () => {
      this.#order(ticket);
      return this.#commit({ gone: [ticket] }, tag, { order: ticket, volume: '0', price: '0' });
    });
  }

  // ---- What they share.

  async #call(operation, act) {
    const number = (this.calls.get(operation) ?? 0) + 1;
    this.calls.set(operation, number);
    const fault = this.faults.get(`${operation}#${number}`);
    await sleep(this.latency / 2);
    if (fault === 'no_money') throw new Refused(CODE.NO_MONEY, 'not enough money');
    if (fault === 'busy') throw new Refused(CODE.BUSY, 'too many requests');
    if (fault === 'lost') {
      await sleep(400);
      throw new NoAnswer();
    }
    const deal = act();
    if (fault === 'no_answer') {
      await sleep(400);
      throw new NoAnswer();
    }
    if (fault === 'line') {
      this.onLine(false, 'the broker hung up');
      setTimeout(() => this.onLine(true, ''), 100);
      throw new NoAnswer();
    }
    await sleep(this.latency / 2);
    return deal;
  }

  #commit(entry, tag, deal, position, isGone) {
    this.broker.commit({ ...entry, account: this.name, tag, deal });
    if (position) this.onChange(position, isGone);
    return deal;
  }

  #price(symbol, side) {
    if (!Object.hasOwn(SYMBOLS, symbol)) throw new Refused(CODE.BAD_SYMBOL, 'unknown symbol');
    return SYMBOLS[symbol][side === 'SIDE_BUY' ? 'ask' : 'bid'];
  }

  #checkVolume(symbol, volume) {
    const { min_volume: smallest, volume_step: step } = SYMBOLS[symbol];
    if (units(volume) < units(smallest) || units(volume) % units(step) !== 0n) throw new Refused(CODE.BAD_VOLUME, 'invalid volume');
  }

  #position(ticket) {
    if (!this.positions.has(ticket)) throw new Refused(CODE.GONE, 'position closed');
    return this.positions.get(ticket);
  }

  #order(ticket) {
    if (!this.orders.has(ticket)) throw new Refused(CODE.GONE, 'no such order');
    return this.orders.get(ticket);
  }
}
