import { InputError } from '../../scenarios/input-error.js';
import { plainCluster, plainLock } from '../../scenarios/plain.js';
import { readSchedule } from '../../scenarios/read-schedule.js';
import type { Schedule } from '../../scenarios/schedule.js';

/*
 * A schedule as the fragment of an address: without what is as usual, packed (deflate), in letters that addresses may have.
 */

/** A longer text is not looked at, characters; and no more than this is unpacked, bytes. */
const MOST_PACKED = 200_000;
const MOST_UNPACKED = 4_000_000;

const LOCK = plainLock(0, 10_000);
const REST = { schema: 'lockstep.schedule/2', policy: { profile: 'reference' }, faults: [], fates: [] } as const;

/** A schedule without what is as usual: plain data, which {@link expanded} makes whole again. */
export function brief(schedule: Schedule): object {
  const { nodes } = schedule.cluster;
  return without(
    {
      ...schedule,
      cluster: { nodes, ...without(schedule.cluster, plainCluster(nodes)) },
      clients: schedule.clients.map((client) => ({ ...client, locks: client.locks.map((it) => without(it, LOCK)) })),
    },
    REST,
  );
}

/** The inverse of {@link brief}: whole, and as wrong as it was. */
export function expanded(value: unknown): unknown {
  if (!isObject(value)) return value;
  const { cluster, clients } = value;
  return {
    ...REST,
    ...value,
    cluster: isObject(cluster) ? { ...plainCluster(Number(cluster.nodes)), ...cluster } : cluster,
    clients: Array.isArray(clients) ? clients.map(expandedClient) : clients,
  };
}

function expandedClient(client: unknown): unknown {
  if (!isObject(client) || !Array.isArray(client.locks)) return client;
  return { ...client, locks: client.locks.map((it) => (isObject(it) ? { ...LOCK, ...it } : it)) };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The fields of `value` that are not the same in `usual`. */
function without(value: object, usual: object): object {
  const same = (name: string, it: unknown): boolean => JSON.stringify(it) === JSON.stringify(Reflect.get(usual, name));
  return Object.fromEntries(Object.entries(value).filter(([name, it]) => !same(name, it)));
}

/** A schedule in letters, digits, `-` and `_`. */
export async function packed(schedule: Schedule): Promise<string> {
  const stream = new Blob([JSON.stringify(brief(schedule))]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/**
 * The schedule that was packed.
 *
 * @throws {@link InputError} if the text was cut off or changed, or holds something that is no schedule.
 */
export async function unpacked(text: string): Promise<Schedule> {
  let value: unknown;
  try {
    value = JSON.parse(await inflated(text));
  } catch {
    throw new InputError('the address holds no schedule: it was cut off or changed; copy all of it');
  }
  return readSchedule(expanded(value));
}

async function inflated(text: string): Promise<string> {
  if (text.length > MOST_PACKED) throw new RangeError('too long');
  const bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (it) => it.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  const decoder = new TextDecoder();
  let whole = '';
  for await (const part of partsOf(stream)) {
    whole += decoder.decode(part, { stream: true });
    if (whole.length > MOST_UNPACKED) throw new RangeError('too much');
  }
  return whole + decoder.decode();
}

/** Not every browser iterates over a stream by itself. */
async function* partsOf(stream: ReadableStream<Uint8Array>): AsyncIterableIterator<Uint8Array> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}
