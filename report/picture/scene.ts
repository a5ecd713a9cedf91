import type { Outage, Violation } from '../../properties/index.js';
import type { Schedule } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import type { Heading } from '../heading.js';
import type { Hold } from '../holds.js';
import type { RowContext } from '../row.js';
import type { RunSnapshot } from '../run-snapshot.js';

/** A run, as it is drawn: what happened, with what is needed to look things up in it. */
export interface Scene {
  readonly schedule: Schedule;
  readonly clients: readonly string[];
  readonly nodes: readonly string[];
  readonly events: readonly TraceEvent[];
  /** From when on it is drawn, µs. */
  readonly fromUs: number;
  readonly eventOf: (seq: number) => TraceEvent | undefined;
  /** What followed from an event. */
  readonly effectsOf: (seq: number) => readonly TraceEvent[];
  readonly claims: readonly Hold[];
  readonly tokenName: (token: number) => string;
  /** What the picture is about: grave violations, else what there is. */
  readonly violations: readonly Violation[];
  readonly outages: readonly Outage[];
  /** Votes that make a lock on all nodes. */
  readonly quorum: number;
  /** What the lock takes off a TTL for drift, µs; 0 for a TTL that no lock of the schedule has. */
  readonly allowanceUs: (ttlMs: number) => number;
  /** Whose lock the clients ran. */
  readonly lock: RunSnapshot['lock'];
  /** For the words on faults. */
  readonly context: RowContext;
  readonly heading: Heading;
}

const NOTHING: readonly TraceEvent[] = [];

/** Makes a scene of a run that was taken down. */
export function sceneOf(schedule: Schedule, taken: RunSnapshot): Scene {
  const { events, fromUs, claims, policy, violations, outages, heading } = taken;
  const bySeq = new Map<number, TraceEvent>();
  const effects = new Map<number, TraceEvent[]>();
  for (const event of events) {
    bySeq.set(event.seq, event);
    const list = effects.get(event.cause);
    if (list === undefined) effects.set(event.cause, [event]);
    else list.push(event);
  }
  const names = new Map(taken.names);
  const allowances = new Map(taken.allowances);
  const eventOf = (seq: number): TraceEvent | undefined => bySeq.get(seq);
  const effectsOf = (seq: number): readonly TraceEvent[] => effects.get(seq) ?? NOTHING;
  const tokenName = (token: number): string => names.get(token) ?? '?';
  return {
    schedule,
    clients: schedule.clients.map(({ id }) => id),
    nodes: Array.from({ length: schedule.cluster.nodes }, (_, node) => `n${node}`),
    events,
    fromUs,
    eventOf,
    effectsOf,
    claims,
    tokenName,
    violations,
    outages,
    quorum: taken.quorum,
    allowanceUs: (ttlMs) => allowances.get(ttlMs) ?? 0,
    lock: taken.lock,
    context: { schedule, policy, trace: events, eventOf, effectsOf: (event) => effectsOf(event.seq), tokenName },
    heading,
  };
}
