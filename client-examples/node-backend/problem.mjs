// problem.mjs - a refusal of Tradewake's as our own callers see it.
//
// Every refusal carries google.rpc details in grpc-status-details-bin: ErrorInfo (the reason, made for
// programs), BadRequest (the field), RetryInfo (when to come again). A failure without them comes from
// the way there: no connection, or a deadline that passed.
import grpc from '@grpc/grpc-js';
import { definition } from './contract.mjs';

/** @typedef {import('./generated/google/rpc/Status').Status__Output} Status */
/** @typedef {import('./generated/google/rpc/ErrorInfo').ErrorInfo__Output} ErrorInfo */
/** @typedef {import('./generated/google/rpc/BadRequest').BadRequest__Output} BadRequest */
/** @typedef {import('./generated/google/rpc/RetryInfo').RetryInfo__Output} RetryInfo */
/** @typedef {{code: string, reason?: string, field?: string, message: string, retry_after_ms?: number,
 *             facts?: Record<string, string>}} Problem */

/** @type {Record<string, number>} */
const HTTP_STATUS = {
  INVALID_ARGUMENT: 400, OUT_OF_RANGE: 400, PERMISSION_DENIED: 403, NOT_FOUND: 404, ALREADY_EXISTS: 409,
  ABORTED: 409, FAILED_PRECONDITION: 409, RESOURCE_EXHAUSTED: 429, UNIMPLEMENTED: 501, UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
};
/** Where the reason says it better than the code. @type {Record<string, number>} */
const HTTP_STATUS_BY_REASON = { ETAG_MISMATCH: 412, RESUME_TOO_OLD: 410, TOO_LARGE: 413 };

/** What we refuse ourselves, in the same words. */
export class Refusal extends Error {
  /** @param {string} field "" = no one field @param {string} message @param {{code: string, reason: string}} [as] */
  constructor(field, message, as = { code: 'INVALID_ARGUMENT', reason: 'INVALID_FIELD' }) {
    super(message);
    this.field = field;
    this.as = as;
  }
}

/** A path of the contract as it stands in our bodies: "event.open.volume" is our "open.volume".
 *  @param {string | undefined} path */
const ours = (path) => path && { field: path.replace(/^(event|filter|follower)\./, '') };

/** @param {string} name @param {Uint8Array} bytes @returns {any} */
function decode(name, bytes) {
  const type = /** @type {import('@grpc/proto-loader').MessageTypeDefinition<any, any>} */ (definition[name]);
  return type.deserialize(Buffer.from(bytes));
}

/** The google.rpc details of a failed call by the name of their type. @param {grpc.ServiceError} error */
function detailsOf(error) {
  const [bytes] = error.metadata?.get('grpc-status-details-bin') ?? [];
  /** @type {{ErrorInfo?: ErrorInfo, BadRequest?: BadRequest, RetryInfo?: RetryInfo}} */
  const found = {};
  if (!bytes) return found;
  for (const { type_url, value } of /** @type {Status} */ (decode('google.rpc.Status', /** @type {Buffer} */ (bytes))).details) {
    const name = type_url.split('/').pop() ?? '';
    const known = name === 'google.rpc.ErrorInfo' || name === 'google.rpc.BadRequest' || name === 'google.rpc.RetryInfo';
    if (known) Object.assign(found, { [name.slice('google.rpc.'.length)]: decode(name, value) });
  }
  return found;
}

/** @param {unknown} error @returns {Problem} */
export function problemOf(error) {
  if (error instanceof Refusal) return { ...error.as, ...ours(error.field), message: error.message };
  const service = /** @type {grpc.ServiceError} */ (error);
  if (typeof service?.code !== 'number') return { code: 'INTERNAL', message: 'the backend failed; its log says how' };
  const { ErrorInfo, BadRequest, RetryInfo } = detailsOf(service);
  const field = BadRequest?.field_violations[0]?.field;
  const delay = RetryInfo?.retry_delay;
  const prefix = [ErrorInfo?.reason, field].filter(Boolean).join(' ') + ': '; // said in fields of their own
  return {
    code: grpc.status[service.code] ?? `CODE_${service.code}`,
    ...(ErrorInfo && { reason: ErrorInfo.reason }),
    ...ours(field),
    message: service.details.startsWith(prefix) ? service.details.slice(prefix.length) : service.details,
    ...(delay && { retry_after_ms: delay.seconds * 1e3 + delay.nanos / 1e6 }),
    ...(ErrorInfo && Object.keys(ErrorInfo.metadata).length > 0 && { facts: ErrorInfo.metadata }),
  };
}

/** The HTTP status and headers of a problem. @param {unknown} error @param {Problem} problem */
export function httpOf(error, problem) {
  const is_our_bug = !(error instanceof Refusal) && typeof (/** @type {any} */ (error)?.code) !== 'number';
  const status = is_our_bug ? 500 : HTTP_STATUS_BY_REASON[problem.reason ?? ''] ?? HTTP_STATUS[problem.code] ?? 502;
  const retry_ms = problem.retry_after_ms ?? (status === 503 ? 1000 : undefined);
  /** @type {Record<string, string>} */
  const headers = retry_ms === undefined ? {} : { 'retry-after': String(Math.ceil(retry_ms / 1e3)) };
  return { status, headers };
}
