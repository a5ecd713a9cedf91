import { at, hashOf, long, option, wide } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { addLongDoubles, formatLongDouble, parseLongDouble } from '../long-double.js';
import { fail, MapReply, NOT_FLOAT, OK, type Reply, SYNTAX, wrongArity } from '../reply.js';
import { narrow } from '../text.js';
import { Hash } from '../values.js';
import { drawFrom } from './chosen.js';
import { scanOf } from './scan.js';

const HALF_LONG = 2 ** 62;

/** The hash under a key, made if there is none. */
function hashToWrite(key: string, { keys }: Call): Hash {
  const found = hashOf(keys.find(key));
  if (found !== null) return found;
  const hash = new Hash();
  keys.store(key, hash, NEVER);
  return hash;
}

const hset =
  (name: 'hset' | 'hmset'): Handler =>
  (argv, call) => {
    if (argv.length % 2 === 1) throw wrongArity(name);
    const key = at(argv, 1);
    const hash = hashToWrite(key, call);
    let added = 0;
    for (let i = 2; i < argv.length; i += 2) {
      if (hash.set(at(argv, i), at(argv, i + 1), call.instance.limits)) added++;
    }
    call.keys.changed(key);
    return name === 'hset' ? added : OK;
  };

const hsetnx: Handler = (argv, call) => {
  const key = at(argv, 1);
  const hash = hashToWrite(key, call);
  if (hash.fields.has(at(argv, 2))) return 0;
  hash.set(at(argv, 2), at(argv, 3), call.instance.limits);
  call.keys.changed(key);
  return 1;
};

const fieldsOf = (argv: readonly string[], { keys }: Call): ReadonlyMap<string, string> | undefined =>
  hashOf(keys.find(at(argv, 1)))?.fields;

const hget: Handler = (argv, call) => fieldsOf(argv, call)?.get(at(argv, 2)) ?? null;

const hmget: Handler = (argv, call) => {
  const fields = fieldsOf(argv, call);
  return argv.slice(2).map((field) => fields?.get(field) ?? null);
};

const hdel: Handler = (argv, { keys }) => {
  const key = at(argv, 1);
  const fields = hashOf(keys.find(key))?.fields;
  if (fields === undefined) return 0;
  const count = argv.slice(2).filter((field) => fields.delete(field)).length;
  if (fields.size === 0) keys.remove(key);
  else if (count > 0) keys.changed(key);
  return count;
};

const hincrby: Handler = (argv, call) => {
  const [key, field, by] = [at(argv, 1), at(argv, 2), wide(at(argv, 3))];
  const old = hashOf(call.keys.find(key))?.fields.get(field);
  const value = narrow(wide(old ?? '0', fail('hash value is not an integer')) + by);
  if (value === null) throw fail('increment or decrement would overflow');
  hashToWrite(key, call).set(field, String(value), call.instance.limits);
  call.keys.changed(key);
  return value;
};

const hincrbyfloat: Handler = (argv, call) => {
  const [key, field, by] = [at(argv, 1), at(argv, 2), parseLongDouble(at(argv, 3))];
  if (by === null) throw NOT_FLOAT;
  if (by === 'infinite') throw fail('value is NaN or Infinity');
  const old = hashOf(call.keys.find(key))?.fields.get(field);
  const value = parseLongDouble(old ?? '0');
  if (value === null) throw fail('hash value is not a float');
  if (value === 'infinite') throw fail('increment would produce NaN or Infinity');
  const text = formatLongDouble(addLongDoubles(value, by));
  hashToWrite(key, call).set(field, text, call.instance.limits);
  call.keys.changed(key);
  return text;
};

const hrandfield: Handler = (argv, call) => {
  const { random } = call.instance;
  if (argv.length === 2) return drawFrom([...(fieldsOf(argv, call)?.keys() ?? [])], -1, random)[0] ?? null;
  const count = long(at(argv, 2));
  const withValues = option(argv, 3) === 'withvalues';
  if (argv.length > 4 || (argv.length === 4 && !withValues)) throw SYNTAX;
  if (withValues && Math.abs(count) > HALF_LONG) throw fail('value is out of range');
  const drawn = drawFrom([...(fieldsOf(argv, call) ?? [])], count, random);
  if (!withValues) return drawn.map(([field]) => field);
  return call.session.protocol === 3 ? drawn : drawn.flat();
};

const hstrlen: Handler = (argv, call) => fieldsOf(argv, call)?.get(at(argv, 2))?.length ?? 0;

const listOf =
  (read: (fields: ReadonlyMap<string, string>) => Reply): Handler =>
  (argv, call) =>
    read(fieldsOf(argv, call) ?? new Map());

/** Commands on hashes. */
export const HASHES: Readonly<Record<string, Row>> = {
  hdel: [-3, 'w', hdel, KEY],
  hexists: [3, 'r', (argv, call) => (fieldsOf(argv, call)?.has(at(argv, 2)) ? 1 : 0), KEY],
  hget: [3, 'r', hget, KEY],
  hgetall: [2, 'r', listOf((fields) => new MapReply([...fields])), KEY],
  hincrby: [4, 'wm', hincrby, KEY],
  hincrbyfloat: [4, 'wm', hincrbyfloat, KEY],
  hkeys: [2, 'r', listOf((fields) => [...fields.keys()]), KEY],
  hlen: [2, 'r', listOf((fields) => fields.size), KEY],
  hmget: [-3, 'r', hmget, KEY],
  hmset: [-4, 'wm', hset('hmset'), KEY],
  hrandfield: [-2, 'r', hrandfield, KEY],
  hscan: [-3, 'r', scanOf('hscan'), KEY],
  hset: [-4, 'wm', hset('hset'), KEY],
  hsetnx: [4, 'wm', hsetnx, KEY],
  hstrlen: [3, 'r', hstrlen, KEY],
  hvals: [2, 'r', listOf((fields) => [...fields.values()]), KEY],
};
