import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

/** Gives an arriving flight a gate. One allocation per terminal at a time. */
const TTL_MS = 30_000;
const BUDGET_MS = 20_000;
const WAIT_MS = 5_000;
const RETRY_MS = 100;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export async function connect() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err: Error) => console.error('redis', err.message));
  await client.connect();
  return client;
}
type Client = Awaited<ReturnType<typeof connect>>;

export interface GateBoard {
  freeGates(terminal: string, opts: { signal: AbortSignal }): Promise<string[]>;
  /** Rejects, with nothing written, when the signal aborts. */
  assign(flight: string, gate: string, opts: { signal: AbortSignal }): Promise<void>;
}

export class TerminalBusyError extends Error {}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Resolves, once the key is ours, to the time at which it was asked for. */
async function take(client: Client, key: string, token: string): Promise<number> {
  for (;;) {
    const sentAt = Date.now();
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: TTL_MS },
    });
    if (reply === 'OK') return sentAt;
    await sleep(RETRY_MS + Math.floor(Math.random() * RETRY_MS));
  }
}

async function acquire(client: Client, key: string, token: string): Promise<number> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TerminalBusyError(`${key} is busy`)), WAIT_MS);
  });
  try {
    return await Promise.race([take(client, key, token), timeout]);
  } finally {
    clearTimeout(timer);
  }
}

export async function allocateGate(
  client: Client,
  board: GateBoard,
  terminal: string,
  flight: string,
): Promise<string | undefined> {
  const key = `lock:gates:${terminal}`;
  const token = randomUUID();

  const takenAt = await acquire(client, key, token);
  try {
    const left = takenAt + BUDGET_MS - Date.now();
    if (left <= 0) throw new TerminalBusyError(`${key} was granted too late`);
    const signal = AbortSignal.timeout(left);

    const [gate] = await board.freeGates(terminal, { signal });
    if (gate === undefined) return undefined;
    signal.throwIfAborted();
    await board.assign(flight, gate, { signal });
    return gate;
  } finally {
    try {
      await client.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn('gate lock left to its TTL', key, err);
    }
  }
}
