import { counterexample } from '../libraries/counterexample.js';
import type { LockFactory } from '../libraries/lock-factory.js';
import { replayLibraries } from '../libraries/run.js';
import { kindOf, VIOLATION_KINDS, type ViolationKind } from '../libraries/search/kinds.js';
import { claimsIn, type DrawnLibraryRun, drawLibraryRun } from '../libraries/search/search.js';
import { shrinkForLibrary } from '../libraries/search/shrink-libraries.js';
import { loadLibrary, REPLAY } from '../libraries/test-library.js';
import { assumptions } from '../properties/index.js';
import type { PropertyId } from '../scenarios/index.js';
import { noTotals } from '../search/search-totals.js';
import { RandomStreams, RunsHash } from '../sim/index.js';
import { signatureOf } from './signature.js';
import type { CampaignRange, LibraryPlan } from './spec.js';
import type { Failure, UnitResult } from './unit.js';

/** A run to be made small: the first of its kind, or the first that keeps the assumptions of Redlock. */
interface Found {
  readonly kind: ViolationKind;
  readonly property: PropertyId;
  readonly inside: boolean;
  readonly drawn: DrawnLibraryRun;
}

/**
 * Makes a whole range with a library, and what it finds small. Of what runs went through, only the claims are counted. To be
 * called in a fresh worker, where no other range has left anything behind.
 */
export async function runLibraryUnit(
  plan: LibraryPlan,
  { index, search, from, to }: CampaignRange,
): Promise<UnitResult> {
  const subject = await loadLibrary(plan.library);
  const streams = new RandomStreams(plan.seed);
  const hash = new RunsHash();
  const violating: Partial<Record<PropertyId, number>> = {};
  const found = new Map<ViolationKind, Found>();
  let [events, near, claims] = [0, 0, 0];
  for (let run = from; run < to; run++) {
    const drawn = await drawLibraryRun(subject, plan.faults, streams, run);
    hash.add(run, drawn.world.context.trace.value());
    events += drawn.run.events;
    if (drawn.monitors.closeness.isNear) near++;
    claims += claimsIn(drawn);
    const worst = worstOf(drawn);
    if (worst !== null) violating[worst.property] = (violating[worst.property] ?? 0) + 1;
    if (worst !== null && isWanted(worst, found.get(worst.kind))) found.set(worst.kind, worst);
  }
  const failures = new Map<string, Failure>();
  for (const it of found.values()) {
    const failure = await failureOf(subject, plan, search, it);
    if (!failures.has(failure.shape)) failures.set(failure.shape, failure);
  }
  const none = noTotals();
  const exercised = { ...none.exercised, claims };
  const tally = { ...none, runs: to - from, events, hash: hash.digest(), exercised, near, violating };
  return { index, search, tally, failures: [...failures.values()] };
}

/** The violation of a run that counts, if there is one: of the worst kind. */
function worstOf(drawn: DrawnLibraryRun): Found | null {
  const kinds = drawn.violations.map(kindOf);
  const kind = VIOLATION_KINDS.find((it) => kinds.includes(it));
  const violation = drawn.violations.find((it) => kindOf(it) === kind);
  if (kind === undefined || violation === undefined) return null;
  const inside = assumptions(drawn.schedule, drawn.world.policy).length === 0;
  return { kind, property: violation.property, inside, drawn };
}

function isWanted(it: Found, kept: Found | undefined): boolean {
  return kept === undefined || (it.inside && !kept.inside);
}

async function failureOf(
  subject: LockFactory,
  { library, faults, seed }: LibraryPlan,
  search: number,
  { kind, property, inside, drawn }: Found,
): Promise<Failure> {
  const options = { extendsItself: faults.extendsItself ?? false };
  const { schedule } = await shrinkForLibrary(subject, drawn.schedule, kind, options);
  const { number: run } = drawn;
  const foundEvents = drawn.run.events;
  const text = await counterexample(
    subject,
    schedule,
    kind,
    { run, runs: run + 1, seed, foundEvents, replay: REPLAY },
    options,
  );
  const shape = `${library.id}, ${inside ? 'inside' : 'outside'}: ${signatureOf(property, schedule)}`;
  const { events } = (await replayLibraries(subject, schedule, options)).run;
  return { shape, property, search, run, events, schedule, text };
}
