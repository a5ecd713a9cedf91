import { at, option, stringOf, wide } from '../arguments.js';
import type { Call, Handler } from '../command.js';
import { digestOf } from '../digest.js';
import { KEEP, NEVER } from '../keyspace.js';
import { fail, OK, type Reply, SYNTAX } from '../reply.js';
import { MAX_INTEGER, parseInteger } from '../text.js';

/** An expiry that a command asks for. */
interface Expiry {
  readonly unitMs: bigint;
  readonly isRelative: boolean;
  readonly text: string;
}

const EXPIRIES: ReadonlyMap<string, Omit<Expiry, 'text'>> = new Map([
  ['ex', { unitMs: 1000n, isRelative: true }],
  ['px', { unitMs: 1n, isRelative: true }],
  ['exat', { unitMs: 1000n, isRelative: false }],
  ['pxat', { unitMs: 1n, isRelative: false }],
]);

/** A value is compared before the key is set or deleted. */
interface Condition {
  readonly kind: 'eq' | 'ne' | 'deq' | 'dne';
  readonly text: string;
}

interface SetOptions {
  readonly only: 'nx' | 'xx' | null;
  readonly get: boolean;
  readonly expiry: Expiry | 'keep' | null;
  readonly condition: Condition | null;
}

/** What conditions an edition knows, by the word in front of them. */
export function conditionOf(word: string, call: Call): Condition['kind'] | null {
  const { instance } = call;
  if (word === 'ifeq') return instance.has({ redis: '8.4.0', valkey: '8.1.0' }) ? 'eq' : null;
  const kind = ({ ifne: 'ne', ifdeq: 'deq', ifdne: 'dne' } as const)[word] ?? null;
  return kind !== null && instance.has({ redis: '8.4.0' }) ? kind : null;
}

/** Whether a value, `null` for none, meets a condition. Throws where a digest is none. */
export function meets(value: string | null, { kind, text }: Condition): boolean {
  if (kind === 'eq') return value === text;
  if (kind === 'ne') return value !== text;
  if (!/^[\da-f]{16}$/i.test(text)) throw fail('digest must be exactly 16 hexadecimal characters');
  const isSame = value !== null && digestOf(value) === text.toLowerCase();
  return kind === 'deq' ? isSame : !isSame;
}

/** The expiry at this option, if it is one that may stand here. */
function expiryAt(argv: readonly string[], place: number, before: Expiry | 'keep' | null): Expiry | null {
  const form = EXPIRIES.get(option(argv, place));
  const text = argv[place + 1];
  if (form === undefined || text === undefined || before === 'keep') return null;
  if (before !== null && (before.unitMs !== form.unitMs || before.isRelative !== form.isRelative)) return null;
  return { unitMs: form.unitMs, isRelative: form.isRelative, text };
}

function parseOptions(argv: readonly string[], call: Call): SetOptions {
  let [only, get, expiry, condition]: [SetOptions['only'], boolean, SetOptions['expiry'], Condition | null] = [
    null,
    false,
    null,
    null,
  ];
  for (let i = 3; i < argv.length; i++) {
    const word = option(argv, i);
    const timed: Expiry | null = word === 'nx' ? null : expiryAt(argv, i, expiry);
    const kind = word.startsWith('if') ? conditionOf(word, call) : null;
    if ((word === 'nx' || word === 'xx') && (only ?? word) === word && condition === null) only = word;
    else if (word === 'get') get = true;
    else if (word === 'keepttl' && (expiry ?? 'keep') === 'keep') expiry = 'keep';
    else if (timed !== null) {
      expiry = timed;
      i++;
    } else if (kind !== null && only === null && condition === null && i + 1 < argv.length) {
      condition = { kind, text: at(argv, ++i) };
    } else throw SYNTAX;
  }
  return { only, get, expiry, condition };
}

/** So many digits are a number, also as seconds in ms. */
const MAX_EXACT = 11;

/** When a key is to expire, ms of the node's clock; throws where that cannot be. */
function expiresAt({ unitMs, isRelative, text }: Expiry, call: Call, name: string): number {
  const short = text.length <= MAX_EXACT ? parseInteger(text) : null;
  // Most are: without integers of 64 bits.
  if (typeof short === 'number' && short > 0) return short * Number(unitMs) + (isRelative ? call.instance.nowMs : 0);
  const given = wide(text);
  const when = given * unitMs + (isRelative ? BigInt(call.instance.nowMs) : 0n);
  if (given <= 0n || given * unitMs > MAX_INTEGER || when > MAX_INTEGER)
    throw fail(`invalid expire time in '${name}' command`);
  return Number(when);
}

/** Carries out `SET` and its kin once options are read. */
function setWith(key: string, value: string, options: SetOptions, call: Call, name = 'set'): Reply {
  const { expiry, only, get, condition } = options;
  const when = expiry === null || expiry === 'keep' ? NEVER : expiresAt(expiry, call, name);
  const before = call.keys.find(key);
  const old = get || condition !== null ? stringOf(before) : null;
  const isDone =
    condition !== null
      ? meets(old, condition)
      : only === null || (only === 'nx' ? before === undefined : before !== undefined);
  if (isDone) call.keys.store(key, value, expiry === 'keep' ? KEEP : when);
  if (get) return old;
  return isDone ? OK : null;
}

/** `SET key value [NX|XX|IFEQ value|…] [GET] [EX seconds|PX ms|EXAT at|PXAT at|KEEPTTL]` */
export const set: Handler = (argv, call) => setWith(at(argv, 1), at(argv, 2), parseOptions(argv, call), call);

const PLAIN: SetOptions = { only: null, get: false, expiry: null, condition: null };

/** `SETNX key value` */
export const setnx: Handler = (argv, call) =>
  setWith(at(argv, 1), at(argv, 2), { ...PLAIN, only: 'nx' }, call) === null ? 0 : 1;

/** `SETEX key seconds value` and `PSETEX key ms value` */
export const setWithTtl =
  (name: 'setex' | 'psetex'): Handler =>
  (argv, call) => {
    const expiry = { unitMs: name === 'setex' ? 1000n : 1n, isRelative: true, text: at(argv, 2) };
    return setWith(at(argv, 1), at(argv, 3), { ...PLAIN, expiry }, call, name);
  };

/** `GETEX key [EX seconds|PX ms|EXAT at|PXAT at|PERSIST]` */
export const getex: Handler = (argv, call) => {
  let [expiry, persist]: [Expiry | null, boolean] = [null, false];
  for (let i = 2; i < argv.length; i++) {
    const timed: Expiry | null = persist ? null : expiryAt(argv, i, expiry);
    if (timed !== null) {
      expiry = timed;
      i++;
    } else if (option(argv, i) === 'persist' && expiry === null) persist = true;
    else throw SYNTAX;
  }
  const key = at(argv, 1);
  const entry = call.keys.find(key);
  const value = stringOf(entry);
  if (entry === undefined) return null;
  const when = expiry === null ? NEVER : expiresAt(expiry, call, 'getex');
  if (expiry !== null && when <= call.instance.nowMs) call.keys.remove(key);
  else if (expiry !== null || (persist && entry.expiresAt !== NEVER)) call.keys.expire(key, when);
  return value;
};
