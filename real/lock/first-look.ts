import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isOfIoredis } from './client-shape.js';
import { type Comparisons, comparisonsOf, isErrorReply, NO_COMPARISONS, type RedisConnection } from './request.js';

/** What is found out about a connection before it carries the first lock. */
export interface FirstLook {
  /** Names of the server behind it, each its own alone: two connections that share one lead to one server. */
  readonly servers: readonly string[];
  /** What it compares by itself. */
  readonly comparisons: Comparisons;
  /** What its SET did that no lock can be made of; `null` if it did what it should, or nothing could be seen. */
  readonly fault: string | null;
}

/** What can be asked of a connection to a server, and of one to a Cluster. */
interface Asked {
  readonly stream?: unknown;
  readonly isCluster?: boolean;
  info?(section: 'server'): Promise<unknown>;
  cluster?(subcommand: 'NODES'): Promise<unknown>;
  nodes?(role: 'master'): readonly { ping(): Promise<unknown> }[];
}

const PROBE_TTL_MS = 10_000;
/** How long the servers of a Cluster may take to be connected, ms: one that is away must not keep the others from voting. */
const SERVERS_MS = 1000;

/**
 * Looks at a fresh connection, in one round trip, or three where its kind is not known; never again while it lives.
 * Returns `undefined` if there is nothing to ask: ioredis-mock and simulated connections, which have no socket.
 */
export function firstLook(connection: RedisConnection & Asked): Promise<FirstLook> | undefined {
  const known = isOfIoredis(connection);
  const identified =
    connection.isCluster === true ||
    ((connection.stream !== undefined || !known) && typeof connection.info === 'function');
  if (known && !identified) return undefined;
  return Promise.all([identified ? identify(connection) : NOTHING, known ? null : faultOfSet(connection)]).then(
    ([identity, fault]) => ({ ...identity, fault }),
  );
}

const NOTHING: Omit<FirstLook, 'fault'> = { servers: [], comparisons: NO_COMPARISONS };

/** Nothing where the server does not tell, such as for want of a permission. A Cluster may have servers of several versions. */
async function identify(connection: Asked): Promise<Omit<FirstLook, 'fault'>> {
  try {
    if (connection.isCluster) {
      await connectServers(connection);
      const text = String(await connection.cluster?.('NODES'));
      return { ...NOTHING, servers: text.split('\n').flatMap((line) => /^[0-9a-f]{40}(?= )/.exec(line) ?? []) };
    }
    const info = String(await connection.info?.('server'));
    const id = /^run_id:([0-9a-f]{40})\s*$/m.exec(info);
    return { servers: id?.[1] === undefined ? [] : [id[1]], comparisons: comparisonsOf(info) };
  } catch {
    return NOTHING;
  }
}

/** ioredis connects a Cluster to a server with the first command for it, and refuses all others until that is done. */
async function connectServers(cluster: Asked): Promise<void> {
  const connected = (cluster.nodes?.('master') ?? []).map((server) => server.ping());
  await Promise.race([Promise.allSettled(connected), sleep(SERVERS_MS, undefined, { ref: false })]);
}

/** Sets a key twice as a lock does, with NX and a TTL, and looks at what came of it. */
async function faultOfSet(connection: RedisConnection): Promise<string | null> {
  const token = randomBytes(16).toString('hex');
  const key = `lockstep:probe:${token}`;
  try {
    const first = await connection.set(key, token, 'PX', PROBE_TTL_MS, 'NX');
    const second = await connection.set(key, `${token}:2`, 'PX', PROBE_TTL_MS, 'NX');
    const [value, leftMs] = await Promise.all([connection.get(key), connection.pttl(key)]);
    await connection.eval("return redis.call('del', KEYS[1])", 1, key);
    if (String(first) !== 'OK') return `SET with NX of a new key replied ${String(first)}, not OK`;
    if (second !== null || String(value) !== token) return 'SET with NX overwrote a key';
    if (!(Number(leftMs) > 0 && Number(leftMs) <= PROBE_TTL_MS)) return 'SET with PX set a key without that TTL';
    return null;
  } catch (error) {
    // A server that refuses (such as for want of a permission for this key) has shown nothing; a client that cannot has.
    if (isErrorReply(error)) return null;
    return `SET failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}
