import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { AUDIT_REPLAY, type AuditResult, auditInThread, type Finding } from '../audit/index.js';
import { guestPage } from '../guests/recording.js';
import { InputError, show } from '../scenarios/input-error.js';
import { shellCommand } from '../text/shell.js';
import { auditJson, auditText, type WrittenFinding } from './audit-text.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { AuditFlags } from './flags.js';
import { type Io, say, widthOf, writeJson } from './io.js';
import { ProgressLine } from './progress.js';
import { besideFile, writeRecording } from './report-file.js';
import { fileName, writeIfPossible, writeNamed } from './write-file.js';

const RUNS = 120;
const SEED = 'lockstep';
/** Of real time for the search, ms: what is found has to be made small as well, within a minute. */
const BUDGET_MS = 35_000;
const FAILURES = '.lockstep/audit';

/** Tells whether the lock in a file is safe. */
export async function audit(file: string, flags: AuditFlags, io: Io): Promise<ExitCode> {
  const path = resolve(io.cwd, file);
  if (!existsSync(path) || !statSync(path).isFile())
    throw new InputError(`audit: there is no such file: ${show(file)}`);
  const { runs = RUNS, seed = SEED, nodes, client, acquire, release } = flags;
  const line = new ProgressLine(io);
  const plan = { path, runs, seed, budgetMs: BUDGET_MS, nodes, client, acquire, release };
  const result = await auditInThread(
    plan,
    ({ doing, done, of }) => line.show(`${basename(path)}: ${doing}, ${done} of ${of} runs`),
    io.signal,
  ).finally(() => line.end());
  const findings = result.findings.map((it) => written(it, result, file, io));
  const test = flags.test === undefined ? null : writeTest(path, flags, io);
  if (flags.json) writeJson(io, 'lockstep.audit/1', auditJson(result, findings));
  else io.stdout.write(auditText(result, findings, widthOf(io)));
  if (test !== null) say(io, `wrote ${test}`);
  if (result.isInterrupted) return Exit.interrupted;
  return { passed: Exit.ok, violated: Exit.violated, inconclusive: Exit.inconclusive }[result.verdict];
}

function written(finding: Finding, { name }: AuditResult, file: string, io: Io): WrittenFinding {
  if (finding.file === null || finding.recording === null) return { ...finding, schedule: null, page: null };
  const hash = createHash('sha256').update(finding.file).digest('hex').slice(0, 8);
  const id = fileName(`${name.replace(/\.[cm]?[jt]sx?$/, '')}-${finding.id}-${hash}`);
  const schedule = writeIfPossible(`${FAILURES}/${id}.json`, finding.file, io);
  const again = shellCommand(io.command, 'audit', file);
  const page =
    schedule === null ? null : writeRecording(besideFile(schedule), guestPage(name, id, finding.recording, again), io);
  return { ...finding, schedule, page, text: finding.text.replaceAll(AUDIT_REPLAY, again) };
}

/** Writes a test that audits the file again. @returns Its path. */
function writeTest(path: string, { test, nodes, client, acquire, release }: AuditFlags, io: Io): string {
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
