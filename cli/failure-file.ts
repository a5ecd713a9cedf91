import { type ClientFailure, formatClientFailure } from '../libraries/failure-file.js';
import { judgedProperties } from '../properties/expectation.js';
import type { Judgement } from '../properties/index.js';
import { type Prevention, propertyLabel } from '../report/index.js';
import {
  type Expectation,
  type ExpectedViolation,
  formatScenario,
  type PropertyId,
  type Scenario,
} from '../scenarios/index.js';
import type { Counterexample } from '../search/index.js';
import { shellCommand } from '../text/shell.js';
import type { Io } from './io.js';
import { fileName, writeIfPossible } from './write-file.js';

/** Where found failures go, below the working directory. */
export const FAILURES = '.lockstep/failures';

const LONGEST_SEED = 40;

/** Name of a failure: its seed, as far as a file name can hold it, and its run. */
function failureId(seed: string, run: number): string {
  const safe = seed.replace(/[^A-Za-z0-9_.-]+/g, '-').slice(0, LONGEST_SEED);
  return `${safe === '' || safe.startsWith('.') ? `seed${safe}` : safe}-${run + 1}`;
}

/** The command that shows what a file has again. */
export function replayCommand(io: Io, path: string, ...flags: readonly string[]): string {
  return shellCommand(io.command, 'replay', pathWord(path), ...flags);
}

/** The command that opens it in the playground, where it is stepped through by hand. */
export function steppingCommand(io: Io, path: string): string {
  return shellCommand(io.command, 'playground', '--at', pathWord(path), '--step', '--open');
}

/** A path as an argument: not to be taken for a flag. */
function pathWord(path: string): string {
  return path.startsWith('-') ? `./${path}` : path;
}

/** A failure that was found, with all that its files say of it. */
interface Found {
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
    title: `${propertyLabel(property)} broken in run ${run + 1} of seed ${seed}`,
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
 * Writes a failure below the working directory, whole or not at all.
 *
 * @returns Its path from there; `null` if it could not be written, which has been said: a disk that is full or read-only
 * must not hide a finding.
 */
export function writeFailure(scenario: Scenario, io: Io): string | null {
  return writeScenario(scenario, FAILURES, io);
}

/** The same into another folder. */
export function writeScenario(scenario: Scenario, folder: string, io: Io): string | null {
  return writeIfPossible(`${folder}/${fileName(scenario.id)}.json`, formatScenario(scenario), io);
}

/** Where failures of libraries go. They replay with their library only, and are no known failures of the lock. */
const LIBRARY_FAILURES = '.lockstep/libraries';

/** The same for a failure of a library. */
export function writeLibraryFailure(failure: Omit<ClientFailure, 'schema'>, id: string, io: Io): string | null {
  return writeIfPossible(`${LIBRARY_FAILURES}/${fileName(id)}.json`, formatClientFailure(failure), io);
}
