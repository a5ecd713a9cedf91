import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { AUDIT_REPLAY, type AuditPlan, auditInThread, CLIENT_KINDS, type Finding } from '../audit/index.js';
import { formatClientFailure, parseClientFailure, replayOf } from '../libraries/failure-file.js';
import { libraryPage } from '../libraries/recording.js';
import { InputError, show } from '../scenarios/input-error.js';
import { shellCommand } from '../text/shell.js';
import type { Audited, WrittenFinding } from './audit-text.js';
import type { AuditFlags } from './flags.js';
import type { Io } from './io.js';
import { ProgressLine } from './progress.js';
import { readText } from './read-text.js';
import { besideFile, writeRecording } from './report-file.js';
import { flag, word } from './values.js';
import { fileName, writeIfPossible } from './write-file.js';

const RUNS = 120;
const SEED = 'lockstep';
/** Time of the processor for the search, ms: what is found has to be made small as well, within a minute. */
const BUDGET_MS = 35_000;
const FAILURES = '.lockstep/audit';

/** What a person says of the lock in a file, and of the search. */
type AuditChoice = {
  readonly [Name in 'acquire' | 'release' | 'client' | 'nodes' | 'runs' | 'seed']?: AuditFlags[Name] | undefined;
} & {
  /** Real time for the search, ms. */
  readonly budgetMs?: number;
};

/** Hears what an audit is doing. */
export type OnNews = Parameters<typeof auditInThread>[1];

/**
 * Audits one file, and writes its findings down below the working directory.
 *
 * @param file - From the working directory.
 * @throws InputError in one sentence for a file that cannot be audited.
 */
export async function auditOf(file: string, choice: AuditChoice, io: Io, onNews: OnNews = () => {}): Promise<Audited> {
  const { runs = RUNS, seed = SEED, budgetMs = BUDGET_MS, ...rest } = choice;
  const said = saidIn(rest);
  const flags = Object.entries(said).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const again = shellCommand(io.command, 'audit', file, ...flags);
  const plan = { path: resolve(io.cwd, file), runs, seed, budgetMs, ...said };
  return audited(file, plan, { io, onNews }, (finding, name) => {
    if (finding.found === null) return { ...finding, schedule: null, page: null, replay: again };
    const text = formatClientFailure({
      client: { from: 'audit', name: file, ...(flags.length === 0 ? {} : { said }) },
      ...finding.found,
    });
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 8);
    const id = fileName(`${name.replace(/\.[cm]?[jt]sx?$/, '')}-${finding.id}-${hash}`);
    return withPage(finding, name, { path: writeIfPossible(`${FAILURES}/${id}.json`, text, io), again }, io);
  });
}

/** What was said of a lock, without what was not. */
function saidIn({
  acquire,
  release,
  client,
  nodes,
}: AuditChoice): Pick<AuditFlags, 'acquire' | 'release' | 'client' | 'nodes'> {
  return {
    ...(acquire === undefined ? {} : { acquire }),
    ...(release === undefined ? {} : { release }),
    ...(client === undefined ? {} : { client }),
    ...(nodes === undefined ? {} : { nodes }),
  };
}

/**
 * Plays the finding in a file again, with what was said of its lock when it was found.
 *
 * @param path - Of the finding, from the working directory.
 * @param check - Throws for a file that may not be audited.
 * @throws InputError in one sentence for what is no finding of an audit, or if its lock cannot be audited any more.
 */
export async function auditAgain(path: string, io: Io, check: (file: string) => void = () => {}): Promise<Audited> {
  const text = readText(path, io.cwd, 'the file of a finding, as audit writes it', FAILURES);
  const { client, kind, extending, commandTimeoutMs, schedule } = parseClientFailure(text, path);
  if (client.from !== 'audit') {
    const again = replayOf({ client, extending }, path, io.command);
    throw new InputError(`--replay: ${path} was not found by an audit; run ${again}`);
  }
  const file = client.name;
  if (!existsSync(resolve(io.cwd, file)))
    throw new InputError(`--replay: there is no ${show(file)} any more, in which it was found`);
  check(file);
  const kindOfClient = client.said?.client;
  const said = saidIn({
    ...client.said,
    client: kindOfClient === undefined ? undefined : flag(`${path}: client`, word(...CLIENT_KINDS))(kindOfClient),
  });
  const replay = { kind, extending, commandTimeoutMs, schedule };
  const plan = { path: resolve(io.cwd, file), runs: 1, seed: SEED, budgetMs: BUDGET_MS, ...said, replay };
  return audited(file, plan, { io, onNews: () => {} }, (finding, name) =>
    withPage(finding, name, { path, again: '' }, io),
  );
}

async function audited(
  file: string,
  plan: AuditPlan,
  { io, onNews }: { readonly io: Io; readonly onNews: OnNews },
  write: (finding: Finding, name: string) => WrittenFinding,
): Promise<Audited> {
  const line = new ProgressLine(io);
  const result = await auditInThread(
    plan,
    (news) => {
      onNews(news);
      line.show(`${file}: ${news.doing}, ${news.done} of ${news.of} runs`);
    },
    io.signal,
  ).finally(() => line.end());
  return { kind: 'audited', file, result, findings: result.findings.map((it) => write(it, result.name)) };
}

/** Where the schedule of a finding is, and what finds it again where that could not be written. */
interface Written {
  readonly path: string | null;
  readonly again: string;
}

function withPage(finding: Finding, name: string, { path, again }: Written, io: Io): WrittenFinding {
  const replay = path === null ? again : shellCommand(io.command, 'audit', '--replay', path);
  const text = finding.text.replaceAll(AUDIT_REPLAY, replay);
  if (path === null || finding.recording === null) return { ...finding, schedule: path, page: null, replay, text };
  const page = libraryPage(name, basename(path, '.json'), finding.recording, replay);
  return { ...finding, schedule: path, page: writeRecording(besideFile(path), page, io), replay, text };
}
