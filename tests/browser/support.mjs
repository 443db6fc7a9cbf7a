// support.mjs - a server and a bridge for the checks; both are ended by their own process id.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
export const DASHBOARD = join(ROOT, 'client-examples/dashboard');
export const required = createRequire(join(DASHBOARD, 'package.json'));
export const WITHIN_MS = 60_000; // for whatever a check waits for; a slow machine is no fault

export const run = promisify(execFile);

/** Asks until `holds` answers something true. */
export async function until(what, holds) {
  const end = Date.now() + WITHIN_MS;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${WITHIN_MS / 1000} s: ${what}`);
    await sleep(100);
  }
}

/** Below the ports that the kernel gives to clients, so that it is still free when the server comes back. */
async function freePort() {
  for (;;) {
    const port = 20000 + Math.floor(Math.random() * 10000);
    const probe = createServer();
    const is_free = await new Promise((resolve) => probe.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)));
    if (is_free) { probe.close(); await once(probe, 'close'); return port; }
  }
}

class Program {
  process = null;
  output = '';

  begin(file, words, options = {}) {
    this.output = '';
    this.process = spawn(file, words, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on('data', (text) => { this.output += text; });
  }

  signal(name) { this.process?.kill(name); }

  async end(name = 'SIGKILL') {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.signal(name);
    this.signal('SIGCONT');
    await ended;
  }

  async said(pattern) {
    const found = await until(`"${pattern}" in what ${this.process.spawnargs[0]} says:\n${this.output}`, () => {
      if (this.process.exitCode !== null) throw new Error(`it ended: ${this.output}`);
      return pattern.exec(this.output);
    });
    return found[1];
  }
}

/** `tradewake dev` at one address and with one state directory for all its lives. */
export class Server extends Program {
  folder = mkdtempSync(join(tmpdir(), 'tradewake-browser-'));

  constructor(program) { super(); this.program = program; }

  async start() {
    this.listen ??= `127.0.0.1:${await freePort()}`;
    this.admin ??= `127.0.0.1:${await freePort()}`;
    this.begin(this.program, ['dev', '--listen', this.listen, '--admin', this.admin, '--state-dir', join(this.folder, 'state')]);
    await this.said(/(server\.listening)/);
    await run(this.program, ['health', '--service', 'readiness', '--wait', '60s', '--server', this.listen]);
  }

  async tradewake(...words) { return (await run(this.program, [...words, '--server', this.listen])).stdout; }

  burst() { return run('node', [join(ROOT, 'client-examples/burst/burst.mjs'), '--server', this.listen]); }

  async close() { await this.end(); rmSync(this.folder, { recursive: true, force: true }); }
}

export class Bridge extends Program {
  async start(server) {
    this.begin('node', [join(DASHBOARD, 'dashboard.mjs'), '--server', server.listen, '--admin', server.admin, '--listen', '127.0.0.1:0']);
    this.url = await this.said(/(http:\S+)/);
  }
}

/** `tradewake dev --dashboard`: server and page with one command. */
export class Both extends Program {
  start(program, environment = {}) {
    this.begin(program, ['dev', '--dashboard', '--dashboard-listen', '127.0.0.1:0', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'],
      { env: { ...process.env, ...environment } });
  }

  /** How it ended, when nobody told it to. */
  async code() { return this.process.exitCode ?? (await once(this.process, 'exit'))[0]; }
}

export class Checks {
  passed = 0;
  failed = 0;

  /** One check: what it does must come to its end. */
  async that(name, does) {
    const from = Date.now();
    try {
      await does();
      this.passed++;
      console.log(`ok   ${name} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
    } catch (error) {
      this.failed++;
      console.log(`FAIL ${name}: ${error.message}`);
    }
  }

  close() {
    console.log(`${this.passed} passed, ${this.failed} failed`);
    return this.failed ? 1 : 0;
  }
}
