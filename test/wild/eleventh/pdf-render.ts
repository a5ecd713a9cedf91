import { createClient, type RedisClientType } from 'redis';

// Contracts are rendered into one file per contract on the shared volume. Two renders of the
// same contract at a time would write into each other's file.

const LOCK_MS = 45_000;
const RENDER_MS = 30_000;
const WORKER = `pdf-worker-${process.pid}`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

let connection: Promise<RedisClientType> | undefined;

function redis(): Promise<RedisClientType> {
  connection ??= (async () => {
    const client = createClient({ url: process.env.REDIS_URL }) as RedisClientType;
    client.on('error', (err) => console.error('[redis]', err.message));
    await client.connect();
    return client;
  })();
  return connection;
}

export interface Renderer {
  toHtml(contractId: string, signal: AbortSignal): Promise<string>;
  /** stops writing when the signal aborts */
  writePdf(contractId: string, html: string, signal: AbortSignal): Promise<void>;
}

export async function renderContract(contractId: string, renderer: Renderer): Promise<'done' | 'busy'> {
  const db = await redis();
  const key = `pdf:lock:${contractId}`;

  const t0 = performance.now();
  const got = await db.set(key, WORKER, { NX: true, PX: LOCK_MS });
  if (got !== 'OK') return 'busy';

  const signal = AbortSignal.timeout(Math.max(0, Math.floor(t0 + RENDER_MS - performance.now())));
  try {
    const html = await renderer.toHtml(contractId, signal);
    // the template service is slow at times; never write with less than 15 s left
    if (signal.aborted || performance.now() - t0 > RENDER_MS) {
      throw new Error(`rendering ${contractId} took too long`);
    }
    await renderer.writePdf(contractId, html, signal);
    return 'done';
  } finally {
    await db.eval(RELEASE, { keys: [key], arguments: [WORKER] }).catch((err: Error) => {
      console.warn(`[pdf] ${key} not released: ${err.message}`);
    });
  }
}
