import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { auditFile } from '../audit.js';
import type { FoundBefore } from '../result.js';

/** The processor time of a search, ms. */
const BUDGET_MS = 20_000;

/** What an audit says of a file. */
interface Audited {
  readonly ids: readonly string[];
  /** What it finds, a sentence each. */
  readonly findings: readonly string[];
  readonly understood: string;
}

/**
 * Audits a text as a file of its own.
 *
 * @param runs - Of a search. Default: none, so that plain use alone is seen.
 * @param name - Of the file. Default `lock.ts`.
 * @param replay - A schedule to run in the place of a search.
 */
export async function audited(
  text: string,
  runs: number = 0,
  name: string = 'lock.ts',
  replay?: FoundBefore,
): Promise<Audited> {
  const path = join(mkdtempSync(join(tmpdir(), 'lockstep-audit-')), name);
  writeFileSync(path, text);
  const { findings, understood } = await auditFile({ path, runs, seed: '', budgetMs: BUDGET_MS, replay }, () => {});
  return {
    ids: findings.map(({ id }) => id),
    findings: findings.map(({ sentence }) => sentence),
    understood: understood.join('\n'),
  };
}

/** The names of what it finds. */
export async function idsOf(text: string, runs: number = 0): Promise<readonly string[]> {
  return (await audited(text, runs)).ids;
}

/** The same of a text without types. */
export async function idsOfModule(text: string, runs: number = 0): Promise<readonly string[]> {
  return (await audited(text, runs, 'lock.mjs')).ids;
}
