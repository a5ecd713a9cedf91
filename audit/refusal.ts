import { UnsupportedClient } from '../libraries/session.js';
import { InputError } from '../scenarios/input-error.js';
import type { Defect } from './defect.js';
import { knownServiceAt } from './hosts.js';
import { nameOfPlan, type Plan } from './plan.js';
import { firstLineOf } from './program.js';

/** Most nodes of a lock of which nothing says how many it has. */
export const MOST_NODES = 5;

/** What is wrong with a file in which there is nothing to audit. */
export class NoLockError extends InputError {
  override readonly name: string = 'NoLockError';
}

/** Why a lock that gives nothing is none that is known. */
export const UNSAID = 'returned before that was granted, and nothing was found that says who has the lock';

/** Why a function that a file does not export is no lock. */
export const UNRELEASED = 'is not exported, and what was exported could not be used: nothing was seen that releases it';

/** A function that sets a key, and gives no lock though nothing is in its way. */
export class NotGivenError extends Error {
  constructor(name: string, error: unknown) {
    const rejected = error === null ? 'gave no lock' : `was rejected with ${firstLineOf(error)}`;
    const isKnown = error === UNSAID || error === UNRELEASED;
    super(`${name} set a key in Redis and ${isKnown ? error : `${rejected}, with nothing in its way`}`);
  }
}

/** What optimistic updates come to that are made at once. */
export interface Judged {
  readonly defect: Defect | null;
  /** Runs in which updates were made at once. */
  readonly runs: number;
  /** Updates that were made in them. */
  readonly updates: number;
}

/** A function that changes a value where nobody else has, and holds nothing. */
export class OptimisticError extends NotGivenError {
  readonly plan: Plan;
  readonly judged: Judged;

  constructor(plan: Plan, key: string, judged: Judged) {
    const name = nameOfPlan(plan);
    super(name, null);
    this.plan = plan;
    this.judged = judged;
    this.message = `${name} changes ${JSON.stringify(key)} by WATCH and MULTI: that is an optimistic update, in which nobody holds a lock`;
  }
}

/** Says why no lock was found in a file. */
export function notFound(name: string, plans: readonly Plan[], problems: readonly unknown[]): InputError {
  const reasons = problems.map((it) => reasonOf(it, name));
  const elsewhere = reasons.find((it) => it !== null);
  if (elsewhere !== undefined && elsewhere !== null) return new InputError(elsewhere);
  const notGiven = problems.find((it) => it instanceof NotGivenError);
  const tried =
    plans.length === 0
      ? 'it exports nothing that could be called'
      : notGiven !== undefined
        ? notGiven.message
        : `${plans.length} ways to call it were tried, and none of them set a key in Redis by SET, SETNX, or a script`;
  const problem = problems.length === 0 || notGiven !== undefined ? '' : ` (${firstLineOf(problems[0])})`;
  return new NoLockError(
    `${name}: no lock was found in it: ${tried}${problem}; --acquire <name> says which function acquires`,
  );
}

/** What kept a lock from being used, in a sentence; `null` where it may be that it is no lock. */
export function reasonOf(error: unknown, name: string): string | null {
  if (!(error instanceof UnsupportedClient)) return null;
  const where = /connects to (\S+), which is no node/.exec(error.message)?.[1];
  if (where === undefined) return error.message;
  const service = knownServiceAt(where);
  if (service === null && /:\d+$/.test(where) && !/:443$|\.sock/.test(where))
    return `${name} connects to ${where} besides as many other servers as there are simulated nodes: ${MOST_NODES}, or what --nodes says`;
  return `${name} connects to ${where}${service === null ? '' : ` (${service})`}: only Redis is simulated, so that a lock that needs anything else cannot be audited`;
}

/** Why a lock cannot be judged whose key has no end, and is taken over where its holder has died. */
export function endsOtherwise(name: string, key: string): string {
  return `${name}: its key ${JSON.stringify(key)} has no TTL, and is taken over all the same when its holder has died: how long the lock lasts is in another key (a session, a heartbeat), which is not understood, so that it cannot be audited`;
}
