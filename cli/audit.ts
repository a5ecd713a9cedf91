import { basename, dirname, join, relative, resolve } from 'node:path';
import { NoLockError } from '../audit/index.js';
import { InputError } from '../scenarios/input-error.js';
import { type Accepted, type Baseline, baselineOf } from './audit-baseline.js';
import { auditFiles, pathFrom, whyNoLock } from './audit-files.js';
import { auditAgain, auditOf } from './audit-one.js';
import { writeAuditPass } from './audit-page.js';
import {
  auditCases,
  auditJson,
  auditSummary,
  auditsJson,
  auditText,
  type FileOutcome,
  type WrittenFinding,
} from './audit-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { AuditFlags } from './flags.js';
import { type Io, say, widthOf, writeJson } from './io.js';
import { pageLine } from './pass-page.js';
import { reporterOf } from './reporters/option.js';
import { isAlone } from './reporters/outcome.js';
import { tellSuite } from './reporters/tell.js';
import { writeNamed } from './write-file.js';

/** Tells whether the locks in files are safe. */
export async function audit(words: readonly string[], flags: AuditFlags, io: Io): Promise<ExitCode> {
  if (flags.replay !== undefined) return replay(flags.replay, words, flags, io);
  const { files, isMany } = auditFiles(words, flags.skip ?? false, io.cwd);
  if (isMany && typeof flags.test === 'string')
    throw new InputError('--test: one file cannot test many; leave out its name, and each gets its own');
  const baseline = baselineOf(flags, io.cwd);
  const began = performance.now();
  const outcomes: FileOutcome[] = [];
  for (const file of files) {
    const outcome = io.signal.aborted ? null : await outcomeOf(file, flags, io, isMany);
    if (outcome !== null) outcomes.push(outcome);
  }
  const { told, gone } = against(baseline, outcomes, flags, io);
  tell({ told, gone, isMany, seconds: (performance.now() - began) / 1000 }, flags, io);
  for (const it of told)
    if (it.kind === 'audited' && flags.test !== undefined) say(io, `wrote ${writeTest(it.file, flags, io)}`);
  for (const { file, property, id } of gone ?? [])
    say(io, `${flags.baseline}: ${property} (${id}) is no longer found in ${file}; remove it, or add --accept`);
  if (!io.signal.aborted) return exitOf(told);
  const whole = told.filter((it) => it.kind !== 'audited' || !it.result.isInterrupted).length;
  say(io, `interrupted: ${whole} of ${files.length} ${files.length === 1 ? 'file' : 'files'} audited to the end`);
  return Exit.interrupted;
}

/** Audits one file. @returns `null` where it was interrupted before anything could be said. */
async function outcomeOf(file: string, flags: AuditFlags, io: Io, isMany: boolean): Promise<FileOutcome | null> {
  const why = isMany ? whyNoLock(file) : null;
  if (why !== null) return { kind: 'skipped', file, why };
  try {
    return await auditOf(file, flags, io);
  } catch (error) {
    if (io.signal.aborted) return null;
    if (!isMany || !(error instanceof InputError)) throw error;
    return { kind: error instanceof NoLockError ? 'skipped' : 'refused', file, why: error.message };
  }
}

/** What came of all files. */
interface Told {
  readonly told: readonly FileOutcome[];
  /** What a baseline has, and is no longer found; `undefined` without one. */
  readonly gone: readonly Accepted[] | undefined;
}

/** What is found beside what is accepted, or becomes so. */
function against(baseline: Baseline | null, outcomes: readonly FileOutcome[], { accept }: AuditFlags, io: Io): Told {
  if (baseline === null) return { told: outcomes, gone: undefined };
  // Of a file that was not audited to the end, it is not known what is no longer found.
  const whole = new Map<string, readonly WrittenFinding[]>();
  for (const it of outcomes)
    if (it.kind === 'audited' && it.result.verdict !== 'inconclusive' && !it.result.isInterrupted)
      whole.set(it.file, it.findings);
  if (accept) say(io, `wrote ${baseline.accept(whole)}`);
  const told = outcomes.map((it): FileOutcome => {
    if (it.kind !== 'audited') return it;
    return { ...it, findings: it.findings.map((one) => ({ ...one, accepted: baseline.has(it.file, one) })) };
  });
  return { told, gone: baseline.gone(whole) };
}

