import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { type AuditResult, auditFile } from './audit.js';

/** Audits one of the locks in `testing/locks`. */
function audited(file: string): Promise<AuditResult> {
  const path = fileURLToPath(new URL(`testing/locks/${file}`, import.meta.url));
  return auditFile({ path, runs: 72, seed: 'lockstep', budgetMs: 60_000 }, () => {});
}

it.each([
  ['with-node-redis.ts', 'single', 'withLock (with-node-redis.ts:10) runs work under the lock'],
  ['redlock-class.ts', 'redlock', 'DistributedLock.acquire (redlock-class.ts:13) acquires, and release releases'],
  ['cron.ts', 'guard', 'nightly (cron.ts:5) does its own work under the lock'],
])('%s is safe as %s', async (file, promise, understood) => {
  const result = await audited(file);
  expect(result).toMatchObject({ verdict: 'passed', promise, findings: [] });
  expect(result.understood[0]).toBe(understood);
});

it.each([
  ['blind-delete.ts', 'blind-release', 'blind-delete.ts:'],
  ['handler.mjs', 'blind-release', 'handler.mjs:'],
  ['factory.cjs', 'two-step-release', 'factory.cjs:'],
  ['await-using.ts', 'blind-extension', 'await-using.ts:'],
])('%s is not: %s', async (file, id, line) => {
  const { verdict, findings } = await audited(file);
  expect(verdict).toBe('violated');
  expect(findings[0]).toMatchObject({ id, assumptionsBroken: [] });
  expect(findings[0]?.decidedBy).toContain(line);
});
