import { UnsupportedClient } from '../libraries/session.js';
import { InputError } from '../scenarios/input-error.js';
import type { Defect } from './defect.js';
import { defectsOf } from './diagnosis.js';
import { isRoute } from './hooks.js';
import type { Bench } from './load.js';
import { modesIn, saysMode } from './modes.js';
import { type Plan, takerIn, whereOf } from './plan.js';
import { NotGivenError, OptimisticError } from './refusal.js';
import type { Hints } from './result.js';
import type { Shape } from './shapes.js';
import { type FoundLock, tried } from './understand.js';

/* What the functions of a file do that run work under its lock: the lock may be right, and its use wrong. */

/** Each takes a few seconds. */
const MOST_USERS = 2;

/** What a function does under a lock that another one takes for it. */
const OF_WORK: readonly string[] = [
  'done-before-guard',
  'drops-busy',
  'forgets-done',
  'guard-released',
  'kept-on-error',
  'looks-before-lock',
  'marks-undone',
  'reads-before-lock',
  'releases-early',
  'released-before-commit',
  'work-outlasts-ttl',
];

/** Defects of a lock for readers and writers itself. */
const OF_MODES: readonly string[] = [
  'reader-adds-late',
  'reader-beside-writer',
  'reader-ignores-writer',
  'reader-kept',
  'reader-leaves-for-all',
  'readers-share-counter',
  'readers-share-ttl',
  'writer-ignores-readers',
];

/** Calls of a function, in a text. */
function callsOf(plan: Plan): RegExp {
  return new RegExp(`\\b${takerIn(plan)}\\s*(?:<[^()]*>)?\\(`);
}

/** The function by which a function of the file takes its lock as a writer, or as a reader. */
function lockOfModes({ program }: Bench, { how: { plan }, plans }: FoundLock): readonly Plan[] {
  if (plan.use !== 'handler') return [];
  const shapeOf = (it: Plan): Shape | undefined => program.shapes.find(({ name }) => name === takerIn(it));
  const modes = modesIn(program.sources);
  const isUsed = (it: Plan): boolean =>
    it.use === 'with' &&
    shapeOf(it)?.parameters.some((parameter) => saysMode(parameter, modes)) === true &&
    callsOf(it).test(shapeOf(plan)?.text ?? '');
  return plans.filter(isUsed).slice(0, 1);
}

/** The functions that call the one that runs work under the lock, or that acquires it. */
function usersOf({ program }: Bench, { how: { plan }, plans }: FoundLock): readonly Plan[] {
  if (plan.use === 'handler' || plan.use === 'script') return [];
  const calls = callsOf(plan);
  const isUser = (it: Plan): boolean =>
    takerIn(it) !== takerIn(plan) &&
    (isRoute(takerIn(it)) || program.shapes.some(({ name, text }) => name === takerIn(it) && calls.test(text)));
  // What registers a job is tried by the job that it hands over, and not by its registering.
  const isMade = ({ path }: Plan): boolean => path.some(({ kind }) => kind === 'call');
  const sorted = plans.filter(isUser).sort((a, b) => Number(isMade(b)) - Number(isMade(a)));
  const users = sorted.map((it): Plan => ({ ...it, use: 'handler' }));
  return users.filter((it, i) => users.findIndex((other) => takerIn(other) === takerIn(it)) === i).slice(0, MOST_USERS);
}

/** What is wrong with the work that functions of a file do under its lock. */
export async function userDefects(bench: Bench, found: FoundLock, hints: Hints): Promise<readonly Defect[]> {
  const { stored, finds, passed, readyAfterUs, wire } = bench;
  const { counts, setsBefore, valuesDiffer } = wire;
  const defects: Defect[] = [];
  try {
    for (const plan of [...usersOf(bench, found), ...lockOfModes(bench, found)]) {
      Object.assign(wire, { counts: false, setsBefore: false, valuesDiffer: false });
      const user = await tried(bench, plan, hints).catch(toNothing);
      const where = whereOf(bench.program, plan);
      const counted = plan.use === 'with' ? OF_MODES : OF_WORK;
      for (const it of user === null ? [] : defectsOf(user))
        if (counted.includes(it.id) && it.isShown && !defects.some(({ id }) => id === it.id))
          defects.push({ where, ...it });
    }
  } finally {
    Object.assign(bench, { stored, finds, passed, readyAfterUs });
    Object.assign(wire, { counts, setsBefore, valuesDiffer });
  }
  return defects;
}

/** A function that cannot be used by itself says nothing of the lock. */
function toNothing(error: unknown): null {
  const isOfUse = [InputError, NotGivenError, OptimisticError, UnsupportedClient].some((it) => error instanceof it);
  if (isOfUse) return null;
  throw error;
}
