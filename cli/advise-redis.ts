import { Redis } from 'ioredis';
import type { Description } from '../advise/system.js';
import { ProvisionError } from '../real/provisioner/index.js';
import { InputError } from '../scenarios/input-error.js';
import { withoutPasswords } from '../text/secrets.js';
import type { Io } from './io.js';
import { ProgressLine } from './progress.js';

/** How long a node may take to answer, ms. */
const PATIENCE_MS = 3_000;
/** How far a replica that takes over is behind where nobody says, as a description says it. */
const USUAL_LAG = '100ms';

/** What a node says of itself. */
interface Seen {
  readonly group: Description;
  readonly runId: string;
  readonly notes: readonly string[];
}

/**
 * Reads from running nodes what of a description they know: `CONFIG GET` and `INFO`, and nothing is written. A node that
 * refuses one of them is described at its worst there, and said so.
 *
 * @throws InputError if an address is none, or two addresses are one server; ProvisionError if a node does not answer.
 */
export async function lookAtNodes(
  urls: readonly string[],
  io: Io,
): Promise<{ looked: Description; notes: readonly string[] }> {
  const line = new ProgressLine(io);
  line.show(`reading ${urls.length} nodes`);
  const seen = await Promise.all(urls.map(lookAt)).finally(() => line.end());
  const ids = seen.map(({ runId }) => runId);
  const twice = urls[ids.findIndex((id, i) => id !== '' && ids.indexOf(id) !== i)];
  if (twice !== undefined)
    throw new InputError(
      `--redis: ${withoutPasswords(twice)} is a server that is named already; each node of a lock is one of its own`,
    );
  return {
    looked: { nodes: seen.map(({ group }) => group) },
    notes: seen.flatMap(({ notes }, i) => notes.map((note) => `${withoutPasswords(urls[i] ?? '')}: ${note}`)),
  };
}

async function lookAt(url: string): Promise<Seen> {
  if (!/^rediss?:\/\/./.test(url))
    throw new InputError(`--redis: "${withoutPasswords(url)}" is no address; write it like redis://10.0.0.1:6379`);
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: PATIENCE_MS,
    commandTimeout: PATIENCE_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // What goes wrong is thrown by the command.
  redis.on('error', () => {});
  try {
    await redis.connect();
    const config = await configOf(redis);
    const info = await infoOf(redis);
    return seenOf(config, info);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ProvisionError(`--redis: ${withoutPasswords(url)} does not answer (${withoutPasswords(reason)})`);
  } finally {
    redis.disconnect();
  }
}

type Settings = ReadonlyMap<string, string>;

/** The settings that matter; `null` where the node refuses. */
async function configOf(redis: Redis): Promise<Settings | null> {
  const settings = new Map<string, string>();
  try {
    for (const name of ['appendonly', 'appendfsync', 'save', 'maxmemory', 'maxmemory-policy']) {
      const [, value = ''] = (await redis.config('GET', name)) as string[];
      settings.set(name, value);
    }
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
  return settings;
}

async function infoOf(redis: Redis): Promise<Settings | null> {
  try {
    const texts = [await redis.info('server'), await redis.info('replication')];
    const pairs = texts.join('\n').matchAll(/^(\w+):(.*?)\r?$/gm);
    return new Map([...pairs].map(([, name = '', value = '']) => [name, value]));
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
}

/** An answer, which says no: the node is there. */
function isRefusal(error: unknown): boolean {
  return error instanceof Error && /^(NOPERM|ERR|WRONG|DENIED)/.test(error.message) && !/NOAUTH/.test(error.message);
}

function seenOf(config: Settings | null, info: Settings | null): Seen {
  const replicas = Number(info?.get('connected_slaves') ?? 0);
  const isReplica = info?.get('role') === 'slave';
  const version = info?.get('redis_version') ?? 'unknown version';
  const group: Record<string, unknown> = {
    ...(config === null ? { persistence: 'none', supervisor: 'managed' } : persistenceOf(config)),
    ...(replicas > 0 ? { failover: USUAL_LAG } : {}),
    ...(/systemd/.test(info?.get('process_supervised') ?? '') ? { supervisor: 'systemd' } : {}),
  };
  const notes = [
    config === null
      ? `Redis ${version} refuses CONFIG GET; taken for a managed service that persists nothing`
      : `Redis ${version}, ${String(group.persistence)}${group.evicts === true ? `, evicts (${config.get('maxmemory-policy')})` : ''}`,
    ...(info === null ? ['it refuses INFO; whether it has replicas is not known'] : []),
    ...(replicas > 0
      ? [`${replicas} replicas; taken to take over ${USUAL_LAG} behind (--failover says otherwise)`]
      : []),
    ...(isReplica ? ['it is a replica itself, and cannot vote: name its primary'] : []),
  ];
  return { group, runId: info?.get('run_id') ?? '', notes };
}

function persistenceOf(config: Settings): Record<string, unknown> {
  const fsync = config.get('appendfsync');
  const appends = config.get('appendonly') === 'yes';
  const dumps = (config.get('save') ?? '') !== '';
  // What `no` leaves to the operating system is lost with the power as the last second of `everysec` is, only more of it.
  const persistence = appends ? (fsync === 'always' ? 'always' : 'everysec') : dumps ? 'rdb' : 'none';
  const evicts = config.get('maxmemory') !== '0' && config.get('maxmemory-policy') !== 'noeviction';
  return { persistence, evicts };
}
