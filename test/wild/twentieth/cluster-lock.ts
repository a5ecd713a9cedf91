import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

// REDIS_NODES=10.0.1.4:6379,10.0.2.4:6379,10.0.3.4:6379 (standalone, not a cluster)
const nodes = (process.env.REDIS_NODES ?? '')
  .split(',')
  .map((entry) => entry.trim())
  .filter((entry) => entry.length > 0)
  .map((entry) => {
    const [host, port] = entry.replace(/^rediss?:\/\//, '').split(':');
    const node = new Redis({
      host,
      port: Number(port ?? 6379),
      lazyConnect: true,
      commandTimeout: 250, // a hanging node must not eat up the TTL
      maxRetriesPerRequest: 0,
    });
    node.on('error', () => {}); // reported by the command that failed
    return node;
  });

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class LockNotAvailableError extends Error {
  constructor(readonly resource: string) {
    super(`resource ${resource} is locked`);
  }
}

const clockDrift = (ttl: number) => Math.ceil(ttl * 0.01) + 2;

async function releaseEverywhere(key: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

/** Number of milliseconds the lock is valid for, or 0 if it was not granted. */
async function askNodes(key: string, token: string, ttl: number): Promise<number> {
  const started = performance.now();
  const settled = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', ttl, 'NX')));

  // Nodes in maintenance or unreachable have no say, the others decide.
  const answers = settled.flatMap((s) => (s.status === 'fulfilled' ? [s.value] : []));
  const grants = answers.filter((answer) => answer === 'OK').length;
  const quorum = Math.floor(answers.length / 2) + 1;

  const elapsed = performance.now() - started;
  const validity = ttl - elapsed - clockDrift(ttl);
  return grants >= quorum && validity > 0 ? validity : 0;
}

/**
 * Runs `fn` under a lock that survives the loss of single Redis nodes.
 * `fn` gets a signal that is aborted when the validity is over.
 */
export async function withLock<T>(
  resource: string,
  ttl: number,
  fn: (signal: AbortSignal) => Promise<T>,
  retries = 10,
): Promise<T> {
  const key = `lock:${resource}`;

  for (let i = 0; i <= retries; i++) {
    const token = randomUUID(); // fresh for each attempt
    const validity = await askNodes(key, token, ttl);
    if (validity === 0) {
      await releaseEverywhere(key, token);
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 200));
      continue;
    }

    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(new LockNotAvailableError(resource)), validity);
    try {
      const result = await fn(controller.signal);
      controller.signal.throwIfAborted();
      return result;
    } finally {
      clearTimeout(timer);
      await releaseEverywhere(key, token);
    }
  }
  throw new LockNotAvailableError(resource);
}