/** What came of all files, and how it was asked for. */
interface All extends Told {
  readonly isMany: boolean;
  readonly seconds: number;
}

function tell({ told, gone, isMany, seconds }: All, flags: AuditFlags, io: Io): void {
  const reporter = reporterOf(flags);
  const summary = auditSummary(told);
  const [first] = told;
  const page = isMany || first?.kind !== 'audited' ? null : writeAuditPass(first, flags, io);
  if (reporter === 'json' && isMany) writeJson(io, 'lockstep.audits/1', auditsJson(told, gone));
  else if (reporter === 'json' && first?.kind === 'audited')
    writeJson(io, 'lockstep.audit/1', {
      ...auditJson(first),
      ...(gone === undefined ? {} : { noLongerFound: gone }),
      ...(page === null ? {} : { report: page }),
    });
  if (!isAlone(reporter)) {
    const text = (it: FileOutcome): string =>
      it.kind === 'audited'
        ? auditText(it, widthOf(io))
        : `${it.kind === 'skipped' ? '–' : '?'} ${it.file}: ${it.why}\n`;
    io.stdout.write(`${[...told.map(text), ...(isMany ? [`${summary}\n`] : [])].join('\n')}${pageLine(page)}`);
  }
  const cases = told.flatMap((it) => auditCases(it, (path) => pathFrom(io.cwd, path)));
  tellSuite(reporter, { name: 'lockstep audit', cases, seconds, summary }, io);
}

/** The worst of what came of the files; what a baseline has is accepted. */
function exitOf(outcomes: readonly FileOutcome[]): ExitCode {
  const isNew = (it: FileOutcome): boolean => it.kind === 'audited' && it.findings.some(({ accepted }) => !accepted);
  const isOpen = (it: FileOutcome): boolean =>
    it.kind === 'refused' || (it.kind === 'audited' && it.result.verdict === 'inconclusive');
  if (outcomes.some(isNew)) return Exit.violated;
  return outcomes.some(isOpen) ? Exit.inconclusive : Exit.ok;
}

/** Shows a finding again. */
async function replay(path: string, words: readonly string[], flags: AuditFlags, io: Io): Promise<ExitCode> {
  const [odd] = [...words, ...Object.keys(flags).filter((it) => !['replay', 'json', 'reporter'].includes(it))];
  if (odd !== undefined)
    throw new InputError(`--replay: its file says which lock it is, and how it was audited; leave out ${odd}`);
  const began = performance.now();
  const again = await auditAgain(path, io);
  const isReproduced = again.findings.length > 0;
  tell({ told: [again], gone: undefined, isMany: false, seconds: (performance.now() - began) / 1000 }, flags, io);
  say(io, `${isReproduced ? 'reproduced' : 'not reproduced'}: the finding of ${path}`);
  return isReproduced ? Exit.ok : Exit.notReproduced;
}

/** Writes a test that audits the file again. @returns Its path. */
function writeTest(file: string, { test, nodes, client, acquire, release }: AuditFlags, io: Io): string {
  const path = resolve(io.cwd, file);
  const beside = path.replace(/(\.[cm]?[jt]sx?)$/, '.audit.test.ts');
  const target = typeof test === 'string' ? resolve(io.cwd, test) : beside;
  const from = relative(dirname(target), path);
  const options = Object.entries({ nodes, client, acquire, release }).filter(([, value]) => value !== undefined);
  const given = options.map(([name, value]) => `${name}: ${JSON.stringify(value)}`).join(', ');
  const text = `import { test } from 'vitest';
import { expectSafeFile } from 'lockstep/audit';

test(${JSON.stringify(`the lock in ${basename(path)} is safe`)}, { timeout: 120_000 }, () =>
  expectSafeFile(new URL(${JSON.stringify(from.startsWith('.') ? from : `./${from}`)}, import.meta.url)${given === '' ? '' : `, { ${given} }`}));
`;
  return writeNamed('--test', relative(io.cwd, target) || join(io.cwd, 'lock.test.ts'), text, io.cwd);
}
