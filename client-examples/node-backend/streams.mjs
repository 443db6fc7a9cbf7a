// streams.mjs - Tradewake's two live streams as server-sent events.
//
// A browser's EventSource comes back by itself and tells the last id it saw. An id of ours is a place in
// the journal, "<journal_id>:<change_id>", so nothing is lost over a reconnect; samples have no ids, a
// reader that was away has missed them. When Tradewake is away the SSE connection stays (an EventSource
// gives up for good on a 503): "interrupted" is told, and the stream goes on where it was.
//
//   started      {resumed, ...}   a stream began; resumed false: forget what is shown, all of it comes now
//   copies       [copy, ...]      the highest change_id per copy_id is the truth
//   caught_up    {}               what was there before is complete
//   samples      [sample, ...]
//   dropped      {count}          the reader was too slow; copies are fetched again, samples are gone
//   heartbeat    {}               the place moved on, though nothing matched
//   reset        problem          the place is not in this journal any more: it starts anew
//   interrupted  problem          Tradewake does not answer; we go on asking
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { problemOf } from './problem.mjs';
import { backoff, iso } from './tradewake.mjs';

/** @typedef {import('node:http').ServerResponse} Response */
/** @typedef {import('./generated/tradewake/v1/WatchCopiesResponse').WatchCopiesResponse__Output} CopiesMessage */
/** @typedef {import('./generated/tradewake/v1/WatchOwnTimeResponse').WatchOwnTimeResponse__Output} SamplesMessage */
/** @typedef {import('./generated/tradewake/v1/Copy').Copy__Output} Copy */
/** @typedef {{event: string, data: unknown, id?: string}} Told */
/**
 * One kind of stream. tell: what a message says to the reader; reopen is set when it has to be asked
 * for again from the place it now has. start anew: the place is no use any more.
 * @template Message
 * @typedef {{open: () => grpc.ClientReadableStream<Message>, tell: (message: Message) => Told[],
 *            reopen: boolean, startAnew: () => void}} Feed
 */

const HEARTBEAT_S = 15;
/** The reader's place is gone, not the stream. */
const PLACE_IS_GONE = new Set(['RESUME_OTHER_JOURNAL', 'RESUME_TOO_OLD']);

/** @param {Copy} copy */
export const copyJson = (copy) => ({ ...copy, received_at: iso(copy.received_at), updated_at: iso(copy.updated_at) });

/**
 * Every change of the copies that match, from where `last_event_id` left off.
 * @param {import('./tradewake.mjs').Tradewake} tradewake
 * @param {import('./generated/tradewake/v1/CopyFilter').CopyFilter} filter
 * @param {string} last_event_id
 * @returns {Feed<CopiesMessage>}
 */
export function copiesFeed(tradewake, filter, last_event_id) {
  const [, journal = '', change = '0'] = /^([^:]+):(\d+)$/.exec(last_event_id) ?? [];
  let place = { journal_id: journal, change_id: Number(change) };
  let is_complete = false; // until then a place would skip what has not come yet
  const id = () => (is_complete && place.change_id > 0 ? `${place.journal_id}:${place.change_id}` : undefined);

  /** @type {Feed<CopiesMessage>} */
  const feed = {
    reopen: false,
    open() {
      feed.reopen = false;
      const resumes = place.change_id > 0;
      return tradewake.copies.WatchCopies({
        filter, include_existing: !resumes, resume_after: place.change_id,
        journal_id: resumes ? place.journal_id : '', heartbeat_interval: { seconds: HEARTBEAT_S },
      });
    },
    startAnew() { place = { journal_id: '', change_id: 0 }; },
    tell(message) {
      switch (message.payload) {
        case 'started': {
          const started = /** @type {NonNullable<CopiesMessage['started']>} */ (message.started);
          is_complete = place.change_id > 0;
          place.journal_id = started.journal_id;
          return [{ event: 'started', data: { resumed: is_complete, instance_id: started.instance_id } }];
        }
        case 'batch': {
          const copies = message.batch?.copies ?? [];
          if (is_complete) place.change_id = Math.max(place.change_id, ...copies.map(({ change_id }) => change_id));
          return [{ event: 'copies', data: copies.map(copyJson), id: id() }];
        }
        case 'caught_up':
          is_complete = true;
          place.change_id = message.caught_up?.last_change_id ?? 0;
          return [{ event: 'caught_up', data: {}, id: id() }];
        case 'heartbeat':
          if (is_complete) place.change_id = Math.max(place.change_id, message.heartbeat?.last_change_id ?? 0);
          return [{ ...HEARTBEAT, id: id() }];
        case 'dropped':
          feed.reopen = true;
          place.change_id = is_complete ? message.dropped?.resume_after ?? 0 : 0;
          return [{ event: 'dropped', data: { count: message.dropped?.count } }];
        default: return []; // a newer server says more than we know
      }
    },
  };
  return feed;
}

