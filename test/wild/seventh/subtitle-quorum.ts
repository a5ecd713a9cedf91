import Redis from 'ioredis';
import { randomBytes } from 'crypto';

const nodes = (process.env.LOCK_NODES ?? '').split(',').map(
  (url) => new Redis(url, { maxRetriesPerRequest: 0, enableOfflineQueue: false, commandTimeout: 150 }),
);
nodes.forEach((n) => n.on('error', () => {}));

const QUORUM = Math.floor(nodes.length / 2) + 1;
const DEL = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0`;
const EXT = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0`;

const count = async (ps: Promise<boolean>[]) => (await Promise.all(ps.map((p) => p.catch(() => false)))).filter(Boolean).length;
const drift = (ttl: number) => Math.ceil(ttl * 0.01) + 5;

export class QuorumLock {
  private constructor(readonly key: string, readonly value: string, private ttl: number, private until: number) {}

  static async acquire(key: string, ttl = 12_000, attempts = 8): Promise<QuorumLock> {
    for (let i = 0; i < attempts; i++) {
      const value = randomBytes(20).toString('hex');
      const t0 = performance.now();
      const votes = await count(nodes.map(async (n) => (await n.set(key, value, 'PX', ttl, 'NX')) === 'OK'));
      const until = t0 + ttl - drift(ttl);
      if (votes >= QUORUM && performance.now() < until) return new QuorumLock(key, value, ttl, until);
      await dropEverywhere(key, value);
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
    }
    throw new Error(`no quorum for ${key}`);
  }

  remaining() {
    return this.until - performance.now();
  }

  async extend(): Promise<void> {
    if (this.remaining() <= 0) throw new Error(`${this.key}: already over`);
    const t0 = performance.now();
    const votes = await count(nodes.map(async (n) => (await n.eval(EXT, 1, this.key, this.value, this.ttl)) === 1));
    if (votes < QUORUM) throw new Error(`${this.key}: extension refused (${votes}/${nodes.length})`);
    if (this.remaining() <= 0) throw new Error(`${this.key}: ran out while extending`);
    this.until = t0 + this.ttl - drift(this.ttl);
  }

  release() {
    return dropEverywhere(this.key, this.value);
  }
}

async function dropEverywhere(key: string, value: string) {
  await count(nodes.map(async (n) => (await n.eval(DEL, 1, key, value)) === 1));
}

interface SubtitleStore {
  load(movie: string): Promise<string[]>;
  /** rejects, without writing, when it cannot finish within timeoutMs */
  save(movie: string, lines: string[], timeoutMs: number): Promise<void>;
}

export async function appendCue(store: SubtitleStore, movie: string, cue: string, translate: (s: string) => Promise<string>) {
  const lock = await QuorumLock.acquire(`subs:${movie}`);
  try {
    const lines = await store.load(movie);
    const text = await translate(cue);
    if (lock.remaining() < 4_000) await lock.extend();
    const left = lock.remaining() - 1_000;
    if (left <= 0) throw new Error('lease too short to save');
    await store.save(movie, [...lines, text], left);
  } finally {
    await lock.release();
  }
}
