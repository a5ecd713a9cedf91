import { at, integer, option, ranged, streamOf } from '../arguments.js';
import { type Handler, KEY, type Row } from '../command.js';
import { fail, type Reply, SYNTAX } from '../reply.js';
import { compareIds, type Group, type Pending, type Stream, type StreamId } from '../values.js';
import { entryOf, noGroup, withPending } from './pending.js';
import { boundOf, idOf, replyOf, textOf } from './streams.js';

/* How a consumer takes over what another one has not acknowledged. */

/** What a claim gives, with the entries that are no longer in the stream, which it drops. */
function claimed(stream: Stream, group: Group, taken: readonly Pending[], isBare: boolean): [Reply[], Reply[]] {
  const [there, gone] = [
    taken.filter(({ id }) => entryOf(stream, id) !== undefined),
    taken.filter(({ id }) => entryOf(stream, id) === undefined),
  ];
  const ids = new Set(gone.map(({ id }) => textOf(id)));
  for (const { consumer } of there) group.consumers.add(consumer);
  group.pending = withPending(group.pending, there).filter(({ id }) => !ids.has(textOf(id)));
  const entries = there.flatMap(({ id }) => entryOf(stream, id) ?? []);
  return [isBare ? there.map(({ id }) => textOf(id)) : entries.map(replyOf), [...ids]];
}

/** What a claim sets beside the consumer. */
interface Claim {
  readonly ids: readonly StreamId[];
  readonly givenMs: number;
  readonly times: number | null;
  readonly isForced: boolean;
  readonly isBare: boolean;
}

/** An ID that is written out, `null` for anything else. */
function strictId(text: string): StreamId | null {
  try {
    return idOf(text, 0n);
  } catch {
    return null;
  }
}

/** The IDs of a claim, and its options after them. */
function claimIn(argv: readonly string[], nowMs: number): Claim {
  const ids: StreamId[] = [];
  let place = 5;
  for (let id = strictId(at(argv, place)); place < argv.length && id !== null; id = strictId(at(argv, ++place)))
    ids.push(id);
  let [givenMs, times, isForced, isBare] = [nowMs, null as number | null, false, false];
  for (; place < argv.length; place++) {
    const word = option(argv, place);
    const hasMore = place + 1 < argv.length;
    const number = (): number =>
      integer(at(argv, ++place), fail(`Invalid ${word.toUpperCase()} option argument for XCLAIM`));
    if (word === 'force') isForced = true;
    else if (word === 'justid') isBare = true;
    else if (word === 'idle' && hasMore) givenMs = nowMs - number();
    else if (word === 'time' && hasMore) givenMs = number();
    else if (word === 'retrycount' && hasMore) times = number();
    else if (word === 'lastid' && hasMore) idOf(at(argv, ++place), 0n);
    else throw fail(`Unrecognized XCLAIM option '${at(argv, place)}'`);
  }
  return { ids, givenMs: Math.min(givenMs, nowMs), times, isForced, isBare };
}

const xclaim: Handler = (argv, call) => {
  const [key, name, consumer] = [at(argv, 1), at(argv, 2), at(argv, 3)];
  const stream = streamOf(call.keys.find(key));
  const group = stream?.groups.get(name);
  if (stream === null || group === undefined) throw noGroup(key, name);
  const leastMs = Math.max(0, integer(at(argv, 4), fail('Invalid min-idle-time argument for XCLAIM')));
  const { nowMs } = call.instance;
  const claim = claimIn(argv, nowMs);
  const taken = claim.ids.flatMap((id): Pending[] => {
    const known = group.pending.find((it) => compareIds(it.id, id) === 0);
    const isThere = entryOf(stream, id) !== undefined;
    if (known === undefined ? !(claim.isForced && isThere) : isThere && nowMs - known.givenMs < leastMs) return [];
    const times = claim.times ?? (known?.times ?? 0) + (claim.isBare ? 0 : 1);
    return [{ id, consumer, givenMs: claim.givenMs, times }];
  });
  if (taken.length > 0) call.keys.changed(key);
  return claimed(stream, group, taken, claim.isBare)[0];
};

/** Redis keeps so many IDs in the memory that it can address. */
const MOST_CLAIMED = 2 ** 59;
/** So many entries are looked at for each that may be claimed. */
const LOOKS = 10;

const xautoclaim: Handler = (argv, call) => {
  const [key, name, consumer] = [at(argv, 1), at(argv, 2), at(argv, 3)];
  const leastMs = Math.max(0, integer(at(argv, 4), fail('Invalid min-idle-time argument for XAUTOCLAIM')));
  const start = boundOf(at(argv, 5), true);
  let [most, isBare] = [100, false];
  for (let place = 6; place < argv.length; place++) {
    if (option(argv, place) === 'justid') isBare = true;
    else if (option(argv, place) === 'count' && place + 1 < argv.length)
      most = ranged(at(argv, ++place), 1, MOST_CLAIMED, fail('COUNT must be > 0'));
    else throw SYNTAX;
  }
  const stream = streamOf(call.keys.find(key));
  const group = stream?.groups.get(name);
  if (stream === null || group === undefined) throw noGroup(key, name);
  const { nowMs } = call.instance;
  const ahead = group.pending.filter(({ id }) => compareIds(id, start) >= 0);
  const taken: Pending[] = [];
  let looked = 0;
  for (const it of ahead) {
    if (taken.length === most || looked === most * LOOKS) break;
    looked++;
    if (nowMs - it.givenMs >= leastMs)
      taken.push({ ...it, consumer, givenMs: nowMs, times: it.times + (isBare ? 0 : 1) });
  }
  const next = ahead[looked];
  if (taken.length > 0) call.keys.changed(key);
  const [entries, gone] = claimed(stream, group, taken, isBare);
  return [next === undefined ? '0-0' : textOf(next.id), entries, gone];
};

/** Commands by which entries go to another consumer. */
export const CLAIMS: Readonly<Record<string, Row>> = {
  xclaim: [-6, 'w', xclaim, KEY],
  xautoclaim: [-6, 'w', xautoclaim, KEY],
};
