import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { lazyConnect: true });

redis.defineCommand('closeUpload', {
  numberOfKeys: 1,
  lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`,
});

type WithScripts = Redis & { closeUpload(key: string, token: string): Promise<number> };

const SESSION_MS = 9_000;
const MARGIN_MS = 300;

export class UploadSession {
  private readonly key: string;
  private readonly token: string;
  private until: number;

  private constructor(key: string, token: string, until: number) {
    this.key = key;
    this.token = token;
    this.until = until;
  }

  static async open(objectId: string): Promise<UploadSession | null> {
    const key = `upload:${objectId}`;
    const token = randomBytes(16).toString('hex');
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', SESSION_MS, 'NX');
    return reply === 'OK' ? new UploadSession(key, token, sentAt + SESSION_MS - MARGIN_MS) : null;
  }

  get valid(): boolean {
    return performance.now() < this.until;
  }

  async extend(): Promise<boolean> {
    const sentAt = performance.now();
    const reply = await redis.pexpire(this.key, SESSION_MS);
    if (reply !== 1) {
      this.until = 0;
      return false;
    }
    this.until = sentAt + SESSION_MS - MARGIN_MS;
    return this.valid;
  }

  async close(): Promise<void> {
    this.until = 0;
    await (redis as WithScripts).closeUpload(this.key, this.token);
  }
}

export async function uploadParts(objectId: string, parts: Uint8Array[], put: (n: number, part: Uint8Array) => Promise<void>) {
  const session = await UploadSession.open(objectId);
  if (!session) throw new Error(`${objectId} is being uploaded by someone else`);
  try {
    for (const [n, part] of parts.entries()) {
      if (!(await session.extend())) throw new Error(`upload of ${objectId} lost its session at part ${n}`);
      await put(n, part);
    }
  } finally {
    await session.close();
  }
}

export function partCount(bytes: number, partSize = 5 * 1024 * 1024): number {
  return Math.max(1, Math.ceil(bytes / partSize));
}
