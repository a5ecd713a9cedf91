import { Failure } from '../reply.js';
import { compareIds, type Pending, type Stream, type StreamEntry, type StreamId } from '../values.js';
import { textOf } from './streams.js';

/* Entries that consumers of a group were given, and have not acknowledged. */

/** Nobody has made such a group. @param where - What follows. */
export const noGroup = (key: string, group: string, where = ''): Failure =>
  new Failure(`NOGROUP No such key '${key}' or consumer group '${group}'${where}`);

/** Pending entries with these in the place of those that have their IDs. */
export function withPending(pending: readonly Pending[], more: readonly Pending[]): Pending[] {
  const ids = new Set(more.map(({ id }) => textOf(id)));
  return [...pending.filter(({ id }) => !ids.has(textOf(id))), ...more].sort((a, b) => compareIds(a.id, b.id));
}

/** The entry of an ID, while it is in the stream. */
export function entryOf(stream: Stream, id: StreamId): StreamEntry | undefined {
  return stream.entries.find((it) => compareIds(it.id, id) === 0);
}
