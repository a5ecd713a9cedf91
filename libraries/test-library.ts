import { pathToFileURL } from 'node:url';
import { InputError, type Schedule } from '../scenarios/index.js';
import { loadSubject, MATRIX, ONLY_BY_NAME } from './adapters/index.js';
import { counterexample } from './counterexample.js';
import { COMMAND_TIMEOUT_MS, type LockFactory, lockFactoryOf } from './lock-factory.js';
import type { MakeLock } from './lock-under-test.js';
import { type Loaded, mixOf } from './mix.js';
import { type Recording, record } from './recording.js';
import { replayLibraries } from './run.js';
import { install } from './runtime/install.js';
import { watchdog } from './runtime/watchdog.js';
import { FAULT_CLASSES, type FaultClass, onNodes } from './search/fault-classes.js';
import { kindOf, type ViolationKind } from './search/kinds.js';
import { type Cell, searchLibraries } from './search/search.js';
import { shrinkForLibrary } from './search/shrink-libraries.js';

/** A library to test: one of the matrix, or a file of somebody's own; or two of the matrix, beside each other. */
export interface LibraryRef {
  /** Its name in commands; of two, with a comma between. */
  readonly id: string;
  /** Of a library of one's own: the module's path. */
  readonly path?: string;
  /** Of two: whether they use one key, where some names do that. */
  readonly sameKey?: boolean;
}

/** What is to be done to a library; plain, so that it can be sent to a worker. */
export interface LibraryTestPlan {
  readonly library: LibraryRef;
  readonly faults: readonly string[];
  readonly runs: number;
  readonly seed: string;
  readonly shrink: boolean;
  /** On how many nodes, where it is not for a class of faults to say. */
  readonly nodes?: number;
}

/** A failure of a cell, made small. */
interface LibraryFailure extends Recording {
  readonly kind: ViolationKind;
  readonly run: number;
  readonly foundEvents: number;
  readonly minimal: boolean;
  readonly assumptionsBroken: readonly string[];
  /** In at most twenty lines; the command that shows it again is to be put in the place of {@link REPLAY}. */
  readonly text: string;
}

/** Stands for the command that shows a failure again. */
export const REPLAY = '<replay>';

/** A cell of the matrix with its counterexamples. */
export interface LibraryCell extends Omit<Cell, 'found'> {
  readonly failures: readonly LibraryFailure[];
}

/** Which library is tested, and what is taken for its belief. */
export interface TestedLibrary {
  readonly library: string;
  readonly version: string;
  readonly belief: string;
  /** On how many nodes; `null` where each class of faults says that. */
  readonly nodes: number | null;
}

/** What a worker tells of a test as it goes on. */
type LibraryTestNews =
  | { readonly type: 'library'; readonly about: TestedLibrary }
  | { readonly type: 'progress'; readonly fault: string; readonly done: number }
  | { readonly type: 'cell'; readonly cell: LibraryCell };

/** What is loaded of a file of one's own: `makeLock`, or the default export. */
interface OwnModule {
  readonly makeLock?: MakeLock;
  readonly default?: MakeLock;
}

/**
 * Loads what a plan names, behind the dispatchers.
 *
 * @throws InputError for a file of one's own that cannot be loaded, or makes no lock.
 */
export async function loadLibrary({ id, path, sameKey = false }: LibraryRef): Promise<Loaded> {
  install();
  const [old, joining] = path === undefined ? id.split(',') : [];
  if (old !== undefined && joining !== undefined)
    return { ...mixOf(await loadLibrary({ id: old }), await loadLibrary({ id: joining }), sameKey), library: null };
  const library = path === undefined ? [...MATRIX, ...ONLY_BY_NAME].find((it) => it.id === id) : undefined;
  if (library !== undefined) return { ...(await loadSubject(library)), library };
  if (path === undefined) throw new RangeError(`there is no library "${id}"`);
  const module = (await moduleAt(path).catch((error: unknown) => {
    throw new InputError(`${path} cannot be loaded: ${firstLineOf(error)}`, { cause: error });
  })) as OwnModule;
  const make = module.makeLock ?? module.default;
  if (typeof make !== 'function')
    throw new InputError(`${path} has to export makeLock({ nodes }), or have it as its default`);
  return { ...(await lockFactoryOf(id, make, COMMAND_TIMEOUT_MS)), library: null };
}

