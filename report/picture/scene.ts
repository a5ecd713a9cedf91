import type { Outage, Violation } from '../../properties/index.js';
import type { Schedule } from '../../scenarios/index.js';
import { policyOf, type TraceEvent } from '../../sim/index.js';
import type { Claim } from '../claims.js';
import type { RowContext } from '../row.js';
import { outageSentence, type Told, violationSentence } from '../story.js';
import { assumptionLines } from '../timeline.js';
import { configLine, enumerate, propertyWords } from '../words.js';

/** A run, as it is drawn: what happened, with what is needed to look things up in it. */
export interface Scene {
  readonly schedule: Schedule;
  readonly clients: readonly string[];
  readonly nodes: readonly string[];
  readonly events: readonly TraceEvent[];
  readonly eventOf: (seq: number) => TraceEvent | undefined;
  /** What followed from an event. */
  readonly effectsOf: (seq: number) => readonly TraceEvent[];
  readonly claims: readonly Claim[];
  readonly tokenName: (token: number) => string;
  /** What the picture is about: grave violations, else what there is. */
  readonly violations: readonly Violation[];
  readonly outages: readonly Outage[];
  /** For the words on faults. */
  readonly context: RowContext;
  readonly heading: Heading;
}

/** What is written over a picture. */
export interface Heading {
  readonly verdict: 'bad' | 'good';
  /** `mutual exclusion`. */
  readonly title: string;
  readonly sentences: readonly string[];
  readonly config: string;
}

const NOTHING: readonly TraceEvent[] = [];

/** Makes a scene of a run that was taken apart. */
export function sceneOf(schedule: Schedule, telling: Told): Scene {
  const { judgement, claims, tokenName } = telling;
  const events = judgement.run.trace;
  const bySeq = new Map<number, TraceEvent>();
  const effects = new Map<number, TraceEvent[]>();
  for (const event of events) {
    bySeq.set(event.seq, event);
    const list = effects.get(event.cause);
    if (list === undefined) effects.set(event.cause, [event]);
    else list.push(event);
  }
  const effectsOf = (seq: number): readonly TraceEvent[] => effects.get(seq) ?? NOTHING;
  return {
    schedule,
    clients: schedule.clients.map(({ id }) => id),
    nodes: Array.from({ length: schedule.cluster.nodes }, (_, node) => `n${node}`),
    events,
    eventOf: (seq) => bySeq.get(seq),
    effectsOf,
    claims,
    tokenName,
    violations: graveOf(judgement.violations),
    outages: judgement.outages,
    context: {
      schedule,
      policy: policyOf(schedule.policy),
      trace: events,
      effectsOf: (event) => effectsOf(event.seq),
      tokenName,
    },
    heading: headingOf(schedule, telling),
  };
}

/** Violations of `validity` are told of only where nothing worse happened. */
export function graveOf(violations: readonly Violation[]): readonly Violation[] {
  const grave = violations.filter((it) => it.property !== 'validity');
  return grave.length > 0 ? grave : violations;
}

/** More are only counted. */
const MOST_SENTENCES = 3;

function headingOf(schedule: Schedule, telling: Told): Heading {
  const { judgement } = telling;
  const violations = graveOf(judgement.violations);
  const all = [
    ...violations.map((it) => violationSentence(it, telling)),
    ...judgement.outages.map((it) => outageSentence(it)),
  ];
  const kinds = [...new Set(violations.map((it) => propertyWords(it.property)))];
  if (judgement.outages.length > 0) kinds.push('availability');
  const broken = assumptionLines(judgement);
  const assumed = broken.length === 0 ? 'all assumptions of the lock kept' : `broken assumption: ${enumerate(broken)}`;
  return {
    verdict: kinds.length > 0 ? 'bad' : 'good',
    title: kinds.length > 0 ? kinds.join(', ') : 'safe',
    sentences: [
      ...(all.length === 0 ? ['Nothing was violated.'] : all.slice(0, MOST_SENTENCES)),
      ...(all.length > MOST_SENTENCES ? [`… and ${all.length - MOST_SENTENCES} more.`] : []),
    ],
    config: `${configLine(schedule)} · ${assumed}`,
  };
}
