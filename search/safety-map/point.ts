import { type PolicyChange, policyWith, quorumOf, REFERENCE } from '../../deviations/index.js';

/**
 * One configuration with all that an adversary may do to it: everything that can be swept. Times are µs, shares and
 * rates ppm.
 */
export interface Point {
  /** Time to live of the holder's keys and of its rival's, whole milliseconds. */
  readonly ttl: number;
  /** How wrong clocks run: the holder's slow and those of its voters fast, so that nothing is worse. */
  readonly drift: number;
  /** What the lock takes off its validity for drift, as a share of the TTL. */
  readonly 'drift-allowance': number;
  /** What it takes off besides, whatever the TTL. */
  readonly 'fixed-allowance': number;
  /** Until a voter that crashed right after its vote answers again, empty, by its own clock; `null`: none crashes. */
  readonly 'restart-delay': number | null;
  /** By how much the clocks of faulty voters jump forward during the claim. */
  readonly step: number;
  /** How long a message takes at least, one way. */
  readonly latency: number;
  readonly nodes: number;
  /** Nodes that hold the holder's token; `null` for a bare quorum. */
  readonly votes: number | null;
  /** Voters that are struck by the step or the crash. */
  readonly 'faulty-voters': number;
  /** Other nodes that are down all the time. */
  readonly 'nodes-down': number;
  /** From the holder's last look at its lock to the arrival of its write; 0: it does not write. */
  readonly 'write-delay': number;
  /** Validity that has to be left in that look. */
  readonly guard: number;
}

/** What can be swept. */
export type ParameterName = keyof Point;

/** The production lock with its defaults, on five nodes to which nothing happens. */
export const FAULT_FREE: Point = {
  ttl: 10_000_000,
  drift: 0,
  'drift-allowance': REFERENCE.settings.driftPpm,
  'fixed-allowance': REFERENCE.settings.driftUs,
  'restart-delay': null,
  step: 0,
  latency: 0,
  nodes: 5,
  votes: null,
  'faulty-voters': 1,
  'nodes-down': 0,
  'write-delay': 0,
  guard: 0,
};

/** How a parameter is measured, and from where to where it makes sense. */
interface Parameter {
  readonly unit: 'µs' | 'ppm' | 'count';
  /** The least difference that can be asked for, in its unit. */
  readonly grain: number;
  readonly least: number;
  readonly most: number;
}

const SECOND = 1_000_000;

/** Every parameter of a map, with its unit and its range. */
export const PARAMETERS: Readonly<Record<ParameterName, Parameter>> = {
  ttl: { unit: 'µs', grain: 1000, least: 1000, most: 3600 * SECOND },
  drift: { unit: 'ppm', grain: 1, least: 0, most: 500_000 },
  'drift-allowance': { unit: 'ppm', grain: 1, least: 0, most: 1_000_000 },
  'fixed-allowance': { unit: 'µs', grain: 1, least: 0, most: 60 * SECOND },
  'restart-delay': { unit: 'µs', grain: 1, least: 0, most: 150 * SECOND },
  step: { unit: 'µs', grain: 1, least: 0, most: 3600 * SECOND },
  latency: { unit: 'µs', grain: 1, least: 0, most: 60 * SECOND },
  nodes: { unit: 'count', grain: 1, least: 1, most: 31 },
  votes: { unit: 'count', grain: 1, least: 1, most: 31 },
  'faulty-voters': { unit: 'count', grain: 1, least: 0, most: 31 },
  'nodes-down': { unit: 'count', grain: 1, least: 0, most: 31 },
  'write-delay': { unit: 'µs', grain: 1, least: 0, most: 3600 * SECOND },
  guard: { unit: 'µs', grain: 1, least: 0, most: 3600 * SECOND },
};

/** How many nodes hold the holder's token: as many as are wanted, as far as they are up. */
export function votersOf({ nodes, votes, 'nodes-down': down }: Point, change?: PolicyChange): number {
  return Math.max(0, Math.min(votes ?? majorityOf(nodes, change), nodes - down));
}

/** The quorum of the production lock, or of a client that differs from it. */
export function majorityOf(nodes: number, change?: PolicyChange): number {
  return quorumOf(change === undefined ? REFERENCE : policyWith(change), nodes);
}

/** Voters that something can happen to. */
export function struckOf(point: Point, change?: PolicyChange): number {
  return Math.min(point['faulty-voters'], votersOf(point, change));
}
