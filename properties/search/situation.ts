import type { Policy } from '../../core/index.js';
import type { ClockPlan, Cluster } from '../../scenarios/index.js';
import type { Setup, Stream } from '../../sim/index.js';
import { type Bounds, boundsOf } from './bounds.js';
import type { Strain, Weather } from './weather.js';

/** What one run of a search is about: drawn once, before the run. */
export interface Situation {
  readonly setup: Setup;
  readonly ttlMs: number;
  /** The assumption that is strained, if any, and how near to its bound (1 is at the bound). */
  readonly strain: Strain | null;
  readonly nearness: number;
  readonly bounds: Bounds;
  /** Usual delays lie between these, µs. */
  readonly leastDelayUs: number;
  readonly mostDelayUs: number;
  /** Which kinds of trouble this run has (swarm: a random subset, so that no kind drowns another). */
  readonly losses: boolean;
  readonly copies: boolean;
  readonly spikes: boolean;
  readonly pauses: boolean;
  readonly partitions: boolean;
  readonly deadClients: boolean;
  readonly failovers: boolean;
  readonly refusals: boolean;
}

const PERCENT = 10_000;

/** Draws the situation of a run. */
export function drawSituation(weather: Weather, draw: Stream): Situation {
  const ttlMs = draw.pick(weather.ttlsMs);
  const strain = drawStrain(weather, draw);
  // Most runs go to the very edge: within one per cent of the bound.
  const nearness = draw.chance(85 * PERCENT) ? 1 - draw.below(PERCENT) / 1_000_000 : draw.below(1_000_000) / 1_000_000;
  const policy = drawPolicy(weather, strain, draw);
  const bounds = boundsOf(policy, ttlMs);
  const failovers = weather.failovers > 0 && draw.chance(15 * PERCENT);
  const leastDelayUs = draw.pick([0, 0, 50, 500, 1_000]);
  const cluster: Cluster = {
    nodes: weather.nodes,
    delayUs: leastDelayUs,
    distances: [],
    link: draw.chance(50 * PERCENT) ? 'fifo' : 'reordering',
    expiry: 'after',
    resolutionUs: 1000,
    persistence: weather.persistence,
    // A replica that is up to date is as good as a disk.
    replicaLagUs: failovers ? 0 : null,
    clocks: drawClocks(weather, strain, nearness, bounds, draw),
  };
  return {
    setup: {
      cluster,
      policy,
      clients: Array.from({ length: weather.clients }, (_, i) => `c${i + 1}`),
      untilUs: 3 * ttlMs * 1000,
    },
    ttlMs,
    strain,
    nearness,
    bounds,
    leastDelayUs,
    mostDelayUs: leastDelayUs + draw.pick([0, 100, 1_000, 5_000]),
    losses: draw.chance(50 * PERCENT),
    copies: draw.chance(30 * PERCENT),
    spikes: draw.chance(30 * PERCENT),
    pauses: draw.chance(30 * PERCENT),
    partitions: draw.chance(50 * PERCENT),
    deadClients: draw.chance(20 * PERCENT),
    failovers,
    refusals: weather.refusals > 0 && draw.chance(15 * PERCENT),
  };
}

/** Few attempts, so that a run is short; and where nodes forget, votes beyond the quorum that let them. */
function drawPolicy(weather: Weather, strain: Strain | null, draw: Stream): Policy {
  const tries = weather.policy.tries === null ? null : Math.min(weather.policy.tries, draw.between(1, 3));
  if (strain !== 'forget') return { ...weather.policy, tries };
  const votesWanted = draw.pick<Policy['votesWanted']>(['all', 'quorum', weather.nodes - 1]);
  return { ...weather.policy, tries, votesWanted };
}

function drawStrain(weather: Weather, draw: Stream): Strain | null {
  const { stretch } = weather;
  const possible = (Object.keys(stretch) as Strain[]).filter((strain) => stretch[strain] > 0);
  const [first, ...rest] = possible;
  if (first === undefined || draw.chance(5 * PERCENT)) return null;
  return draw.pick([first, ...rest]);
}

/** Offsets never matter and are always there; rates only where they are the strain. */
function drawClocks(
  weather: Weather,
  strain: Strain | null,
  nearness: number,
  bounds: Bounds,
  draw: Stream,
): ClockPlan[] {
  const [nodeRate, clientRate] = strain === 'rate' ? drawRates(weather, nearness, bounds, draw) : [0, 0];
  const clocks: ClockPlan[] = [];
  for (let node = 0; node < weather.nodes; node++) {
    clocks.push({ process: `n${node}`, offsetUs: draw.below(3_600_000_000), ratePpm: nodeRate });
  }
  for (let client = 1; client <= weather.clients; client++) {
    clocks.push({ process: `c${client}`, offsetUs: draw.below(3_600_000_000), ratePpm: 0 - clientRate });
  }
  return clocks;
}

/** Rate errors in the harmful direction: fast nodes, slow clients, or both. */
function drawRates(weather: Weather, nearness: number, bounds: Bounds, draw: Stream): [number, number] {
  const factor = weather.stretch.rate * nearness;
  if (weather.ratePpm !== null) return [weather.ratePpm, weather.ratePpm];
  const to = factor > 1 ? Math.ceil : Math.floor;
  const both = to(bounds.bothRatesPpm * factor);
  return draw.pick<[number, number]>([
    [both, both],
    [both, both],
    [to(bounds.nodeRatePpm * factor), 0],
    [0, to(bounds.clientRatePpm * factor)],
  ]);
}
