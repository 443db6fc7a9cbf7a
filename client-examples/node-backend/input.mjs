// input.mjs - JSON from outside becomes a message of the contract, or a refusal that names the field.
//
// proto-loader drops what it does not know: a mistyped "stop_los" would be a trade without a stop, a
// mistyped enum the default. So names, enums and kinds are compared with the contract before anything
// is sent; what values mean is the service's to judge.
import { definition } from './contract.mjs';
import { Refusal } from './problem.mjs';

/** @typedef {{name: string, type: string, label: string, typeName: string}} Field */

const DURATION = /^(\d{1,9})(?:\.(\d{1,9}))?s$/;
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/** The nearest name, for "did you mean"; "DONE" is "COPY_STATE_DONE". @param {string} word @param {string[]} names */
function nearest(word, names) {
  const whole = names.find((name) => name.endsWith(`_${word.toUpperCase()}`));
  if (whole) return `; did you mean "${whole}"?`;
  const distance = (/** @type {string} */ a, /** @type {string} */ b) => {
    let row = Array.from({ length: b.length + 1 }, (_, i) => i);
    for (let i = 1; i <= a.length; i++) {
      const next = [i];
      for (let j = 1; j <= b.length; j++)
        next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + Number(a[i - 1] !== b[j - 1]));
      row = next;
    }
    return row[b.length];
  };
  const best = names.map((name) => ({ name, far: distance(word, name) })).sort((a, b) => a.far - b.far)[0];
  return best && best.far <= Math.max(2, word.length / 3) ? `; did you mean "${best.name}"?` : '';
}

/** typeName is as written in the .proto: within the package, or in full. @param {string} typeName */
const typeOf = (typeName) => /** @type {any} */ (definition[`tradewake.v1.${typeName}`] ?? definition[typeName]).type;

/** @param {unknown} value @param {string} path */
function readTime(value, path) {
  const parts = typeof value === 'string' ? TIME.exec(value) : null;
  const ms = parts ? Date.parse(parts[1] + parts[3]) : NaN;
  if (!parts || Number.isNaN(ms)) throw new Refusal(path, 'is no time; expected RFC 3339, "2026-11-30T09:48:36.123456Z"');
  return { seconds: ms / 1e3, nanos: Number((parts[2] ?? '').padEnd(9, '0')) };
}

/** @param {unknown} value @param {string} path */
function readDuration(value, path) {
  const parts = typeof value === 'string' ? DURATION.exec(value) : null;
  if (!parts) throw new Refusal(path, `is ${JSON.stringify(value)}, expected seconds such as "0.25s"`);
  return { seconds: Number(parts[1]), nanos: Number((parts[2] ?? '').padEnd(9, '0')) };
}

/** @param {unknown} value @param {string} path @param {string} typeName */
function readEnum(value, path, typeName) {
  const names = typeOf(typeName).value.map((/** @type {{name: string}} */ { name }) => name);
  if (names.includes(value)) return value;
  throw new Refusal(path, `is ${JSON.stringify(value)}, which ${typeName} does not have` +
    (typeof value === 'string' ? nearest(value, names) : `; expected a name, such as "${names[1]}"`));
}

/** Numbers that JSON carries exactly; larger ones as text. @param {unknown} value @param {string} path */
function readInteger(value, path) {
  if (Number.isSafeInteger(value) || (typeof value === 'string' && /^-?\d{1,19}$/.test(value))) return value;
  throw new Refusal(path, `is ${JSON.stringify(value)}, expected a whole number (as text above 2^53)`);
}

/** @param {unknown} value @param {string} path @param {string} kind */
function readPlain(value, path, kind) {
  if (typeof value === kind) return value;
  throw new Refusal(path, `is ${JSON.stringify(value)}, expected a ${kind}` +
    (typeof value === 'number' ? `: decimals travel as text, "${value}"` : ''));
}

/** @param {Field} field @param {unknown} value @param {string} path @returns {unknown} */
function readOne(field, value, path) {
  switch (field.type) {
    case 'TYPE_MESSAGE':
      if (field.typeName === 'google.protobuf.Timestamp') return readTime(value, path);
      if (field.typeName === 'google.protobuf.Duration') return readDuration(value, path);
      return read(field.typeName, value, path);
    case 'TYPE_ENUM': return readEnum(value, path, field.typeName);
    case 'TYPE_STRING': return readPlain(value, path, 'string');
    case 'TYPE_BOOL': return readPlain(value, path, 'boolean');
    default: return readInteger(value, path);
  }
}

/**
 * value as a message of that type. path: where it stands in what was sent, "" = it is all of it.
 * @param {string} typeName @param {unknown} value @param {string} [path] @returns {any}
 */
export function read(typeName, value, path = '') {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new Refusal(path, `is ${JSON.stringify(value)}, expected an object`);
  const fields = new Map(typeOf(typeName).field.map((/** @type {Field} */ field) => [field.name, field]));
  /** @type {Record<string, unknown>} */
  const message = {};
  for (const [name, entry] of Object.entries(value)) {
    const where = path ? `${path}.${name}` : name;
    const field = fields.get(name);
    if (!field) throw new Refusal(where, `is not a field of ${typeName}${nearest(name, [...fields.keys()])}`);
    if (field.label !== 'LABEL_REPEATED') message[name] = readOne(field, entry, where);
    else if (Array.isArray(entry)) message[name] = entry.map((one, i) => readOne(field, one, `${where}[${i}]`));
    else throw new Refusal(where, 'is not a list');
  }
  return message;
}
