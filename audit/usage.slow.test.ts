import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { AuditResult } from './result.js';
import { audited as auditedText } from './testing/audited.js';

/** How one of the locks in `testing/locks` is used, and what is wrong with it. */
interface Case {
  readonly file: string;
  /** What is understood of it; the file and its line are left out. */
  readonly use: string;
  readonly key: string;
  /** Of its findings, the first; `null` for a right one. */
  readonly id: string | null;
}

const RUNS = 24;

function audited(file: string): Promise<AuditResult> {
  const path = fileURLToPath(new URL(`testing/locks/${file}`, import.meta.url));
  return auditFile({ path, runs: RUNS, seed: 'lockstep', budgetMs: 60_000 }, () => {});
}

async function check({ file, use, key, id }: Case): Promise<void> {
  const { verdict, understood, findings, acquired } = await audited(file);
  expect(understood[0]?.replace(/ \(.*?\)/, '')).toBe(use);
  expect(understood[1]).toContain(`its key is ${JSON.stringify(key)}`);
  expect(findings.map((it) => it.id).slice(0, 1)).toEqual(id === null ? [] : [id]);
  expect(verdict).toBe(id === null ? 'passed' : 'violated');
  expect(acquired).toBeGreaterThan(RUNS);
}

it.each<Case>([
  { file: 'job-object.ts', use: 'runOnce runs work under the lock', key: 'job:a:a', id: null },
  {
    file: 'task-runner.mjs',
    use: 'TaskRunner.process does its own work under the lock',
    key: 'task:a:a',
    id: 'two-step-release',
  },
])('hands $file a job of which the fields make the key', check);

it.each<Case>([
  { file: 'text-result.ts', use: 'rendered runs work under the lock', key: 'render:a', id: null },
  { file: 'text-result-blind.mjs', use: 'shouted runs work under the lock', key: 'a', id: 'blind-release' },
])('gives $file the result that it wants of its work', check);

it.each<Case>([
  { file: 'host-port.ts', use: 'createLocker.lock acquires, and what it gives releases', key: 'a', id: null },
  { file: 'host-options.mjs', use: 'Locker.acquire acquires, and release releases', key: 'a', id: 'blind-release' },
  { file: 'node-list.ts', use: 'Quorum.acquire acquires, and release releases', key: 'a', id: null },
])('tells $file where its servers are', check);

it.each<Case>([
  { file: 'callback.cjs', use: 'the default export acquires, and what it gives releases', key: 'a', id: null },
  { file: 'callback-mutex.cjs', use: 'Mutex.lock acquires, and unlock releases', key: 'a', id: 'blind-release' },
  { file: 'handed-release.mjs', use: 'whenFree runs work under the lock', key: 'a', id: null },
])('hears what $file tells by callbacks', check);

it.each<Case>([
  { file: 'begun-first.mjs', use: 'lockFor.acquire acquires, and release releases', key: 'a', id: null },
  {
    file: 'connects-first.ts',
    use: 'LockManager.acquireLock acquires, and releaseLock releases',
    key: 'a',
    id: 'blind-release',
  },
])('begins $file before it is used', check);

it.each<Case>([
  { file: 'fluent.ts', use: 'Mutex.on.acquire acquires, and release releases', key: 'mutex:a', id: null },
  {
    file: 'election-fluent.ts',
    use: 'Election.start asks for the lock; isLeader says who has it, and stop releases',
    key: 'a',
    id: null,
  },
  { file: 'plural.ts', use: 'locks.of.acquire acquires, and release releases', key: 'lock:a', id: 'blind-release' },
])('finds the lock among what $file gives', check);

it.each<Case>([
  { file: 'decorated.ts', use: 'exclusive runs work under the lock', key: 'a', id: 'blind-release' },
  { file: 'decorated-standard.ts', use: 'exclusive runs work under the lock', key: 'a', id: null },
  { file: 'middleware.mjs', use: 'oneRequestAtATime runs work under the lock', key: 'request:a:a', id: null },
  { file: 'middleware-blind.ts', use: 'oneAtATime runs work under the lock', key: 'lock:a', id: 'blind-release' },
  { file: 'koa.mjs', use: 'koaLock runs work under the lock', key: 'koa:a', id: 'blind-release' },
])('decorates a method, or serves a request, by $file', check);

it.each<Case>([
  { file: 'too-long.ts', use: 'guarded runs work under the lock', key: 'a', id: null },
  { file: 'rejecting-release.ts', use: 'Gate.acquire acquires, and release releases', key: 'a', id: 'rejection' },
])('hears of $file that the lock is over, and nothing else, from a release that rejects', check);

it.each<Case>([
  { file: 'status-result.ts', use: 'acquire acquires, and release releases', key: 'a', id: null },
  { file: 'text-answer.mjs', use: 'acquire acquires, and release releases', key: 'a', id: 'fails-open-on-error' },
])('tells by what $file gives whether it was refused', check);

/** A leader whose TTL has to exceed its other settings. */
const ELECTION = `import { EventEmitter } from 'node:events';
const CLAIM = "local v = redis.call('GET', KEYS[1]) if v == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end if v then return 0 end redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
const RESIGN = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
export class Election extends EventEmitter {
  #id = Math.random().toString(36); #until = 0; #timer = null;
  constructor(client, name, { ttl = 15_000, margin = 3_000, every = 4_000 } = {}) {
    super();
    if (ttl <= margin + every) throw new RangeError('ttl must exceed margin + every');
    Object.assign(this, { client, key: 'leader:' + name, ttl, margin, every });
  }
  isLeader() { return performance.now() < this.#until; }
  start() { this.#timer = setInterval(() => this.#claim(), this.every); return this.#claim(); }
  async #claim() {
    const asked = performance.now();
    const mine = await this.client.eval(CLAIM, 1, this.key, this.#id, this.ttl).catch(() => 0);
    this.#until = mine === 1 ? asked + this.ttl - this.margin : 0;
  }
  async stop() {
    clearInterval(this.#timer);
    this.#until = 0;
    await this.client.eval(RESIGN, 1, this.key, this.#id);
  }
}`;

/** Runs a job in each slot of a schedule, on one machine. */
const SCHEDULE = `import { randomUUID } from 'node:crypto';
export function cronGuard({ redis }) {
  const schedule = (name, interval, job) => {
    let timer;
    const running = new Set();
    const plan = () => {
      const next = Math.floor(Date.now() / interval) * interval + interval;
      timer = setTimeout(async () => {
        plan();
        const won = (await redis.set('cron:' + name + ':' + next, randomUUID(), 'PX', 3 * interval, 'NX')) === 'OK';
        if (won) { const run = job(new Date(next)); running.add(run); await run; running.delete(run); }
      }, next - Date.now());
    };
    plan();
    return async function stop() { clearTimeout(timer); await Promise.all(running); };
  };
  return { schedule };
}`;

it.each([
  ['a class that throws for the TTL that it is given', ELECTION, 'Election.start'],
  ['a schedule that is stopped by a function that waits for its jobs', SCHEDULE, 'cronGuard.schedule'],
])('uses %s', async (_, text, use) => {
  const { ids, understood } = await auditedText(text, 0, 'lock.mjs');
  expect(understood).toContain(use);
  expect(ids).toEqual([]);
});
