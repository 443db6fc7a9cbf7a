// tradewake.mjs - the way to Tradewake: one channel, typed clients, calls with a deadline.
//
// The types come from the .proto files (`npm run types`), so `npm run check` refuses a mistyped enum
// or field of ours. What callers send is looked at when it comes: input.mjs.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import grpc from '@grpc/grpc-js';
import { definition, here } from './contract.mjs';
import { problemOf } from './problem.mjs';

/** @typedef {import('./generated/copies').ProtoGrpcType & import('./generated/events').ProtoGrpcType &
 *            import('./generated/followers').ProtoGrpcType & import('./generated/metrics').ProtoGrpcType} Contract */
/**
 * @template Method
 * @typedef {Method extends (argument: infer Request, callback: any) => any ? Request : never} RequestOf
 */
/**
 * @template Method
 * @typedef {Method extends (argument: any, callback: (error: any, value?: infer Answer) => void) => any ? Answer : never} AnswerOf
 */

const RETRY_FIRST_MS = 100;
const RETRY_MS_MAX = 1000;

const { tradewake } = /** @type {Contract} */ (/** @type {unknown} */ (grpc.loadPackageDefinition(definition)));

/** @param {string} address */
export function connect(address) {
  const credentials = grpc.credentials.createInsecure();
  const options = {
    // A dead peer is noticed within 30 s also when nothing is being said; the server allows a ping every 5 s.
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 10_000,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.service_config': readFileSync(here('../service-config.json'), 'utf8'),
    // A restarted server is found again in a second, not in two minutes.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
  };
  const clients = {
    events: new tradewake.v1.EventService(address, credentials, options),
    copies: new tradewake.v1.CopyService(address, credentials, options),
    followers: new tradewake.v1.FollowerService(address, credentials, options),
    metrics: new tradewake.v1.MetricsService(address, credentials, options),
  };
  return { ...clients, close: () => Object.values(clients).forEach((client) => client.close()) };
}

/** @typedef {ReturnType<typeof connect>} Tradewake */

/**
 * One unary call, answered until `deadline` (as Date.now() counts) or failed with the last ServiceError.
 *
 * UNAVAILABLE says nothing of whether the call arrived. Sending the very same request again is right
 * for everything that is safe to repeat: reads, halts, and events, because of the event_id. Everything
 * else is an answer, or (DEADLINE_EXCEEDED) the end of the time we had; neither is sent again here.
 *
 * @template {import('@grpc/grpc-js').Client} Client
 * @template {keyof Client} Method
 * @param {Client} client
 * @param {Method} method
 * @param {RequestOf<Client[Method]>} request
 * @param {{deadline: number, repeatable?: boolean, onRetry?: (error: grpc.ServiceError, attempt: number) => void}} how
 * @returns {Promise<NonNullable<AnswerOf<Client[Method]>>>}
 */
export async function call(client, method, request, { deadline, repeatable = true, onRetry }) {
  const start = /** @type {any} */ (client[method]).bind(client);
  for (let attempt = 1; ; attempt++) {
    try {
      return await new Promise((resolve, reject) => {
        start(request, { deadline }, (/** @type {any} */ error, /** @type {any} */ answer) =>
          (error ? reject(error) : resolve(answer)));
      });
    } catch (caught) {
      const error = /** @type {grpc.ServiceError} */ (caught);
      const wait_ms = problemOf(error).retry_after_ms ?? backoff(attempt);
      if (error.code !== grpc.status.UNAVAILABLE || !repeatable || Date.now() + wait_ms >= deadline)
        throw explained(client.getChannel(), error);
      onRetry?.(error, attempt);
      await sleep(wait_ms);
    }
  }
}

/** A deadline that passed without a connection says so: gRPC's own words are "Waiting for LB pick".
 *  @param {ReturnType<grpc.Client['getChannel']>} channel @param {grpc.ServiceError} error */
function explained(channel, error) {
  const is_connected = channel.getConnectivityState(false) === grpc.connectivityState.READY;
  if (error.code === grpc.status.DEADLINE_EXCEEDED && !is_connected)
    error.details = `nobody answers at ${channel.getTarget().replace(/^dns:/, '')}: ${error.details}`;
  return error;
}

/** Longer each time, and never the same for all who wait. @param {number} attempt */
export function backoff(attempt) {
  const ceiling = Math.min(RETRY_FIRST_MS * 2 ** (attempt - 1), RETRY_MS_MAX);
  return ceiling / 2 + Math.random() * (ceiling / 2);
}

/** A google.protobuf.Timestamp of now, to the microsecond: path time counts from here. */
export function now() {
  const ms = performance.timeOrigin + performance.now();
  const seconds = Math.floor(ms / 1e3);
  return { seconds, nanos: Math.floor((ms - seconds * 1e3) * 1e3) * 1e3 };
}

/** @param {{seconds: number, nanos: number} | null} time */
export function iso(time) {
  return time && new Date(time.seconds * 1e3 + Math.floor(time.nanos / 1e6)).toISOString();
}
