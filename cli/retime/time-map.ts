/** A stretch of time, µs. */
interface Zone {
  readonly fromUs: number;
  readonly toUs: number;
}

/**
 * Another pace for a run. A period, such as the life of a key, is shortened, and zones of it, in which clients and nodes
 * act within milliseconds of each other, are stretched. It repeats with the period, so that what lies one key's life
 * apart stays one key's life apart.
 */
export interface TimeMap {
  /** The period in the schedule and on real nodes, µs. */
  readonly periodUs: number;
  readonly realPeriodUs: number;
  /** What is stretched, in order, without overlaps and within the period; nothing for an even pace. */
  readonly zones: readonly Zone[];
  /** By how much. */
  readonly stretch: number;
}

/** How much faster than the schedule time runs outside the zones; not positive for a map that is none. */
export function idleScale({ periodUs, realPeriodUs, zones, stretch }: TimeMap): number {
  const zonesUs = zones.reduce((sum, { fromUs, toUs }) => sum + toUs - fromUs, 0);
  return (realPeriodUs - zonesUs * stretch) / (periodUs - zonesUs);
}

/** Where an instant, or a duration from the start of a run, comes to lie, whole µs. */
export function mapped(map: TimeMap, atUs: number): number {
  const { periodUs, realPeriodUs, zones, stretch } = map;
  const periods = Math.floor(atUs / periodUs);
  const within = atUs - periods * periodUs;
  const stretchedUs = zones.reduce((sum, { fromUs, toUs }) => sum + Math.max(0, Math.min(within, toUs) - fromUs), 0);
  return Math.round(periods * realPeriodUs + stretchedUs * stretch + (within - stretchedUs) * idleScale(map));
}

/** Instants that lie so near each other that a real machine would blur them, µs. */
const NEAR_US = 30_000;
const AROUND_US = 3_000;

/**
 * The paces to try for a schedule, the quickest first.
 *
 * @param ttlUs - How long its keys live.
 * @param instants - When something is written to happen in it, µs.
 */
export function candidateScales(ttlUs: number, instants: readonly number[]): TimeMap[] {
  const beginning: Zone[] = [{ fromUs: 0, toUs: 20_000 }];
  const longer: Zone[] = [{ fromUs: 0, toUs: 60_000 }];
  const around = zonesAround(instants, ttlUs);
  const map = (realPeriodUs: number, zones: readonly Zone[], stretch: number): TimeMap => ({
    periodUs: ttlUs,
    realPeriodUs,
    zones,
    stretch,
  });
  const all = [
    map(2_000_000, beginning, 25),
    map(2_000_000, longer, 12),
    map(2_000_000, around, 20),
    map(3_000_000, beginning, 50),
    map(4_000_000, around, 50),
    map(4_000_000, [{ fromUs: 0, toUs: 600_000 }], 2),
    map(4_000_000, beginning, 100),
    map(8_000_000, around, 100),
    map(8_000_000, [{ fromUs: 0, toUs: 700_000 }], 5),
    map(Math.max(2_000_000, 10 * ttlUs), [], 1),
  ];
  // A zone must fit into its period, and leave time for the rest of it.
  return all.filter((it) => it.zones.every(({ toUs }) => toUs <= ttlUs) && idleScale(it) > 0);
}

function zonesAround(instants: readonly number[], periodUs: number): Zone[] {
  const zones: Zone[] = [];
  const within = instants.map((us) => us % periodUs).sort((a, b) => a - b);
  for (const us of within) {
    const last = zones.at(-1);
    if (last !== undefined && us - last.toUs <= NEAR_US)
      zones[zones.length - 1] = { fromUs: last.fromUs, toUs: Math.min(periodUs, us + AROUND_US) };
    else zones.push({ fromUs: Math.max(0, us - AROUND_US), toUs: Math.min(periodUs, us + AROUND_US) });
  }
  return zones;
}
