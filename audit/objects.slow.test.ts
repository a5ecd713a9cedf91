import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { AuditResult } from './result.js';
import { audited as saidOf } from './testing/audited.js';

async function audited(text: string, runs = 0): Promise<AuditResult> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), 'lock.ts');
  writeFileSync(path, text);
  return auditFile({ path, runs, seed: 's', budgetMs: 60_000 }, () => {});
}

async function idsOf(text: string, runs = 0): Promise<string[]> {
  return (await audited(text, runs)).findings.map(({ id }) => id);
}

const HEAD = `import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
`;

describe('an object that is made for a key', () => {
  const mutex = (token: string, acquire: string): string => `${HEAD}
const ACQUIRE = "${acquire}";
export function createMutex(redis: Redis, { name, ttlMs = 8_000 }: { name: string; ttlMs?: number }) {
  const ofObject = randomUUID();
  return {
    async runExclusive<T>(work: () => Promise<T>): Promise<T> {
      const token = ${token};
      if ((await redis.eval(ACQUIRE, 1, 'mutex:' + name, token, ttlMs)) !== 1) throw new Error('busy');
      try {
        return await work();
      } finally {
        await redis.eval(UNLOCK, 1, 'mutex:' + name, token);
      }
    },
  };
}`;
  const OWN =
    "local o = redis.call('get', KEYS[1]) if o and o ~= ARGV[1] then return 0 end redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
  const NEW = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0";

  it('keeps its own calls apart', async () => {
    await expect(idsOf(mutex('ofObject', OWN))).resolves.toEqual(['lets-tasks-in']);
    await expect(idsOf(mutex('randomUUID()', OWN))).resolves.toEqual([]);
  });

  it('may have one token for them where a key that is there is refused', async () => {
    await expect(idsOf(mutex('ofObject', NEW))).resolves.not.toContain('lets-tasks-in');
  });
});

it('may be made with a shorter TTL, before it is used', async () => {
  const text = `${HEAD}
export function installCommands(redis: Redis): void {
  redis.defineCommand('takeImage', { numberOfKeys: 1, lua: "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end return 0" });
}
export class Image {
  constructor(private redis: Redis, private model: string, private ttl = 60_000) {}
  async replace(build: () => Promise<string>): Promise<void> {
    const [key, token] = ['fw:' + this.model, randomUUID()];
    for (let i = 0; (await (this.redis as any).takeImage(key, token, this.ttl)) !== 1; i++) {
      if (i === 40) throw new Error('still in use');
      await new Promise((done) => setTimeout(done, 500));
    }
    try { await build(); } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  }
}`;
  await expect(idsOf(text)).resolves.toEqual([]);
});

/** Makes a copy of stock, of which `before` says what it may take the place of; its commands are those of a client that the file makes. */
const copying = (before: string): string => `${HEAD.replace('import type', 'import')}
import axios from 'axios';
import type { Pool } from 'pg';
export function stockRedis(url: string): Redis {
  const redis = new Redis(url);
  redis.defineCommand('lease', { numberOfKeys: 2, lua: "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return false" });
  return redis;
}
export class Stock {
  private readonly wms = axios.create({ timeout: 60_000 });
  constructor(private readonly redis: Redis, private readonly db: Pool) {}
  async copy(warehouse: string): Promise<void> {
    const [key, token] = ['stock:' + warehouse, randomUUID()];
    const sequence = await (this.redis as any).lease(key, 'sequence:' + warehouse, token, 30_000);
    if (sequence === null) return;
    try {
      const { data } = await this.wms.get('/stock/' + warehouse);
      const { rowCount } = await this.db.query(
        'UPDATE stock SET sequence = $2, lines = $3 WHERE warehouse = $1${before}', [warehouse, sequence, data],
      );
      if (rowCount === 0) throw new Error('a newer one is there');
    } finally { await this.redis.eval(UNLOCK, 1, key, token); }
  }
}`;

it('is handed a client with the commands that its file gives one, and may refuse who is late by the number of its lease', async () => {
  expect(await idsOf(copying(' AND sequence < $2'), 40)).toEqual([]);
  expect(await idsOf(copying(''))).toEqual(['work-outlasts-ttl']);
});