/**
 * One sample per copy, as it is measured.
 * @param {import('./tradewake.mjs').Tradewake} tradewake
 * @param {import('./generated/tradewake/v1/SampleFilter').SampleFilter} filter
 * @returns {Feed<SamplesMessage>}
 */
export function samplesFeed(tradewake, filter) {
  return {
    reopen: false,
    open: () => tradewake.metrics.WatchOwnTime({ filter, max_delay: { nanos: 50e6 } }),
    startAnew() {},
    tell(message) {
      switch (message.payload) {
        case 'started': return [{ event: 'started', data: { resumed: false, instance_id: message.started?.instance_id } }];
        case 'batch': return [{ event: 'samples', data: message.batch?.samples.map(
          (sample) => ({ ...sample, received_at: iso(sample.received_at) })) }];
        case 'heartbeat': return [HEARTBEAT];
        case 'dropped': return [{ event: 'dropped', data: { count: message.dropped?.count } }];
        default: return [];
      }
    },
  };
}

/** @type {Told} */
const HEARTBEAT = { event: 'heartbeat', data: {} };

/** Writes one event, and waits while the reader does not read: so the server sees a slow reader, and
 *  drops or merges for it alone. @param {Response} response @param {Told} told */
async function write(response, { event, data, id }) {
  const text = event === 'heartbeat' && id === undefined ? ': heartbeat\n\n'
    : `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
  if (!response.write(text) && !response.destroyed)
    await Promise.race([once(response, 'drain'), once(response, 'close')]);
}

/**
 * One stream of Tradewake's into the response, until it ends or breaks.
 * @template Message
 * @param {Response} response @param {Feed<Message>} feed @param {AbortSignal} gone @param {() => void} begin
 */
async function pump(response, feed, gone, begin) {
  const stream = feed.open();
  const cancel = () => stream.cancel();
  stream.on('error', () => {}); // the CANCELLED that we ask for, after the loop below is over
  gone.addEventListener('abort', cancel);
  try {
    for await (const message of stream) {
      begin();
      for (const told of feed.tell(message)) await write(response, told);
      if (feed.reopen || gone.aborted) return;
    }
  } finally {
    gone.removeEventListener('abort', cancel);
    cancel();
  }
}

/**
 * Streams until the reader goes away. Rejects when the very first try is refused for good: nothing has
 * been written then, and the refusal can be an ordinary answer.
 * @template Message
 * @param {Response} response @param {Feed<Message>} feed @param {AbortSignal} gone
 */
export async function relay(response, feed, gone) {
  let attempt = 0;
  const begin = () => {
    attempt = 0;
    if (response.headersSent) return;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache, no-transform',
                              'x-accel-buffering': 'no' });
    response.write('retry: 1000\n\n');
  };
  while (!gone.aborted) {
    try {
      await pump(response, feed, gone, begin);
      if (!feed.reopen && !gone.aborted) await sleep(backoff(++attempt)); // ended with OK: nothing is wrong
    } catch (caught) {
      if (gone.aborted) break;
      const problem = problemOf(caught);
      const is_away = problem.code === 'UNAVAILABLE';
      if (PLACE_IS_GONE.has(problem.reason ?? '')) {
        begin();
        feed.startAnew();
        await write(response, { event: 'reset', data: problem, id: '' }); // "": the reader forgets its id, too
        continue;
      }
      if (!response.headersSent && !is_away) throw caught;
      const is_news = attempt === 0;
      if (!response.headersSent) begin();
      await write(response, is_news ? { event: 'interrupted', data: problem } : HEARTBEAT);
      await sleep(problem.retry_after_ms ?? backoff(++attempt), undefined, { signal: gone }).catch(() => {});
    }
  }
  response.end();
}
