import { type ClientFailure, formatClientFailure } from '../guests/failure-file.js';
import { judgedProperties } from '../properties/expectation.js';
import type { Counterexample, Judgement } from '../properties/index.js';
import { type Prevention, propertyWords } from '../report/index.js';
import {
  type Expectation,
  type ExpectedViolation,
  formatScenario,
  type PropertyId,
  type Scenario,
} from '../scenarios/index.js';
import { writeWhole } from './write-file.js';

/** Where found failures go, below the working directory. */
export const FAILURES = '.lockstep/failures';

const LONGEST_SEED = 40;

/** Name of a failure: its seed, as far as a file name can hold it, and its run. */
export function failureId(seed: string, run: number): string {
  const safe = seed.replace(/[^A-Za-z0-9_.-]+/g, '-').slice(0, LONGEST_SEED);
  return `${safe === '' || safe.startsWith('.') ? `seed${safe}` : safe}-${run + 1}`;
}

/** A failure that was found, with all that its files say of it. */
export interface Found {
  readonly counterexample: Counterexample;
  readonly judgement: Judgement;
  readonly seed: string;
  readonly sentence: string;
  readonly preventions: readonly Prevention[];
}

/** A found failure in the form of a scenario, so that whatever reads scenarios reads it. */
export function failureScenario({ counterexample, judgement, seed, sentence, preventions }: Found): Scenario {
  const { property, run, schedule } = counterexample;
  return {
    schema: 'lockstep.scenario/1',
    id: failureId(seed, run),
    title: `${propertyWords(property)} broken in run ${run + 1} of seed ${seed}`,
    story: sentence,
    source: `found by lockstep check, seed ${seed}, run ${run + 1}`,
    schedule,
    expect: expectedOf(judgement, property),
    flips: preventions.map(({ mitigation, verdict }) => ({
      title: `with ${mitigation}`,
      with: mitigation,
      expect: { verdict },
    })),
    neighbours: [],
  };
}

/** What came of a run, as what has to come of it again. */
export function expectedOf(judgement: Judgement, property: PropertyId): Expectation {
  const named: PropertyId[] = judgedProperties({ verdict: 'violated', violations: [{ property }] });
  const violations = judgement.violations
    .filter((it) => named.includes(it.property))
    .map(
      (it): ExpectedViolation => ({
        property: it.property,
        atUs: it.atUs,
        ...(it.untilUs === null ? {} : { untilUs: it.untilUs }),
        resource: it.resource,
      }),
    );
  return { verdict: judgement.verdict, violations, hash: judgement.run.hash };
}

/**
 * Writes a failure below `cwd`, whole or not at all.
 *
 * @returns Its path from `cwd`.
 */
export function writeFailure(scenario: Scenario, cwd: string): string {
  return writeScenario(scenario, FAILURES, cwd);
}

/**
 * Writes a scenario into a folder below `cwd`, whole or not at all.
 *
 * @returns Its path from `cwd`.
 */
export function writeScenario(scenario: Scenario, folder: string, cwd: string): string {
  return writeWhole(`${folder}/${scenario.id}.json`, formatScenario(scenario), cwd);
}

/** Where failures of guests go. They replay with their library only, and are no known failures of the lock. */
const GUEST_FAILURES = '.lockstep/guests';

/**
 * Writes a failure of a guest below `cwd`, whole or not at all.
 *
 * @returns Its path from `cwd`.
 */
export function writeGuestFailure(failure: Omit<ClientFailure, 'schema'>, id: string, cwd: string): string {
  return writeWhole(`${GUEST_FAILURES}/${id}.json`, formatClientFailure(failure), cwd);
}
