// contract.mjs - the .proto files, read when the backend starts.
import { fileURLToPath } from 'node:url';
import protoLoader from '@grpc/proto-loader';

/** Of a path beside this file. @param {string} path */
export const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Every message, enum and service by its full name. uint64 fit a number; int64 `magic` may be sent as text. */
export const definition = protoLoader.loadSync(
  ['tradewake/v1/copies.proto', 'tradewake/v1/events.proto', 'tradewake/v1/followers.proto',
   'tradewake/v1/metrics.proto', 'google/rpc/error_details.proto', 'google/rpc/status.proto'],
  { includeDirs: [process.env.TRADEWAKE_PROTO ?? here('../../proto')],
    keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true });
