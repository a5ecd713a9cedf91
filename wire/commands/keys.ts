import { at, integer, option, ranged } from '../arguments.js';
import { type Call, type Command, container, type Handler, KEY, KEYS, type Row } from '../command.js';
import { fail, NO_KEY, OK, type Reply, Status, SYNTAX } from '../reply.js';
import { matches } from '../text.js';
import { copyOf, encodingOf, sizeOf, typeOf } from '../values.js';
import { scan } from './scan.js';

const MAX_INT = 2 ** 31 - 1;

const del: Handler = (argv, { keys }) => {
  let count = 0;
  for (const key of argv.slice(1)) if (keys.find(key) !== undefined && keys.remove(key)) count++;
  return count;
};

const exists: Handler = (argv, { keys }) => argv.slice(1).filter((key) => keys.find(key) !== undefined).length;

const type: Handler = (argv, { keys }) => {
  const value = keys.find(at(argv, 1))?.value;
  return new Status(value === undefined ? 'none' : typeOf(value));
};

const keysLike: Handler = (argv, { keys }) => [...keys.keys()].filter((key) => matches(at(argv, 1), key));

const randomKey: Handler = (_, { keys, instance }) => {
  const all = [...keys.keys()];
  return all[Math.floor(instance.random() * all.length)] ?? null;
};

/** `RENAME` and `RENAMENX`. */
const rename =
  (onlyIfAbsent: boolean): Handler =>
  (argv, { keys }) => {
    const [from, to] = [at(argv, 1), at(argv, 2)];
    const entry = keys.find(from);
    if (entry === undefined) throw NO_KEY;
    if (from === to) return onlyIfAbsent ? 0 : OK;
    if (keys.find(to) !== undefined) {
      if (onlyIfAbsent) return 0;
      keys.remove(to);
    }
    keys.remove(from);
    keys.store(to, entry.value, entry.expiresAt, entry.form);
    return onlyIfAbsent ? 1 : OK;
  };

const SAME_OBJECT = fail('source and destination objects are the same');

function databaseAt(argv: readonly string[], place: number): number {
  return ranged(at(argv, place), -MAX_INT - 1, MAX_INT);
}

const move: Handler = (argv, { keys, instance }) => {
  const key = at(argv, 1);
  const target = instance.keyspace(databaseAt(argv, 2));
  if (target === keys) throw SAME_OBJECT;
  const entry = keys.find(key);
  if (entry === undefined || target.find(key) !== undefined) return 0;
  keys.remove(key);
  target.store(key, entry.value, entry.expiresAt, entry.form);
  return 1;
};

const copy: Handler = (argv, { keys, instance }) => {
  let [target, replaces] = [keys, false];
  for (let i = 3; i < argv.length; i++) {
    const word = option(argv, i);
    if (word === 'replace') replaces = true;
    else if (word === 'db' && i + 1 < argv.length) target = instance.keyspace(databaseAt(argv, ++i));
    else throw SYNTAX;
  }
  const [from, to] = [at(argv, 1), at(argv, 2)];
  if (target === keys && from === to) throw SAME_OBJECT;
  const entry = keys.find(from);
  if (entry === undefined) return 0;
  if (target.find(to) !== undefined) {
    if (!replaces) return 0;
    target.remove(to);
  }
  target.store(to, copyOf(entry.value), entry.expiresAt, entry.form);
  return 1;
};

function isLfu({ instance }: Call): boolean {
  return (instance.config.get('maxmemory-policy') ?? '').includes('lfu');
}

const NO_LFU =
  'An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.';
const LFU =
  'An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.';

const ofObject =
  (read: (entry: NonNullable<ReturnType<Call['keys']['find']>>, call: Call) => Reply): Handler =>
  (argv, call) => {
    const entry = call.keys.find(at(argv, 2));
    return entry === undefined ? null : read(entry, call);
  };

const OBJECT: Command = container('object', 'r', {
  encoding: [3, 'r', ofObject(({ value, form }) => encodingOf(value, form)), [2, 2, 1]],
  freq: [
    3,
    'r',
    ofObject((_, call) => {
      if (!isLfu(call)) throw fail(NO_LFU);
      return 0;
    }),
    [2, 2, 1],
  ],
  idletime: [
    3,
    'r',
    ofObject((_, call) => {
      if (isLfu(call)) throw fail(LFU);
      return 0;
    }),
    [2, 2, 1],
  ],
  refcount: [3, 'r', ofObject(() => 1), [2, 2, 1]],
});

const HEADER_BYTES = 56;

/** About how many bytes a key takes. */
const usage: Handler = (argv, { keys }) => {
  const key = at(argv, 2);
  if (argv.length > 3 && (argv.length !== 5 || option(argv, 3) !== 'samples')) throw SYNTAX;
  if (argv.length === 5 && integer(at(argv, 4)) < 0) throw SYNTAX;
  const entry = keys.find(key);
  return entry === undefined ? null : HEADER_BYTES + key.length + sizeOf(entry.value);
};

const MEMORY: Command = container('memory', 'r', { usage: [-3, 'r', usage, [2, 2, 1]] });

/** `FLUSHDB` and `FLUSHALL`. */
const flush =
  (isAll: boolean): Handler =>
  (argv, { keys, instance }) => {
    const word = option(argv, 1);
    if (argv.length > 2 || (argv.length === 2 && word !== 'sync' && word !== 'async')) throw SYNTAX;
    for (const keyspace of isAll ? instance.databases : [keys]) keyspace.clear();
    return OK;
  };

const swapdb: Handler = (argv, { instance }) => {
  const [first, second] = [
    ranged(at(argv, 1), -MAX_INT - 1, MAX_INT, fail('invalid first DB index')),
    ranged(at(argv, 2), -MAX_INT - 1, MAX_INT, fail('invalid second DB index')),
  ];
  const [a, b] = [instance.keyspace(first), instance.keyspace(second)];
  // Those that have expired go before: nobody who watches such a key notices.
  const names = [...a.keys(), ...b.keys()];
  instance.databases[first] = b;
  instance.databases[second] = a;
  for (const index of [first, second]) instance.databaseReplaced(index, names);
  return OK;
};

/** Commands on keys of any type. */
export const ANY_KEYS: Readonly<Record<string, Row>> = {
  copy: [-3, 'wm', copy, [1, 2, 1]],
  // Redis counts what has expired as well, until it finds that, soon, by itself.
  dbsize: [1, 'r', (_, { keys }) => [...keys.keys()].length],
  del: [-2, 'w', del, KEYS],
  exists: [-2, 'r', exists, KEYS],
  flushall: [-1, 'w', flush(true)],
  flushdb: [-1, 'w', flush(false)],
  keys: [2, 'r', keysLike],
  move: [3, 'w', move, KEY],
  randomkey: [1, 'r', randomKey],
  rename: [3, 'w', rename(false), [1, 2, 1]],
  renamenx: [3, 'w', rename(true), [1, 2, 1]],
  scan: [-2, 'r', scan],
  swapdb: [3, 'w', swapdb],
  touch: [-2, 'r', exists, KEYS],
  type: [2, 'r', type, KEY],
  unlink: [-2, 'w', del, KEYS],
};

/** Commands on keys that have subcommands. */
export const KEY_CONTAINERS: readonly Command[] = [MEMORY, OBJECT];
