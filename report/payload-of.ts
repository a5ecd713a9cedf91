import { judgedProperties } from '../properties/expectation.js';
import type { Judgement } from '../properties/index.js';
import type { PropertyId, Scenario, Schedule } from '../scenarios/index.js';
import { counterfactual, likelihood } from './futures.js';
import type { ComparedRun, Payload } from './payload.js';
import { candidates, preventions } from './prevention.js';
import { type RunSnapshot, snapshotOf } from './run-snapshot.js';
import { partOf } from './windows.js';

/** Events of a run that a report carries; a longer one is in its schedule, from which the page makes it. */
const MOST_CARRIED = 2_000;

/** What a report is written of. */
export interface ReportInput {
  readonly id: string;
  readonly schedule: Schedule;
  readonly scenario: Scenario | null;
  readonly judgement: Judgement;
  /** The command that shows the run again. */
  readonly replay: string;
  /** The command that opens it in the playground. Default: none is named. */
  readonly byHand?: string | null;
  /** Another run to compare it with, and what both are called beside each other. */
  readonly other?: { readonly input: ReportInput; readonly names: readonly [this: string, other: string] };
}

/** Longer ones are more than a page should hold at once, events. */
const MOST_IN_PAGE = 120_000;

/** What a report is made of: what its page carries, and the file that lies beside it where that is not all. */
interface Report {
  readonly payload: Payload;
  readonly beside: Buffer | null;
}

/**
 * The report of a schedule. A run that is too long for a page is there as a window around what goes wrong first; the
 * whole of it goes into a file of the name `besideName`, unless that is `null`.
 */
export function reportOf(input: ReportInput, besideName: string | null = null): Report {
  const { id, schedule, scenario, judgement, replay } = input;
  const taken = snapshotOf(schedule, judgement);
  const { hash } = judgement.run;
  const about = {
    schema: 'lockstep.report/2',
    id,
    title: titleOf(scenario),
    story: scenario?.story ?? '',
    replay,
    hash,
  } as const;
  if (taken.events.length > MOST_IN_PAGE) {
    const { shown, part, data } = partOf(taken, hash, besideName);
    return {
      payload: {
        ...about,
        // What is not run again needs no faults and fates.
        schedule: { ...schedule, faults: [], fates: [] },
        taken: shown,
        source: { kind: 'recording', why: 'it is too long to be run in a page.', part },
        likelihood: null,
        counterfactual: null,
      },
      beside: data,
    };
  }
  const mitigations = offered(schedule, scenario);
  return {
    payload: {
      ...about,
      schedule,
      taken: carried(taken),
      source: {
        kind: 'schedule',
        also: alsoJudged(scenario),
        prevented: preventedOf(input, taken),
        mitigations,
        byHand: input.byHand ?? null,
        other: otherOf(input),
      },
      likelihood: likelihood(schedule, judgement),
      counterfactual: counterfactual(schedule, judgement, mitigations),
    },
    beside: null,
  };
}

/** Tried on runs that are not long: it takes a run for each. */
function preventedOf({ schedule, scenario, judgement }: ReportInput, { events }: RunSnapshot): string[] | null {
  if (judgement.violations.length === 0 || events.length > MOST_CARRIED) return null;
  return preventions(schedule, alsoJudged(scenario)).map(({ mitigation }) => mitigation);
}

/** What an HTML report of a schedule carries. */
export function payloadOf(input: ReportInput): Payload {
  return reportOf(input).payload;
}

function otherOf({ other }: ReportInput): ComparedRun | null {
  if (other === undefined) return null;
  const { input, names } = other;
  const { id, schedule, scenario, judgement, replay } = input;
  const { hash } = judgement.run;
  const title = titleOf(scenario);
  return {
    id,
    title,
    replay,
    schedule,
    hash,
    taken: carried(snapshotOf(schedule, judgement)),
    names,
    also: alsoJudged(scenario),
  };
}

function carried(taken: RunSnapshot): RunSnapshot | null {
  return taken.events.length <= MOST_CARRIED ? taken : null;
}

function titleOf(scenario: Scenario | null): string {
  return scenario?.title ?? 'a schedule';
}

function alsoJudged(scenario: Scenario | null): PropertyId[] {
  return scenario === null ? [] : judgedProperties(scenario.expect);
}

/** Those that the scenario knows to flip its verdict, then those that have to do with what is in the schedule. */
function offered(schedule: Schedule, scenario: Scenario | null): string[] {
  const flips = (scenario?.flips ?? []).flatMap((flip) => (flip.with === undefined ? [] : [flip.with]));
  return [...new Set([...flips, ...candidates(schedule)])];
}

/** What a recording is made of. */
export interface RecordingInput {
  readonly id: string;
  readonly title: string;
  readonly story: string;
  /** The command that makes another one. */
  readonly replay: string;
  readonly schedule: Schedule;
  readonly hash: string;
  readonly taken: RunSnapshot;
  /** Why the page cannot run it again, in one sentence. */
  readonly why: string;
}

/** What an HTML report of a run carries that was taken down elsewhere. */
export function recordingOf({ why, ...about }: RecordingInput): Payload {
  return {
    schema: 'lockstep.report/2',
    ...about,
    source: { kind: 'recording', why, part: null },
    likelihood: null,
    counterfactual: null,
  };
}
