// page_memory.mjs URL - opens the dashboard in Debian's Chromium and says every two seconds, as a line of JSON, what the page
// holds after its garbage was collected: {heap, nodes, listeners}. Until it is told to end. tests/blackbox/watched.py reads it.
import { setTimeout as sleep } from 'node:timers/promises';
import { required } from './support.mjs';

const { chromium } = required('playwright-core');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
process.once('SIGTERM', async () => { await browser.close(); process.exit(0); });
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
const devtools = await page.context().newCDPSession(page);
await devtools.send('Performance.enable');
await page.goto(process.argv[2]);
await page.locator('#link[data-state="live"]').waitFor({ timeout: 60_000 });
for (;;) {
  await devtools.send('HeapProfiler.collectGarbage');
  const { metrics } = await devtools.send('Performance.getMetrics');
  const of = (name) => metrics.find((metric) => metric.name === name).value;
  console.log(JSON.stringify({ heap: of('JSHeapUsedSize'), nodes: of('Nodes'), listeners: of('JSEventListeners') }));
  await sleep(2000);
}