function firstLineOf(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).split('\n', 1)[0] ?? '';
}

async function moduleAt(path: string): Promise<unknown> {
  if (!/\.[cm]?ts$/.test(path)) return import(pathToFileURL(path).href);
  // Node 20 has no way of its own to load TypeScript.
  const { createJiti } = await import('jiti');
  return createJiti(import.meta.url, { moduleCache: false }).import(path);
}

/** Tests one library with class after class of faults. */
export async function testLibrary(plan: LibraryTestPlan, tell: (news: LibraryTestNews) => void): Promise<void> {
  watchdog.start(plan.library.id);
  try {
    await testClasses(plan, tell);
  } finally {
    watchdog.stop();
  }
}

async function testClasses(plan: LibraryTestPlan, tell: (news: LibraryTestNews) => void): Promise<void> {
  const subject = await loadLibrary(plan.library);
  const { library } = subject;
  const nodes = plan.nodes ?? library?.nodes;
  const about = {
    library: library?.package ?? plan.library.id,
    version: library?.version ?? '',
    belief: library?.belief ?? 'what its locks say of themselves',
    nodes: nodes ?? null,
  };
  tell({ type: 'library', about });
  for (const it of FAULT_CLASSES) {
    const faults = plan.faults.includes(it.id) ? onNodes(it, nodes) : null;
    if (faults === null) continue;
    const cell = await searchLibraries(subject, faults, {
      seed: plan.seed,
      runs: plan.runs,
      onRun: (done) => tell({ type: 'progress', fault: faults.id, done }),
    });
    const { found, ...counts } = cell;
    const failures: LibraryFailure[] = [];
    if (plan.shrink) for (const it of found) failures.push(await failureOf(subject, faults, it, plan));
    tell({ type: 'cell', cell: { ...counts, failures } });
  }
}

async function failureOf(
  subject: LockFactory,
  faults: FaultClass,
  { kind, run, schedule: found, events, assumptionsBroken }: Cell['found'][number],
  plan: LibraryTestPlan,
): Promise<LibraryFailure> {
  const options = { extendsItself: faults.extendsItself ?? false };
  const { schedule, minimal, tried } = await shrinkForLibrary(subject, found, kind, options);
  const where = {
    run,
    runs: plan.runs,
    seed: plan.seed,
    foundEvents: events,
    replay: REPLAY,
    onOneNode: '--nodes 1',
    ...(minimal ? {} : { shrinkingEndedAfter: tried }),
  };
  const text = await counterexample(subject, schedule, kind, where, options);
  const recorded = await record(subject, schedule, options);
  return { kind, run, foundEvents: events, minimal, assumptionsBroken, text, ...recorded };
}

/** A schedule with a library: what is found, and in words for each kind of it. */
interface ShownLibrary extends Recording {
  readonly violations: readonly ViolationKind[];
  readonly texts: readonly string[];
}

/** Shows a schedule with a library. */
export async function showLibrary(
  library: LibraryRef,
  schedule: Schedule,
  extendsItself: boolean,
): Promise<ShownLibrary> {
  const subject = await loadLibrary(library);
  const { run, violations } = await replayLibraries(subject, schedule, { extendsItself });
  const kinds = [...new Set(violations.map(kindOf))];
  const texts: string[] = [];
  for (const kind of kinds) {
    const where = { run: 0, runs: 1, seed: null, foundEvents: run.events, replay: REPLAY, showsAll: '--open' };
    texts.push(await counterexample(subject, schedule, kind, where, { extendsItself }));
  }
  return { violations: kinds, texts, ...(await record(subject, schedule, { extendsItself })) };
}
