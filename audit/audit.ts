import { dirname } from 'node:path';
import { policyOf } from '../deviations/index.js';
import { counterexample } from '../libraries/counterexample.js';
import { decidedBy } from '../libraries/frames.js';
import type { LockFactory } from '../libraries/lock-factory.js';
import { record } from '../libraries/recording.js';
import { type LibraryRun, replayLibraries } from '../libraries/run.js';
import { install } from '../libraries/runtime/install.js';
import { natives } from '../libraries/runtime/natives.js';
import { kindOf, type ViolationKind } from '../libraries/search/kinds.js';
import { shrinkForLibrary } from '../libraries/search/shrink-libraries.js';
import { UnsupportedClient } from '../libraries/session.js';
import { assumptions, type Violation } from '../properties/index.js';
import { propertyLabel } from '../report/index.js';
import type { Schedule } from '../scenarios/index.js';
import { InputError } from '../scenarios/input-error.js';
import { loadLua } from '../wire/index.js';
import { isOwnWork, promiseOf } from './cases.js';
import { causeOf, isOfEnd, LETS_TASKS_IN, lastGone, WITHOUT_KEY } from './causes.js';
import { clientKindIn, keepClassesOfNodeRedis, loadClient } from './clients.js';
import { type Defect, EXCLUSION } from './defect.js';
import { defectsOf } from './diagnosis.js';
import { environmentFor, serversIn } from './environment.js';
import type { Bench } from './load.js';
import { mute } from './mute.js';
import { updatesIn } from './optimistic.js';
import { whereOf } from './plan.js';
import { firstLineOf, Program } from './program.js';
import { endsOtherwise, MOST_NODES, OptimisticError, reasonOf } from './refusal.js';
import { isCache, waitsForHolder } from './repeats.js';
import { requiredIn, requiredTypes } from './required.js';
import { type AuditPlan, type AuditResult, CLIENT_KINDS, type ClientKind, type Finding, type Hints } from './result.js';
import { pathsIn } from './routes.js';
import { type Failing, type Searched, searchAudit } from './search.js';
import { guessedSettings } from './service-settings.js';
import { placeOf, shownFinding } from './shown-finding.js';
import { signatureFor } from './signatures.js';
import { bodyIn, filesIn } from './stored.js';
import type { Subject } from './subject.js';
import { understoodIn } from './telling.js';
import { type FoundLock, understand } from './understand.js';
import { FIRST_TTL_MS } from './units.js';
import { calls } from './unknown.js';
import { userDefects } from './users.js';
import { Wire } from './wire.js';

/** What an audit tells as it goes on. */
export type Tell = (news: { readonly doing: string; readonly done: number; readonly of: number }) => void;

/** Stands for the command that shows a failure again, and for the path of its page. */
export const AUDIT_REPLAY = '<replay>';

/** Defects that make a cache ask its source twice, or not until its guard expires, and no more. */
const HARMLESS_IN_CACHES: readonly string[] = [
  WITHOUT_KEY.id,
  'fails-open-on-error',
  LETS_TASKS_IN.id,
  'kept-on-error',
  'work-outlasts-ttl',
  'remembers-lock',
];
/** The same where who has waited long enough does the work, too. */
const HARMLESS_AFTER_WAITING: readonly string[] = ['fails-open', 'two-holders', 'over-when-given', 'outlives-key'];
/** The same of work under a lock of Redlock that may be done twice, as its file says: its nodes were slow, and nothing is done again. */
const HARMLESS_WHERE_REPEATED: readonly string[] = ['over-when-given'];
const SAYS_REPEATED = /idempot|on conflict|\bunique (?:index|constraint|key|violation)/i;

const MOST_FINDINGS = 3;
/** A schedule is made small by so many tries, and for so long: of leaders, a try may take a fifth of a second. */
const MOST_SHRINKING = 400;
const SHRINKING_MS = 10_000;

