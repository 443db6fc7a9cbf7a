// browser.mjs - what a person sees and does, in a real Chromium: see `run`.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Both, Bridge, Checks, ROOT, Server, WITHIN_MS, required, until } from './support.mjs';

const { values: options } = parseArgs({ options: {
  program: { type: 'string', default: join(ROOT, 'build/release/tradewake') }, screenshots: { type: 'string' } } });
const { chromium } = required('playwright-core');

const checks = new Checks(), server = new Server(options.program), bridge = new Bridge(), both = new Both();
let browser;

const link = (page, state) => page.locator(`#link[data-state="${state}"]`).waitFor({ timeout: WITHIN_MS });
const text = (page, selector) => page.locator(selector).innerText();

async function picture(page, name) {
  if (!options.screenshots) return;
  mkdirSync(options.screenshots, { recursive: true });
  await page.mouse.move(0, 0);
  if (!name.includes('explained')) await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(options.screenshots, `${name}.png`), fullPage: !name.includes('explained') });
}

/** axe-core's findings that are serious or worse, as text. */
async function axe(page) {
  await page.evaluate(required('axe-core').source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 120)).join(' | ')}`);
}

/** Raw, because fetch() may not name another host or origin. */
function ask(method, path, headers, body = '') {
  const { hostname, port } = new URL(bridge.url);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers }, (response) => { response.resume(); resolve(response.statusCode); });
    sent.on('error', reject).end(body);
  });
}

/** One command for server and page; both end together, and what is missing is said before anything starts. */
async function together(page) {
  await checks.that('`tradewake dev --dashboard` says where the page is, and the page is live', async () => {
    both.start(options.program);
    await page.goto(await both.said(/dashboard: (http:\S+)/));
    await link(page, 'live');
    await page.locator('#followers tbody tr').nth(29).waitFor({ timeout: WITHIN_MS });
    const bridge_pid = Number(/dashboard\.started process=(\d+)/.exec(both.output)[1]);
    await both.end('SIGTERM');
    assert.throws(() => process.kill(bridge_pid, 0), { code: 'ESRCH' }, 'the bridge has outlived its server');
  });
  await checks.that('without Node, and without the packages, it says what to do and starts nothing', async () => {
    both.start(options.program, { PATH: '/nonexistent' });
    assert.equal(await both.code(), 1);
    assert.match(both.output, /Node is not here.*apt-get install nodejs npm/);
    const bare = mkdtempSync(join(tmpdir(), 'tradewake-bare-'));
    writeFileSync(join(bare, 'dashboard.mjs'), '');
    both.start(options.program, { TRADEWAKE_DASHBOARD: bare });
    const code = await both.code();
    rmSync(bare, { recursive: true });
    assert.equal(code, 1);
    assert.match(both.output, /packages are not here; once: \(cd \S+ && npm ci --omit=dev --ignore-scripts\)/);
    assert.doesNotMatch(both.output, /server\.listening/);
  });
}

async function prove(page, errors) {
  await checks.that('the page loads, is live and shows the fleet at rest', async () => {
    await page.goto(bridge.url);
    await link(page, 'live');
    await page.locator('#followers tbody tr').nth(29).waitFor({ timeout: WITHIN_MS });
    await until('the executor', async () => /threads ready\s+1,024/.test(await text(page, '#executor')));
    await page.locator('#bursts-empty').waitFor();
    await picture(page, 'idle');
  });

  await checks.that('it fills with a burst', async () => {
    await server.burst();
    await until('a burst of some size', async () => (await page.locator('#bursts tbody tr td:nth-child(2)').allInnerTexts())
      .some((cell) => Number(cell.replace(',', '')) >= 810));
    await until('own time', async () => / (µs|ms|s)$/.test(await text(page, '[data-figures="own"] [data-p="p50"]')));
    await until('1620 copies', async () => /DONE\s*1,620/.test(await text(page, '#counts')));
    await until('the stages', async () => (await page.locator('#stages tbody tr').count()) === 5);
    await page.locator('#stair circle[cx]').nth(1).waitFor({ timeout: WITHIN_MS });
    await until('lines with values', async () => /Median .*maximum/.test(await page.locator('#own-chart').getAttribute('aria-label')));
    const has_colour = () => page.locator('#heat').evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(canvas.width / 2, 0, canvas.width / 2, canvas.height * 0.85);
      let filled = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0 && data[i + 1] - data[i] > 40) filled++;
      return filled > 20;
    });
    await until('cells of the heatmap', has_colour);
    await until('the list of copies', async () => (await page.locator('#list tbody tr').count()) === 25);
    await picture(page, 'burst');
  });

  await checks.that('a skipped copy is explained by its arithmetic', async () => {
    await server.tradewake('submit', 'open', '--master', 'M1', '--position', 'small', '--symbol', 'EURUSD', '--side', 'buy', '--volume', '0.001');
    const chip = page.locator('#counts button[data-key="SKIPPED/BELOW_MIN"]');
    await chip.waitFor({ timeout: WITHIN_MS });
    await chip.click();
    await until('only skipped ones', async () => (await page.locator('#list tbody .word').allInnerTexts()).every((word) => word === 'SKIPPED')
      && (await page.locator('#list tbody tr').count()) === 25);
    await page.locator('#list tbody button').first().click();
    await until('the steps', async () => /min_volume/.test(await text(page, '#why-steps')));
    assert.match(await text(page, '.why-message'), /0\.001.*BELOW_MIN/);
    assert.match(await text(page, '#why-steps'), /toward zero to a multiple of the step 0\.01/);
    assert.deepEqual(await axe(page), []);
    await picture(page, 'skipped-explained');
    await page.keyboard.press('Escape');
    await page.locator('#why').waitFor({ state: 'hidden' });
  });

  await checks.that('a follower is halted and resumed by keyboard, and only after it was asked for', async () => {
    const is_halted = async () => JSON.parse(await server.tradewake('followers', 'get', 'F03', '-o', 'json')).halted;
    const button = page.locator('[data-follower="F03"] button');
    await button.focus();
    await page.keyboard.press('Enter');
    await page.locator('#ask').waitFor();
    await page.keyboard.press('Enter'); // the focus is on "Leave it"
    await page.locator('#ask').waitFor({ state: 'hidden' });
    assert.equal(await is_halted(), false);
    await page.keyboard.press('Enter'); // the dialog gave the focus back
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#ask').waitFor({ state: 'hidden', timeout: WITHIN_MS });
    assert.equal(await is_halted(), true);
    await until('the row', async () => /HALTED/.test(await text(page, '[data-follower="F03"]')));
    await until('the halts', async () => /follower F03/.test(await text(page, '#halts')));
    assert.equal(await page.evaluate(() => document.activeElement.closest('tr')?.dataset.follower), 'F03', 'the focus');
    await page.keyboard.press('Enter');
    await page.locator('#ask-yes').click();
    await until('resumed', async () => !(await is_halted()));
    await until('the row', async () => /would be sent/.test(await text(page, '[data-follower="F03"]')));
  });

  await checks.that('an order that does not come from its own page is refused', async () => {
    const host = new URL(bridge.url).host, body = '{"everything":true}', kind = { 'content-type': 'application/json' };
    assert.equal(await ask('POST', '/api/halt', { ...kind, host, origin: 'http://elsewhere.example' }, body), 403);
    assert.equal(await ask('POST', '/api/halt', { host, origin: `http://${host}`, 'content-type': 'text/plain' }, body), 403);
    assert.equal(await ask('POST', '/api/halt', { ...kind, host: 'elsewhere.example', origin: 'http://elsewhere.example' }, body), 421);
    assert.equal(await ask('POST', '/api/halt', { ...kind, host, origin: `http://${host}` }, '{"everything":true,"follower":"F1"}'), 400);
    assert.equal(JSON.parse(await server.tradewake('halts', '-o', 'json')).halts.length, 0);
  });

  for (const theme of ['light', 'dark']) {
    await checks.that(`axe-core finds nothing serious, ${theme}`, async () => {
      if ((await page.locator('html').getAttribute('data-theme')) !== theme) await page.locator('#theme').click();
      assert.deepEqual(await axe(page), []);
      if (theme === 'dark') await picture(page, 'burst-dark');
    });
  }

  await checks.that('nothing runs out of a narrow page', async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await until('the width', () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await picture(page, 'narrow');
    await page.setViewportSize({ width: 1400, height: 900 });
  });

  await checks.that('a server that hangs is told as stale', async () => {
    server.signal('SIGSTOP');
    await link(page, 'stale');
    server.signal('SIGCONT');
    await link(page, 'live');
  });

  await checks.that('a killed server is told as reconnecting, and a new one goes on in the same page', async () => {
    await server.end('SIGKILL');
    await link(page, 'reconnecting');
    await server.start();
    await link(page, 'live');
    const before = await page.locator('#bursts tbody tr').count();
    await server.burst();
    await until('a new burst', async () => (await page.locator('#bursts tbody tr').count()) > before);
  });

  await checks.that('a server that ends in good order is told as drained', async () => {
    const ended = server.end('SIGTERM');
    await link(page, 'drained');
    await ended;
    await server.start();
    await link(page, 'live');
  });

  await together(page);

  await checks.that('the page said no error', async () => assert.deepEqual(errors, []));
}

try {
  if (!existsSync(options.program)) throw new Error(`${options.program} is not built`);
  await server.start();
  await bridge.start(server);
  // In a container root has no other sandbox to give up; the only page it opens is ours.
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, colorScheme: 'light' });
  page.setDefaultTimeout(WITHIN_MS);
  const errors = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) errors.push(message.text()); });
  await prove(page, errors);
} catch (error) {
  await checks.that('it went on to its end', () => { throw error; });
} finally {
  await browser?.close();
  await both.end('SIGTERM');
  await bridge.end('SIGTERM');
  await server.close();
}
process.exitCode = checks.close();
