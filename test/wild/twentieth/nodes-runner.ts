import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

interface Node {
  client: Client;
  opening?: Promise<unknown>;
}

// e.g. REDIS_NODES=redis://r1:6379,redis://r2:6379,redis://r3:6379
const nodes: Node[] = (process.env.REDIS_NODES ?? '')
  .split(',')
  .map((s) => s.trim())
  .filter(Boolean)
  .map((url) => {
    // no offline queue: a node that is down must not get our commands later
    const client = createClient({ url, disableOfflineQueue: true }) as Client;
    client.on('error', () => undefined); // a dead node is a lost vote, nothing else
    return { client };
  });

const QUORUM = Math.floor(nodes.length / 2) + 1;
const NODE_TIMEOUT_MS = 200;

const REMOVE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;

async function onNode(node: Node, command: (c: Client) => Promise<unknown>): Promise<unknown> {
  let tooLate = false;
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      tooLate = true;
      reject(new Error('node timeout'));
    }, NODE_TIMEOUT_MS);
  });
  const run = async () => {
    if (!node.client.isReady) {
      node.opening ??= node.client.connect().finally(() => (node.opening = undefined));
      await node.opening;
      if (tooLate) throw new Error('node timeout');
    }
    return command(node.client);
  };
  try {
    return await Promise.race([run(), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

async function count(command: (c: Client) => Promise<unknown>, isYes: (reply: unknown) => boolean): Promise<number> {
  const replies = await Promise.allSettled(nodes.map((n) => onNode(n, command)));
  return replies.filter((r) => r.status === 'fulfilled' && isYes(r.value)).length;
}

const remove = (key: string, token: string) =>
  count((c) => c.eval(REMOVE, { keys: [key], arguments: [token] }), (r) => r === 1);

/**
 * Runs the job on one machine only. Returns false if another machine has it.
 * The lock is renewed on a majority while the job runs; when that does not work
 * out before the validity ends, the job gets its signal.
 */
export async function runExclusive(
  jobName: string,
  job: (signal: AbortSignal) => Promise<void>,
  ttlMs = 10_000,
): Promise<boolean> {
  const key = `job:${jobName}`;
  const token = randomUUID();
  const validity = ttlMs - Math.ceil(ttlMs * 0.01) - 2;

  const asked = performance.now();
  const votes = await count((c) => c.set(key, token, { NX: true, PX: ttlMs }), (r) => r === 'OK');
  let until = asked + validity;
  if (votes < QUORUM || performance.now() >= until) {
    await remove(key, token); // on every node, whatever it answered
    return false;
  }

  const stop = new AbortController();
  let finished = false;
  let wake: NodeJS.Timeout;

  const supervise = async (): Promise<void> => {
    const t = performance.now();
    const kept = await count((c) => c.eval(RENEW, { keys: [key], arguments: [token, String(ttlMs)] }), (r) => r === 1);
    if (finished || stop.signal.aborted) return;
    if (kept >= QUORUM && performance.now() < until) until = t + validity;
    arm();
  };
  const arm = () => {
    clearTimeout(deadline);
    deadline = setTimeout(() => stop.abort(new Error(`lost ${key}`)), Math.max(0, until - performance.now()));
    wake = setTimeout(supervise, ttlMs / 4);
  };
  let deadline: NodeJS.Timeout | undefined;
  arm();

  try {
    await job(stop.signal);
    stop.signal.throwIfAborted();
    return true;
  } finally {
    finished = true;
    clearTimeout(deadline);
    clearTimeout(wake!);
    await remove(key, token);
  }
}
