import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { AuditResult } from './result.js';
import { idsOf } from './testing/audited.js';

function audited(file: string, runs: number): Promise<AuditResult> {
  const path = fileURLToPath(new URL(`testing/locks/${file}`, import.meta.url));
  return auditFile({ path, runs, seed: 'lockstep', budgetMs: 60_000 }, () => {});
}

describe('two tasks of one process', () => {
  it('share a token where an object keeps it', async () => {
    const { findings } = await audited('service-token.ts', 4);
    expect(findings.map(({ id }) => id)).toEqual(['shared-state']);
    expect(findings[0]?.sentence).toContain('a second one, for another resource, overwrites that of the first');
  });

  it('are let in both where a process counts how often it has entered', async () => {
    const { findings } = await audited('entered-by-process.mjs', 20);
    expect(findings.map(({ kind }) => kind)).toEqual(['belief']);
    expect(findings[0]?.sentence).toMatch(/^it lets two tasks of one process in at once/);
    expect(findings[0]?.text).toMatch(/c\d held a twice/);
  });

  it('are told apart by a lock that its own work may enter again', async () => {
    const { verdict, findings, classes } = await audited('entered-by-task.mjs', 20);
    expect({ verdict, findings, tasks: classes['two-tasks'] }).toEqual({ verdict: 'passed', findings: [], tasks: 2 });
  });

  it('delete the key of each other where all locks of a process have one value', async () => {
    const { findings } = await audited('host-owner.ts', 4);
    expect(findings.map(({ id }) => id)).toEqual(['value-of-process']);
    expect(findings[0]?.sentence).toMatch(/^all acquisitions of one process store the same value/);
  });
});

/** Who is refused the lock waits for a wake-up in Redis. */
const waiting = (connection: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const RELEASE = \`if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('rpush', KEYS[2], '1')
redis.call('pexpire', KEYS[2], 10000)
return 1\`;
export class WaitingLock {
  constructor(private readonly redis: Redis) {}
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    while ((await this.redis.set(\`{\${name}}:lock\`, token, 'PX', 10_000, 'NX')) !== 'OK') {
      const waiter = ${connection};
      await waiter.blpop(\`{\${name}}:wake\`, 10);
      if (waiter !== this.redis) waiter.disconnect();
    }
    try { return await work(); }
    finally { await this.redis.eval(RELEASE, 2, \`{\${name}}:lock\`, \`{\${name}}:wake\`, token); }
  }
}`;

it('finds a lock that waits in Redis on the connection by which its process releases', async () => {
  expect(await idsOf(waiting('this.redis'), 20)).toContain('blocks-connection');
  expect(await idsOf(waiting('this.redis.duplicate()'))).toEqual([]);
});
