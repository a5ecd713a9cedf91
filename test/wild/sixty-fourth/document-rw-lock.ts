import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

/**
 * Shared / exclusive lock for documents.
 *
 * Rendering a document takes the shared side: any number of renderers may work
 * at once. Publishing takes the exclusive side and waits until the last renderer
 * has left. Every side has a lease of 30 seconds so that a crashed process does
 * not block a document for ever; the operations are cut off at 20 seconds.
 */

const LEASE_MS = 30_000;
const WORK_LIMIT_MS = 20_000;

// KEYS: readers (set of tokens), writer (token)
const ENTER_SHARED = `
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('SCARD', KEYS[1]) == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
`;

const LEAVE_SHARED = `return redis.call('SREM', KEYS[1], ARGV[1])`;

const ENTER_EXCLUSIVE = `
if redis.call('SCARD', KEYS[1]) > 0 then
  return 0
end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0
`;

const LEAVE_EXCLUSIVE = `
if redis.call('GET', KEYS[2]) == ARGV[1] then
  return redis.call('DEL', KEYS[2])
end
return 0
`;

export class LockTimeout extends Error {}

export class DocumentLock {
  constructor(
    private readonly client: ReturnType<typeof createClient>,
    private readonly maxWait = 45_000,
  ) {}

  shared<T>(docId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.hold(docId, ENTER_SHARED, LEAVE_SHARED, work);
  }

  exclusive<T>(docId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.hold(docId, ENTER_EXCLUSIVE, LEAVE_EXCLUSIVE, work);
  }

  private async hold<T>(
    docId: string,
    enter: string,
    leave: string,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const keys = [`doc:{${docId}}:readers`, `doc:{${docId}}:writer`];
    const token = randomUUID();
    const giveUp = Date.now() + this.maxWait;

    while ((await this.client.eval(enter, { keys, arguments: [token, String(LEASE_MS)] })) !== 1) {
      if (Date.now() > giveUp) throw new LockTimeout(`document ${docId} is busy`);
      await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 100));
    }

    try {
      return await work(AbortSignal.timeout(WORK_LIMIT_MS));
    } finally {
      await this.client.eval(leave, { keys, arguments: [token] }).catch((err: Error) => {
        console.warn(`document ${docId}: unlock failed, lease will expire`, err.message);
      });
    }
  }
}

export async function render(lock: DocumentLock, renderer: string, docId: string): Promise<Buffer> {
  return lock.shared(docId, async (signal) => {
    const res = await fetch(`${renderer}/render/${docId}`, { signal });
    if (!res.ok) throw new Error(`renderer: ${res.status}`);
    return Buffer.from(await res.arrayBuffer());
  });
}

export async function publish(lock: DocumentLock, store: string, docId: string, body: string) {
  return lock.exclusive(docId, async (signal) => {
    // replaces all the parts of the document, one after the other
    const res = await fetch(`${store}/documents/${docId}`, { method: 'PUT', body, signal });
    if (!res.ok) throw new Error(`store: ${res.status}`);
  });
}
