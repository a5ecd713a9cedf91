import { at, long, option, positive, ranged, setOf } from '../arguments.js';
import { type Call, type Handler, KEY, KEYS, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, type Reply, SetReply, SYNTAX } from '../reply.js';
import { MemberSet } from '../values.js';
import { drawFrom } from './chosen.js';
import { scanOf } from './scan.js';

const sadd: Handler = (argv, { keys, instance }) => {
  const key = at(argv, 1);
  const found = setOf(keys.find(key));
  const set = found ?? new MemberSet();
  const count = argv.slice(2).filter((member) => set.add(member, instance.limits)).length;
  if (found === null) keys.store(key, set, NEVER);
  else if (count > 0) keys.changed(key);
  return count;
};

/** Takes members out of a set that is there, and the set away if none is left. */
function take(key: string, members: readonly string[], { keys }: Call): number {
  const set = setOf(keys.find(key));
  if (set === null) return 0;
  const count = members.filter((member) => set.members.delete(member)).length;
  if (set.members.size === 0) keys.remove(key);
  else if (count > 0) keys.changed(key);
  return count;
}

const srem: Handler = (argv, call) => take(at(argv, 1), argv.slice(2), call);

const smove: Handler = (argv, call) => {
  const { keys, instance } = call;
  const [from, to, member] = [at(argv, 1), at(argv, 2), at(argv, 3)];
  const entry = keys.find(from);
  const target = keys.find(to);
  if (entry === undefined) return 0;
  const [source, found] = [setOf(entry), setOf(target)];
  if (source === found) return source?.members.has(member) ? 1 : 0;
  if (take(from, [member], call) === 0) return 0;
  const set = found ?? new MemberSet();
  const isNew = set.add(member, instance.limits);
  if (found === null) keys.store(to, set, NEVER);
  else if (isNew) keys.changed(to);
  return 1;
};

const spop: Handler = (argv, call) => {
  const { keys, instance } = call;
  const key = at(argv, 1);
  if (argv.length > 3) throw SYNTAX;
  const count = argv.length === 3 ? positive(at(argv, 2)) : null;
  const set = setOf(keys.find(key));
  if (set === null) return count === null ? null : new SetReply([]);
  const drawn = count === 0 ? [] : drawFrom(set.list(), count ?? 1, instance.random);
  take(key, drawn, call);
  return count === null ? (drawn[0] ?? null) : new SetReply(drawn);
};

const srandmember: Handler = (argv, { keys, instance }) => {
  if (argv.length > 3) throw SYNTAX;
  const count = argv.length === 3 ? long(at(argv, 2)) : null;
  const members = setOf(keys.find(at(argv, 1)))?.list() ?? [];
  const drawn = drawFrom(members, count ?? -1, instance.random);
  return count === null ? (drawn[0] ?? null) : drawn;
};

type Operation = 'union' | 'inter' | 'diff';

/** The members that an operation on sets comes to, in Redis's order where that is one. */
function combine(operation: Operation, names: readonly string[], { keys, instance }: Call): MemberSet {
  const sets = names.map((name) => setOf(keys.find(name)));
  const result = new MemberSet();
  const [first, ...rest] = operation === 'inter' ? [...sets].sort((a, b) => sizeOf(a) - sizeOf(b)) : sets;
  for (const member of first?.list() ?? []) {
    const isIn = (set: MemberSet | null): boolean => set?.members.has(member) === true;
    if (operation === 'inter' && !rest.every(isIn)) continue;
    if (operation === 'diff' && rest.some(isIn)) continue;
    result.add(member, instance.limits);
  }
  if (operation !== 'union') return result;
  for (const set of rest) for (const member of set?.list() ?? []) result.add(member, instance.limits);
  return result;
}

function sizeOf(set: MemberSet | null): number {
  return set?.members.size ?? 0;
}

const operate =
  (operation: Operation): Handler =>
  (argv, call) =>
    new SetReply(combine(operation, argv.slice(1), call).list());

const operateStore =
  (operation: Operation): Handler =>
  (argv, call) => {
    const result = combine(operation, argv.slice(2), call);
    const target = at(argv, 1);
    if (result.members.size === 0) {
      if (call.keys.find(target) !== undefined) call.keys.remove(target);
    } else call.keys.store(target, result, NEVER);
    return result.members.size;
  };

const sintercard: Handler = (argv, call) => {
  const count = ranged(at(argv, 1), 1, Number.POSITIVE_INFINITY, fail('numkeys should be greater than 0'));
  if (count > argv.length - 2) throw fail("Number of keys can't be greater than number of args");
  let limit = 0;
  for (let i = 2 + count; i < argv.length; i++) {
    if (option(argv, i) !== 'limit' || i + 1 >= argv.length) throw SYNTAX;
    limit = positive(at(argv, ++i), fail("LIMIT can't be negative"));
  }
  const { size } = combine('inter', argv.slice(2, 2 + count), call).members;
  return limit === 0 ? size : Math.min(limit, size);
};

const membersOf = (argv: readonly string[], { keys }: Call): MemberSet | null => setOf(keys.find(at(argv, 1)));

const smismember: Handler = (argv, call) => {
  const set = membersOf(argv, call);
  return argv.slice(2).map((member): Reply => (set?.members.has(member) ? 1 : 0));
};

/** Commands on sets. */
export const SETS: Readonly<Record<string, Row>> = {
  sadd: [-3, 'wm', sadd, KEY],
  scard: [2, 'r', (argv, call) => membersOf(argv, call)?.members.size ?? 0, KEY],
  sdiff: [-2, 'r', operate('diff'), KEYS],
  sdiffstore: [-3, 'wm', operateStore('diff'), KEYS],
  sinter: [-2, 'r', operate('inter'), KEYS],
  sintercard: [-3, 'r', sintercard],
  sinterstore: [-3, 'wm', operateStore('inter'), KEYS],
  sismember: [3, 'r', (argv, call) => (membersOf(argv, call)?.members.has(at(argv, 2)) ? 1 : 0), KEY],
  smembers: [2, 'r', (argv, call) => new SetReply(membersOf(argv, call)?.list() ?? []), KEY],
  smismember: [-3, 'r', smismember, KEY],
  smove: [4, 'w', smove, [1, 2, 1]],
  spop: [-2, 'w', spop, KEY],
  srandmember: [-2, 'r', srandmember, KEY],
  srem: [-3, 'w', srem, KEY],
  sscan: [-3, 'r', scanOf('sscan'), KEY],
  sunion: [-2, 'r', operate('union'), KEYS],
  sunionstore: [-3, 'wm', operateStore('union'), KEYS],
};
