import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { auditFile } from './audit.js';
import type { AuditResult } from './result.js';

function audited(file: string): Promise<AuditResult> {
  const path = fileURLToPath(new URL(`testing/locks/${file}`, import.meta.url));
  return auditFile({ path, runs: 24, seed: 'lockstep', budgetMs: 60_000 }, () => {});
}

describe('a lock that waits for a replica', () => {
  it('is judged by a node that has one', async () => {
    const { verdict, promise, understood, acquired, findings } = await audited('waiting.ts');
    expect(understood[0]).toMatch(/^acquire \(waiting\.ts:\d+\) acquires, and release releases$/);
    expect({ verdict, promise, findings }).toEqual({ verdict: 'passed', promise: 'replicated', findings: [] });
    expect(acquired).toBeGreaterThan(40);
  });

  it('is not safe where it goes on without an answer', async () => {
    const { promise, findings } = await audited('waiting-blind.ts');
    expect({ promise, ids: findings.map(({ id }) => id) }).toEqual({ promise: 'replicated', ids: ['wait-unheeded'] });
  });
});

it('a lock that waits for none has promised nothing of that', async () => {
  expect(await audited('with-node-redis.ts')).toMatchObject({ verdict: 'passed', promise: 'single' });
});