/** Loads a file, finds out how its lock is used, and searches for the schedule that breaks it. */
export async function auditFile(
  plan: AuditPlan,
  tell: Tell,
  isStopped: () => boolean = () => false,
): Promise<AuditResult> {
  install();
  await loadLua();
  const unmute = mute();
  guessedSettings.clear();
  const before = { ...process.env };
  try {
    return await audited(plan, tell, isStopped);
  } catch (error) {
    if (!(error instanceof UnsupportedClient)) throw error;
    throw new InputError(reasonOf(error, plan.path) ?? error.message, { cause: error });
  } finally {
    unmute();
    for (const name of Object.keys(process.env)) if (!Object.hasOwn(before, name)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

async function audited(plan: AuditPlan, tell: Tell, isStopped: () => boolean): Promise<AuditResult> {
  const { runs } = plan;
  tell({ doing: 'reads the file', done: 0, of: runs });
  const program = await Program.load(plan.path);
  Object.assign(process.env, environmentFor(program.sources, plan.nodes ?? serversIn(program.sources) ?? MOST_NODES));
  keepClassesOfNodeRedis(plan.path);
  const required = requiredIn(program.texts);
  calls.types = requiredTypes(program.texts, required);
  calls.unequal = required.unequal;
  calls.signature = signatureFor(program.texts);
  calls.path = pathsIn(program.texts);
  calls.body = bodyIn(program.sources);
  calls.files = filesIn(program.sources);
  const understood = await firstUnderstood(program, clientsFor(program, plan), plan);
  if (understood instanceof OptimisticError) return updatesIn(program, understood, plan);
  const [bench, found] = understood;
  if (found.seen.takenOver) throw new InputError(endsOtherwise(program.name, found.seen.alone.trial?.key ?? ''));
  const searched = await searchAudit(bench, found, {
    ...plan,
    isStopped,
    onRun: (done) => tell({ doing: 'searches', done, of: runs }),
  });
  const where = whereOf(program, found.how.plan);
  const findings: Finding[] = [];
  const { how, hosts, seen } = found;
  const subject = { bench, hosts, how, alone: seen.alone, ttlMs: how.fixedTtlMs ?? FIRST_TTL_MS };
  const ofUse = plan.replay === undefined && !isStopped() ? await userDefects(bench, found, plan) : [];
  const all = [...defectsOf(found), ...ofUse];
  const mayFail = searched.failing.length > 0 || all.length > 0;
  const harmless = await harmlessIn(subject, mayFail);
  const defects = all.filter(({ id }) => !harmless.includes(id));
  // What cannot be shown again is no finding.
  let isUnstable = searched.differs;
  for (const failing of distinct(searched.failing)) {
    if (findings.length >= MOST_FINDINGS || isStopped()) break;
    tell({ doing: `makes ${failing.kind} small`, done: searched.runs, of: runs });
    const finding = await findingOf(failing, defects, { ...plan, where, isStopped });
    isUnstable ||= finding === null;
    if (finding !== null && !harmless.includes(finding.id)) findings.push(finding);
  }
  const isNew = (defect: Defect): boolean => !findings.some(({ sentence }) => sentence === defect.sentence);
  if (plan.replay === undefined)
    findings.push(
      ...defects.filter((it) => it.isShown && isNew(it)).map((it) => shownFinding(it, it.where ?? where, plan.path)),
    );
  const isInterrupted = searched.isInterrupted || isStopped();
  return {
    name: program.name,
    verdict:
      findings.length > 0
        ? 'violated'
        : searched.acquired === 0 || isInterrupted || isUnstable
          ? 'inconclusive'
          : 'passed',
    understood: understoodIn(program, found),
    promise: promiseOf(found.how),
    admits: found.how.admits,
    findings: joined(findings),
    notes: notesOn({ ...searched, differs: isUnstable, isInterrupted }, defects.filter(isNew), found.how),
    runs: searched.runs,
    left: isInterrupted || plan.replay !== undefined ? 0 : runs - searched.runs,
    acquired: searched.acquired,
    classes: searched.classes,
    isInterrupted,
  };
}

/** Defects that do no harm in what it is: a cache, or work under a lock of Redlock that may be done twice. */
async function harmlessIn(subject: Subject, mayFail: boolean): Promise<readonly string[]> {
  const { how } = subject;
  const { program } = subject.bench;
  const isOfRedlock = program.sources.some(({ imports }) => imports.some((it) => /redlock/.test(it)));
  const isRepeated = isOfRedlock && isOwnWork(how) && program.texts.some((it) => SAYS_REPEATED.test(it));
  const isOfCache = mayFail && (await isCache(subject));
  return [
    ...(isOfCache ? HARMLESS_IN_CACHES : []),
    ...(isOfCache && (await waitsForHolder(subject)) ? HARMLESS_AFTER_WAITING : []),
    ...(isRepeated ? HARMLESS_WHERE_REPEATED : []),
  ];
}

/** Clients that a lock may be handed, the likeliest first. */
function clientsFor({ sources }: Program, { client }: AuditPlan): readonly ClientKind[] {
  if (client !== undefined) return [client];
  const { kind, isCertain } = clientKindIn(sources);
  return [kind, ...(isCertain ? [] : CLIENT_KINDS.filter((it) => it !== kind))];
}

/** Tries clients until the lock can be used with one. */
async function firstUnderstood(
  program: Program,
  kinds: readonly ClientKind[],
  hints: Hints,
): Promise<[Bench, FoundLock] | OptimisticError> {
  let problem: unknown = null;
  for (const kind of kinds) {
    try {
      const clients = await loadClient(kind, program.path, program.texts);
      const bench: Bench = {
        program,
        wire: new Wire(),
        clients,
        scripts: new Map(),
        stored: [],
        readyAfterUs: 0,
        finds: true,
        passed: new Set(),
      };
      return [bench, await understand(bench, hints)];
    } catch (error) {
      if (error instanceof OptimisticError) return error;
      problem ??= error;
    }
  }
  throw problem;
}

/** The failures that are told: two kinds may come of one thing, and the worst is enough then. */
function distinct(failing: readonly Failing[]): readonly Failing[] {
  const [first] = failing.filter(({ kind }) => EXCLUSION.includes(kind));
  return failing.filter((it) => it === first || !EXCLUSION.includes(it.kind));
}

async function findingOf(
  { kind, schedule: found, subject, extending, run, events }: Failing,
  defects: readonly Defect[],
  plan: AuditPlan & { readonly where: string; readonly isStopped: () => boolean },
): Promise<Finding | null> {
  const how = { extendsItself: extending };
  const { isStopped, where } = plan;
  const endMs = natives.cpuMs() + SHRINKING_MS;
  const isOver = (): boolean => isStopped() || natives.cpuMs() > endMs;
  const { schedule, minimal, tried } =
    plan.replay === undefined
      ? await shrinkForLibrary(subject, found, kind, how, { mostTried: MOST_SHRINKING, isStopped: isOver })
      : { schedule: found, minimal: true, tried: 0 };
  const played = await replayLibraries(subject, schedule, { ...how, trace: true });
  const shown = played.violations.find((it) => kindOf(it) === kind);
  if (shown === undefined) return null;
  const text = await counterexample(
    subject,
    schedule,
    kind,
    {
      run,
      runs: plan.runs,
      seed: plan.replay === undefined ? plan.seed : null,
      foundEvents: events,
      replay: AUDIT_REPLAY,
      showsAll: 'the report',
      ...(minimal ? {} : { shrinkingEndedAfter: tried }),
    },
    how,
  );
  const defect = shownDefect(defects, kind, shown, played);
  const ofRun = causeOf(kind, shown, played, schedule);
  const cause = ofRun === WITHOUT_KEY && (await isOfOneProcess(subject, schedule, shown, how)) ? LETS_TASKS_IN : ofRun;
  // What deletes the key of a later try of its own is no release that deletes another's.
  const isOwn = cause?.id === 'reused-token' && !(defect !== undefined && OF_VALUES.includes(defect.id));
  // What says by the clock until when it is held has told its work, and two tasks of a process need lose nothing.
  const isOther = cause !== null && (cause.id === LETS_TASKS_IN.id || isOfEnd(cause, shown, played));
  const known = isOwn || (isOther && defect?.id === 'silent-loss') ? cause : (defect ?? cause);
  const sent =
    (defect?.verb === undefined ? null : lineOf(played, defect.verb)) ??
    decidedBy(shown, played.run.trace, played.frames) ??
    lineOf(played);
  return {
    id: known?.id ?? (EXCLUSION.includes(kind) ? 'two-holders' : kind),
    property: propertyLabel(shown.property),
    kind,
    sentence: known?.sentence ?? shown.detail,
    fix: known?.fix ?? null,
    decidedBy: sent ?? where,
    place: sent === null ? placeOf(where, dirname(plan.path)) : placeOf(sent, process.cwd()),
    assumptionsBroken: assumptions(schedule, policyOf(schedule.policy)),
    text,
    found: { kind, extending, commandTimeoutMs: subject.commandTimeoutMs ?? null, schedule },
    recording: await record(subject, schedule, how),
  };
}

/** Whether two tasks of one process hold a lock at once, and two processes in their place do not. */
async function isOfOneProcess(
  subject: LockFactory,
  schedule: Schedule,
  { clients: [one, other] }: Violation,
  how: { readonly extendsItself: boolean },
): Promise<boolean> {
  if (one !== other) return false;
  const each = schedule.clients.flatMap((client) => client.locks.map((lock) => ({ ...client, locks: [lock] })));
  const clients = each.map((client, i) => ({ ...client, id: `c${i + 1}` }));
  const { violations } = await replayLibraries(subject, { ...schedule, clients, faults: [], fates: [] }, how);
  return !violations.some((it) => kindOf(it) === 'belief');
}

/** Defects of the value that acquisitions store, which explain more than one failure of its tries. */
const OF_VALUES: readonly string[] = ['shared-value', 'value-of-process'];

/** The defect that explains a failure: one by which a key goes as it has gone there, where there is one. */
function shownDefect(
  defects: readonly Defect[],
  kind: ViolationKind,
  { atUs, clients }: Violation,
  { run }: LibraryRun,
): Defect | undefined {
  const gone = lastGone(run.trace, atUs, clients)?.detail.how;
  const able = defects.filter(({ brings }) => brings.includes(kind));
  // Where all store one value, a run does not show whose key has gone.
  if (gone === undefined || defects.some(({ id }) => id === 'shared-value')) return able[0];
  return able.find(({ takes }) => takes === gone) ?? able.find(({ takes }) => takes === undefined);
}

/** The author's line that has sent such a command last; of all commands where none is named. */
function lineOf({ frames }: LibraryRun, verb = ''): string | null {
  const frame = frames.findLast(({ where, said }) => where !== null && said.toUpperCase().startsWith(verb));
  return frame === undefined ? null : `${frame.where}   ${frame.said} of ${frame.client}`;
}

/** One finding for each defect. */
function joined(findings: readonly Finding[]): Finding[] {
  return findings.filter(({ id }, i) => findings.findIndex((it) => it.id === id) === i);
}

function notesOn(
  { uncaught, differs, acquired, rejection, isInterrupted }: Searched,
  defects: readonly Defect[],
  { besides, releases }: FoundLock['how'],
): string[] {
  const notes: string[] = [];
  if (acquired === 0)
    notes.push(
      `nobody ever got the lock, so nothing was tested${rejection === undefined ? '' : `; its acquisition was last rejected with ${firstLineOf(rejection)}`}`,
    );
  if (differs)
    notes.push('two runs of one schedule differed: it keeps something between runs, or waits for something real');
  if (besides.length === 0 && releases) notes.push('it was not tried by two tasks of one process at once');
  if (isInterrupted) notes.push('the search was interrupted');
  if (uncaught !== null) notes.push(`it threw where nobody catches it, which ends a process: ${uncaught}`);
  const suspected = defects.filter(({ isShown, id }) => !isShown && id !== 'silent-loss');
  for (const { sentence } of suspected) notes.push(`${sentence} (no schedule was found on which that matters)`);
  return notes;
}
