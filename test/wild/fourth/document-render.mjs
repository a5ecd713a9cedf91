import { randomUUID } from 'node:crypto';
import Redis from 'iovalkey';

const redis = new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379', { lazyConnect: true });

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class RenderTimeout extends Error {
  constructor(documentId, ms) {
    super(`rendering ${documentId} took longer than ${ms}ms`);
    this.name = 'RenderTimeout';
  }
}

function timeLimit(documentId, ms) {
  let timer;
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new RenderTimeout(documentId, ms)), ms);
  });
  return { promise, clear: () => clearTimeout(timer) };
}

export const stats = { rendered: 0, busy: 0, timedOut: 0 };

/** fn has timeoutMs; the key outlives that by ten seconds. */
export async function withDocument(documentId, fn, { timeoutMs = 20_000, client = redis } = {}) {
  const key = `document:${documentId}:render`;
  const token = randomUUID();
  const reply = await client.set(key, token, 'PX', timeoutMs + 10_000, 'NX');
  if (reply !== 'OK') {
    stats.busy++;
    return null;
  }
  const limit = timeLimit(documentId, timeoutMs);
  try {
    const result = await Promise.race([fn(documentId), limit.promise]);
    stats.rendered++;
    return result;
  } catch (err) {
    if (err instanceof RenderTimeout) stats.timedOut++;
    throw err;
  } finally {
    limit.clear();
    await client.eval(UNLOCK, 1, key, token);
  }
}

export async function renderDocument(documentId, { load, render, store }) {
  return withDocument(documentId, async (id) => {
    const source = await load(id);
    const output = await render(source);
    await store(id, output);
    return output.length;
  });
}
