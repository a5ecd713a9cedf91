import type { Distance } from '../scenarios/index.js';
import type { RandomStream } from '../sim/index.js';
import type { FaultModel } from './fault-model.js';

const PERCENT = 10_000;

/** How a node can be out of order for the whole of a run. */
export type NodeOutage = 'dead' | 'hung' | 'refusing' | 'cut-off';

/**
 * What is special about a run in which clients keep trying: liveness can only be lost where somebody wants the lock, and
 * shows only where nothing else explains that nobody has it.
 */
export interface LivenessConfig {
  /** The first so many clients ask for locks, the others for none. */
  readonly workers: number;
  /** From then on the network loses, copies and holds up nothing, true time, µs. */
  readonly quietFromUs: number;
  /** What is wrong with some nodes all the while. A majority is in order. */
  readonly out: readonly { readonly node: number; readonly how: NodeOutage }[];
  /** All ask in the same instant, each nearest to other nodes: that is how votes are split. */
  readonly standoff: boolean;
}

const OUT_OF_ORDER: readonly NodeOutage[] = ['dead', 'hung', 'refusing', 'cut-off'];

/** A node fails for long only in a way in which it may fail for a short time, too. */
function may(how: NodeOutage, faultModel: FaultModel): boolean {
  switch (how) {
    case 'dead':
      return faultModel.crashes > 0;
    case 'hung':
      return faultModel.pauses > 0;
    case 'refusing':
      return faultModel.refusals > 0;
    case 'cut-off':
      return faultModel.partitions > 0;
  }
}

function isSome<T>(list: readonly T[]): list is readonly [T, ...T[]] {
  return list.length > 0;
}

/** One run in ten is patient. */
export function drawPatience(faultModel: FaultModel, draw: RandomStream): LivenessConfig | null {
  if (!draw.chance(10 * PERCENT)) return null;
  const { ttlsMs, clients, nodes } = faultModel;
  const standoff = clients > 1 && draw.chance(20 * PERCENT);
  const hows = OUT_OF_ORDER.filter((how) => faultModel.outages && may(how, faultModel));
  const minority = nodes - (Math.floor(nodes / 2) + 1);
  const outCount = standoff ? 0 : draw.pick([0, minority, draw.below(minority + 1)]);
  return {
    workers: standoff ? clients : draw.between(1, clients),
    quietFromUs: standoff ? 0 : draw.pick([0, draw.below(1000 * Math.min(...ttlsMs))]),
    out: draw.subset(nodes, outCount).flatMap((node) => {
      return isSome(hows) ? [{ node, how: draw.pick(hows) }] : [];
    }),
    standoff,
  };
}

/** How much farther than the nearest nodes the others are in a standoff, µs. */
const FARTHER_US = 2_000;

/** Each node is near to one client, and equally far from all others. */
export function distancesOf({ nodes, clients }: FaultModel, nearUs: number): Distance[] {
  const distances: Distance[] = [];
  for (let client = 0; client < clients; client++) {
    for (let node = 0; node < nodes; node++) {
      const delayUs = node % clients === client ? nearUs : nearUs + FARTHER_US;
      distances.push({ client: `c${client + 1}`, node: `n${node}`, delayUs });
    }
  }
  return distances;
}
