import { at, integer, option, streamOf } from '../arguments.js';
import { type Call, type Command, container, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { Failure, fail, MapReply, NULL_ARRAY, OK, printed, type Reply, SYNTAX } from '../reply.js';
import { compareIds, type Group, type Pending, Stream, type StreamEntry, type StreamId } from '../values.js';
import { type Wish, waitFor } from './blocking.js';
import { CLAIMS } from './claims.js';
import { entryOf, noGroup, withPending } from './pending.js';
import { boundOf, idOf, replyOf, textOf } from './streams.js';

/* Readers of streams, and groups of consumers. `XINFO` is omitted, and so are the counts of entries that a group has read. */

const ZERO: StreamId = { ms: 0n, seq: 0n };

const NO_STREAM = fail(
  'The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.',
);

function groupOf(key: string, name: string, { keys }: Call): Group | null {
  return streamOf(keys.find(key))?.groups.get(name) ?? null;
}

/** What a reader asks for: of each key, what comes after an ID. */
interface Asked {
  /** `null` where none is named. */
  readonly group: string | null;
  readonly consumer: string;
  readonly count: number;
  /** It waits until then, µs of the node's clock; `null` where it does not wait. */
  readonly untilUs: number | null;
  readonly keepsNone: boolean;
  readonly after: ReadonlyMap<string, string>;
}

const UNBALANCED = fail("Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
const NEGATIVE_TIMEOUT = fail('timeout is negative');

function askedIn(argv: readonly string[], { instance }: Call): Asked {
  const name = option(argv, 0);
  let [group, consumer, count, untilUs, keepsNone] = [
    null as string | null,
    '',
    Number.POSITIVE_INFINITY,
    null as number | null,
    false,
  ];
  for (let place = 1; place < argv.length; place++) {
    const word = option(argv, place);
    if (word === 'streams') {
      const rest = argv.slice(place + 1);
      if (rest.length === 0) throw SYNTAX;
      if (rest.length % 2 > 0) throw UNBALANCED;
      const names = rest.slice(0, rest.length / 2);
      const after = new Map(names.map((key, i) => [key, rest[names.length + i] ?? '']));
      return { group, consumer, count, untilUs, keepsNone, after };
    }
    if (word === 'noack') keepsNone = true;
    else if (word === 'count') count = Math.max(0, integer(at(argv, ++place))) || Number.POSITIVE_INFINITY;
    else if (word === 'block') {
      const ms = integer(at(argv, ++place), fail('timeout is not an integer or out of range'));
      if (ms < 0) throw NEGATIVE_TIMEOUT;
      untilUs = ms === 0 ? Number.POSITIVE_INFINITY : instance.nowUs + ms * 1000;
    } else if (word === 'group' && name === 'xreadgroup') [group, consumer] = [at(argv, ++place), at(argv, ++place)];
    else throw SYNTAX;
  }
  throw SYNTAX;
}

/** What several streams have, each under its key; `null` where none has anything. */
function answered(found: readonly (readonly [string, Reply])[], { session }: Call): Reply {
  if (found.length === 0) return null;
  return session.protocol === 3 ? new MapReply(found) : found.map(([key, entries]) => [key, entries]);
}

function readAll(asked: Asked, find: (names: readonly string[], call: Call) => Reply, call: Call): Reply {
  if (asked.untilUs === null) return find([...asked.after.keys()], call) ?? NULL_ARRAY;
  const wish: Wish = {
    names: [...asked.after.keys()],
    source: Stream,
    untilUs: asked.untilUs,
    find,
    nothing: NULL_ARRAY,
  };
  return waitFor(wish, call);
}

const xread: Handler = (argv, call) => {
  const asked = askedIn(argv, call);
  const from = new Map(
    [...asked.after].map(([key, text]) => {
      const last = streamOf(call.keys.find(key))?.last ?? ZERO;
      return [key, text === '$' ? last : idOf(text, 0n)];
    }),
  );
  const find = (names: readonly string[], it: Call): Reply => {
    const found = names.flatMap((key): [string, Reply][] => {
      const entries = streamOf(it.keys.find(key))?.entries ?? [];
      const next = entries.filter(({ id }) => compareIds(id, from.get(key) ?? ZERO) > 0).slice(0, asked.count);
      return next.length === 0 ? [] : [[key, next.map(replyOf)]];
    });
    return answered(found, it);
  };
  return readAll(asked, find, call);
};

const NO_GROUP_ASKED = fail('Missing GROUP option for XREADGROUP');

/** Gives a consumer what nobody in its group was given before. */
function giveNew(stream: Stream, group: Group, asked: Asked, nowMs: number): readonly StreamEntry[] {
  const next = stream.entries.filter(({ id }) => compareIds(id, group.last) > 0).slice(0, asked.count);
  group.last = next.at(-1)?.id ?? group.last;
  if (next.length > 0) group.consumers.add(asked.consumer);
  const given = next.map(({ id }): Pending => ({ id, consumer: asked.consumer, givenMs: nowMs, times: 1 }));
  if (!asked.keepsNone) group.pending = withPending(group.pending, given);
  return next;
}

/** Gives a consumer its pending entries that come after an ID: one more delivery of each that is still in the stream. */
function giveAgain(stream: Stream, group: Group, asked: Asked, after: StreamId, nowMs: number): Reply {
  group.consumers.add(asked.consumer);
  const isOwn = ({ id, consumer }: Pending): boolean => consumer === asked.consumer && compareIds(id, after) > 0;
  const own = group.pending.filter(isOwn).slice(0, asked.count);
  group.pending = group.pending.map((it) =>
    own.includes(it) && entryOf(stream, it.id) !== undefined ? { ...it, givenMs: nowMs, times: it.times + 1 } : it,
  );
  return own.map(({ id }) => {
    const entry = entryOf(stream, id);
    return entry === undefined ? [textOf(id), NULL_ARRAY] : replyOf(entry);
  });
}

const xreadgroup: Handler = (argv, call) => {
  const asked = askedIn(argv, call);
  const { group: name } = asked;
  if (name === null) throw NO_GROUP_ASKED;
  const where = ' in XREADGROUP with GROUP option';
  const isNew = [...asked.after.values()].every((it) => it === '>');
  const find = (names: readonly string[], it: Call): Reply => {
    // Nothing is given where one of them has no such group.
    const all = names.map((key) => {
      const stream = streamOf(it.keys.find(key));
      const group = stream?.groups.get(name);
      if (stream === null || group === undefined) throw noGroup(key, name, where);
      return { key, stream, group, text: asked.after.get(key) ?? '' };
    });
    const found = all.flatMap(({ key, stream, group, text }): [string, Reply][] => {
      if (text !== '>') return [[key, giveAgain(stream, group, asked, idOf(text, 0n), it.instance.nowMs)]];
      const given = giveNew(stream, group, asked, it.instance.nowMs);
      if (given.length > 0) it.keys.changed(key);
      return given.length === 0 ? [] : [[key, given.map(replyOf)]];
    });
    return answered(found, it);
  };
  return readAll(isNew ? asked : { ...asked, untilUs: null }, find, call);
};

const xack: Handler = (argv, call) => {
  const group = groupOf(at(argv, 1), at(argv, 2), call);
  if (group === null) return 0;
  const ids = argv.slice(3).map((it) => textOf(idOf(it, 0n)));
  const left = group.pending.filter(({ id }) => !ids.includes(textOf(id)));
  const count = group.pending.length - left.length;
  group.pending = left;
  if (count > 0) call.keys.changed(at(argv, 1));
  return count;
};

/** `XPENDING key group`: how many are pending, the first and the last, and how many each consumer has. */
function summary({ pending }: Group): Reply {
  const [first, last] = [pending[0], pending.at(-1)];
  if (first === undefined || last === undefined) return [0, null, null, NULL_ARRAY];
  const names = [...new Set(pending.map(({ consumer }) => consumer))].sort();
  const counts = names.map((name) => [name, String(pending.filter(({ consumer }) => consumer === name).length)]);
  return [pending.length, textOf(first.id), textOf(last.id), counts];
}

const xpending: Handler = (argv, call) => {
  const [key, name] = [at(argv, 1), at(argv, 2)];
  const found = (): Group => {
    const group = groupOf(key, name, call);
    if (group === null) throw noGroup(key, name);
    return group;
  };
  if (argv.length === 3) return summary(found());
  const isIdle = option(argv, 3) === 'idle';
  const idleMs = isIdle ? integer(at(argv, 4)) : 0;
  const [start, end, count, consumer] = argv.slice(isIdle ? 5 : 3);
  if (start === undefined || end === undefined || count === undefined) throw SYNTAX;
  const most = integer(count);
  const [from, to, { nowMs }] = [boundOf(start, true), boundOf(end, false), call.instance];
  const isAsked = (it: Pending): boolean =>
    compareIds(it.id, from) >= 0 &&
    compareIds(it.id, to) <= 0 &&
    (consumer === undefined || it.consumer === consumer) &&
    nowMs - it.givenMs >= idleMs;
  return found()
    .pending.filter(isAsked)
    .slice(0, Math.max(0, most))
    .map((it) => [textOf(it.id), it.consumer, Math.floor(nowMs - it.givenMs), it.times]);
};

/** The options of a subcommand of XGROUP after its ID, of these and `ENTRIESREAD n`, of which nothing is kept. */
function optionsIn(argv: readonly string[], known: readonly string[]): readonly string[] {
  const found: string[] = [];
  for (let place = 5; place < argv.length; place++) {
    const word = option(argv, place);
    if (word === 'entriesread' && place + 1 < argv.length) integer(at(argv, ++place));
    else if (known.includes(word)) found.push(word);
    else throw fail(`unknown subcommand or wrong number of arguments for '${printed(at(argv, 1))}'. Try XGROUP HELP.`);
  }
  return found;
}

/** After which entry a group begins: that of an ID, the last one (`$`), or none or all of them (`-`, `+`). */
function startOf(text: string, last: StreamId): StreamId {
  if (text === '$') return last;
  return text === '-' || text === '+' ? boundOf(text, true) : idOf(text, 0n);
}

const create: Handler = (argv, { keys }) => {
  const [key, name, text] = [at(argv, 2), at(argv, 3), at(argv, 4)];
  const makes = optionsIn(argv, ['mkstream']).includes('mkstream');
  const found = streamOf(keys.find(key));
  if (found === null && !makes) throw NO_STREAM;
  const stream = found ?? new Stream();
  const last = startOf(text, stream.last);
  if (stream.groups.has(name)) throw new Failure('BUSYGROUP Consumer Group name already exists');
  stream.groups.set(name, { last, pending: [], consumers: new Set() });
  if (found === null) keys.store(key, stream, NEVER);
  else keys.changed(key);
  return OK;
};

/** A subcommand of XGROUP on a group; `destroy` alone may find none. */
const onGroup =
  (does: (group: Group, argv: readonly string[], stream: Stream) => Reply): Handler =>
  (argv, call) => {
    const [key, name] = [at(argv, 2), at(argv, 3)];
    optionsIn(argv, []);
    const stream = streamOf(call.keys.find(key));
    if (stream === null) throw NO_STREAM;
    const group = stream.groups.get(name);
    if (group === undefined) throw new Failure(`NOGROUP No such consumer group '${name}' for key name '${key}'`);
    call.keys.changed(key);
    return does(group, argv, stream);
  };

const destroy: Handler = (argv, { keys }) => {
  const stream = streamOf(keys.find(at(argv, 2)));
  if (stream === null) throw NO_STREAM;
  const isThere = stream.groups.delete(at(argv, 3));
  if (isThere) keys.changed(at(argv, 2));
  return isThere ? 1 : 0;
};

const setId = onGroup((group, argv, { last }) => {
  const text = at(argv, 4);
  group.last = startOf(text, last);
  return OK;
});

const createConsumer = onGroup(({ consumers }, argv) => {
  const isNew = !consumers.has(at(argv, 4));
  consumers.add(at(argv, 4));
  return isNew ? 1 : 0;
});

const deleteConsumer = onGroup((group, argv) => {
  const left = group.pending.filter(({ consumer }) => consumer !== at(argv, 4));
  const count = group.pending.length - left.length;
  group.pending = left;
  group.consumers.delete(at(argv, 4));
  return count;
});

/** Commands that read streams, and those of groups of consumers. */
export const GROUPS: Readonly<Record<string, Row>> = {
  xread: [-4, 'r', xread],
  xreadgroup: [-7, 'w', xreadgroup],
  xack: [-4, 'w', xack, KEY],
  xpending: [-3, 'r', xpending, KEY],
  ...CLAIMS,
};

const OF_GROUP = [2, 2, 1] as const;

/** Subcommands of XGROUP. */
export const GROUP_CONTAINER: Command = container('xgroup', 'wm', {
  create: [-5, 'wm', create, OF_GROUP],
  setid: [-5, 'w', setId, OF_GROUP],
  destroy: [4, 'w', destroy, OF_GROUP],
  createconsumer: [5, 'wm', createConsumer, OF_GROUP],
  delconsumer: [5, 'w', deleteConsumer, OF_GROUP],
});