describe('a lock above clients that it is handed one by one', () => {
  const quorum = (since: string): string => `${HEAD}
export class Quorum {
  private readonly nodes: Redis[];
  constructor(node1: Redis, node2: Redis, node3: Redis) {
    this.nodes = [node1, node2, node3];
  }
  async acquire(key: string, ttlMs: number): Promise<{ token: string; validUntil: number } | null> {
    const token = randomUUID();
    const begun = performance.now();
    const asked = this.nodes.map((it) => it.set(key, token, 'PX', ttlMs, 'NX').catch(() => null));
    const granted = (await Promise.all(asked)).filter((it) => it === 'OK').length;
    const validMs = ttlMs - ${since} - ttlMs / 100 - 2;
    if (granted >= 2 && validMs > 0) return { token, validUntil: Date.now() + validMs };
    await this.release(key, token);
    return null;
  }
  async release(key: string, token: string): Promise<void> {
    await Promise.all(this.nodes.map((it) => it.eval(UNLOCK, 1, key, token).catch(() => 0)));
  }
}`;

  it('has a node for each of them', async () => {
    const { understood, findings } = await audited(quorum('(performance.now() - begun)'), 40);
    expect(understood.join()).toContain('3 nodes');
    expect(findings).toEqual([]);
    await expect(idsOf(quorum('0'), 40)).resolves.not.toEqual([]);
  });
});

describe('a function that gives a function that gives a function', () => {
  it('is called to the end', async () => {
    const text = `${HEAD}
export function lockedBy(redis: Redis, ttlMs = 20_000) {
  return function locked(name: string) {
    return function wrap<A extends unknown[], R>(work: (...given: A) => Promise<R>) {
      return async (...given: A): Promise<R> => {
        const token = randomUUID();
        if ((await redis.set('l:' + name, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
        try {
          return await work(...given);
        } finally {
          await redis.eval(UNLOCK, 1, 'l:' + name, token);
        }
      };
    };
  };
}`;
    const { understood } = await audited(text);
    expect(understood.join()).toMatch(/runs work under the lock.*its key is "l:a"/);
  });
});

describe('an error of a call', () => {
  const debit = (before: string, after: string): string => `${HEAD}
export class Ledger {
  constructor(private readonly redis: Redis) {}
  async debit(account: string, cents: number, quote: (cents: number) => Promise<number>): Promise<number> {
    const [key, token] = ['lock:' + account, randomUUID()];
    if ((await this.redis.set(key, token, 'PX', 8_000, 'NX')) !== 'OK') throw new Error('busy');
    let released: unknown;
    try {
      const left = Number((await this.redis.get('data:' + account)) ?? 0) - cents - (await quote(cents));
      ${before}
      return left;
    } finally {
      released = await this.redis.eval(UNLOCK, 1, key, token);
      ${after}
    }
  }
}`;

  it('is none of the release where it is thrown before that', async () => {
    await expect(idsOf(debit("if (!(left >= 0)) throw new RangeError('too little');", ''), 24)).resolves.toEqual([]);
    const refused = debit('', "if (released !== 'OK') throw new Error('not released');");
    await expect(idsOf(refused, 24)).resolves.toContain('rejection');
  });
});

it('gives a service the properties that are injected', async () => {
  const unlock = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
  const text = (refused: string): string => `import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Redis } from 'ioredis';
import { Pool } from 'pg';
class Payout { @IsString() @Length(1, 3) currency!: string; }
@Injectable()
export class Payouts {
  @Inject('REDIS') private readonly redis!: Redis;
  @Inject(Pool) private readonly pool!: Pool;
  async pay(id: string, payout: Payout): Promise<boolean> {
    const token = randomUUID();
    if ((await this.redis.set('payout:' + id, token, 'PX', 30_000, 'NX')) ${refused}) return false;
    try { await this.pool.query('UPDATE payouts SET paid = true WHERE id = $1', [id]); return true; }
    finally { await this.redis.eval("${unlock}", 1, 'payout:' + id, token); }
  }
}`;
  const right = await saidOf(text("!== 'OK'"));
  expect(right.ids).toEqual([]);
  expect(right.understood).toContain('"payout:a"');
  expect((await saidOf(text('=== 0'))).ids).toEqual(['fails-open']);
});

it('connects the client that a file makes with scripts of its own', async () => {
  const text = `import { randomUUID } from 'node:crypto';
import { createClient, defineScript } from 'redis';
interface Jobs { run(name: string): Promise<void> }
const FREE = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
  transformArguments: (key: string, token: string): string[] => [key, token],
  transformReply: (reply: number): boolean => reply === 1,
});
export const jobRedis = (url: string) => createClient({ url, scripts: { free: FREE } });
export type JobRedis = ReturnType<typeof jobRedis>;
export class Runner {
  constructor(private readonly redis: JobRedis, private readonly jobs: Jobs) {}
  async once(name: string): Promise<void> {
    const token = randomUUID();
    if ((await this.redis.set('job:' + name, token, { NX: true, PX: 30_000 })) !== 'OK') return;
    try { await this.jobs.run(name); } finally { await this.redis.free('job:' + name, token); }
  }
}`;
  const { ids, understood } = await saidOf(text);
  expect(understood).toContain('"job:a"');
  expect(ids).toEqual([]);
});
