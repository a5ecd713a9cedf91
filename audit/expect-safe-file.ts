import { basename, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { printableLines } from '../text/printable.js';
import { auditFile } from './audit.js';
import type { AuditResult, ClientKind } from './result.js';

/** Options of {@link expectSafeFile}, for what an audit cannot find out on its own. */
export interface FileOptions {
  /** The function or method that acquires, by name. */
  readonly acquire?: string;
  /** The function or method that releases, by name. */
  readonly release?: string;
  /** The client to pass to the lock. Default: the one that the file imports or calls. */
  readonly client?: ClientKind;
  /** Number of nodes, 1 to 31. Default: as many as the lock connects to. */
  readonly nodes?: number;
  /** Maximum number of schedules. Default 120. */
  readonly runs?: number;
  /** Random seed: any text. Default `lockstep`. */
  readonly seed?: string;
  /** CPU time for the search, ms, of all threads of the process. Default 35000. */
  readonly budgetMs?: number;
}

/** Thrown by {@link expectSafeFile} for a lock that is not safe. The message has the findings. */
export class UnsafeFileError extends Error {
  override readonly name: string = 'UnsafeFileError';
  readonly result: AuditResult;

  constructor(message: string, result: AuditResult) {
    super(printableLines(message));
    this.result = result;
  }
}

/**
 * Tests the lock in a file, as `lockstep audit` does: loads the file in simulated processes, finds out how to use its lock, and
 * throws if a schedule breaks it.
 *
 * @param file - The path of a file, or its URL.
 * @throws UnsafeFileError, or InputError for a file that cannot be audited.
 * @example
 * ```ts
 * test('the lock is safe', { timeout: 120_000 }, () => expectSafeFile(new URL('./lock.ts', import.meta.url)));
 * ```
 */
export async function expectSafeFile(file: string | URL, options: FileOptions = {}): Promise<AuditResult> {
  const path = resolve(typeof file === 'string' ? file : fileURLToPath(file));
  const plan = { runs: 120, seed: 'lockstep', budgetMs: 35_000, ...options, path };
  const result = await auditFile(plan, () => {});
  if (result.verdict === 'passed') return result;
  const told = result.findings.map(({ sentence, fix, text }) =>
    [sentence, ...(fix === null ? [] : [`  fix: ${fix}`]), text].join('\n'),
  );
  const why = told.length > 0 ? told.join('\n') : result.notes.join('; ');
  throw new UnsafeFileError(`${basename(path)}: ${result.verdict}\n${why}`, result);
}
