// mistyped.mjs - what must not pass `npm run check`: each call below has one mistake, named in its comment.
// tests/examples compiles it and wants exactly these errors; the correct call at the end compiles.
import { call, connect, now } from '../tradewake.mjs';

const tradewake = connect('127.0.0.1:50051');
const deadline = Date.now();
const event = { event_id: 'e', master_id: 'M1', observed_at: now() };

// An enum of the contract: SIDE_BYU.
await call(tradewake.events, 'SubmitEvent', { event: { ...event, open: { side: 'SIDE_BYU' } } }, { deadline });
// An enum of the request: WAIT_FOR_DUNE.
await call(tradewake.events, 'SubmitEvent', { event, wait_for: 'WAIT_FOR_DUNE' }, { deadline });
// An entry of a list of enums: COPY_STATE_UNKNOWM.
await call(tradewake.copies, 'ListCopies', { filter: { states: ['COPY_STATE_UNKNOWM'] } }, { deadline });
// An enum of another kind: FOLLOWER_MODE_PAUSE.
await call(tradewake.followers, 'UpdateFollower', { follower: { mode: 'FOLLOWER_MODE_PAUSE' } }, { deadline });
// A field: stop_los.
await call(tradewake.events, 'SubmitEvent', { event: { ...event, open: { stop_los: '1' } } }, { deadline });
// A method: SubmitEvents.
await call(tradewake.events, 'SubmitEvents', { event }, { deadline });
// What is answered: copy_ids.
(await call(tradewake.events, 'SubmitEvent', { event }, { deadline })).copies.map((copy) => copy.copy_ids);
// A state that is compared: COPY_STATE_DUNE.
(await call(tradewake.events, 'SubmitEvent', { event }, { deadline })).copies.filter(({ state }) => state === 'COPY_STATE_DUNE');

await call(tradewake.events, 'SubmitEvent', { event: { ...event, open: { side: 'SIDE_BUY' } } }, { deadline });
