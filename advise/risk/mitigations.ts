import { driftAllowanceUs } from '../../deviations/index.js';
import {
  allowing,
  type Change,
  clientLines,
  fencing,
  holdingBack,
  keeping,
  longerForWork,
  slewing,
  syncing,
} from '../changes.js';
import { libraryOf } from '../libraries.js';
import type { System } from '../system.js';
import type { Bin, CauseName, Rates, RiskModel } from './model.js';
import { modelOf } from './model-of.js';
import type { SystemRates } from './rates.js';

/** One change of a system, in its operator's own words, and the model of the system that has it. */
export interface RiskMitigation {
  readonly id: Change['id'];
  readonly title: string;
  readonly lines: Change['lines'];
  readonly model: RiskModel;
}

const NODE_STEPS: readonly CauseName[] = ['nodeStep', 'nodeStepOfAll'];
const PAUSES: readonly CauseName[] = ['pause', 'suspend', 'vmPause'];

/** All changes that make sense for a system with these rates, each by itself: only such as its client and supervisor have. */
export function mitigationsOf(described: System, locks: SystemRates): RiskMitigation[] {
  const system = withExtremes(described, locks.rates);
  const steps = [...NODE_STEPS, 'clientStep' as const].some((it) => locks.rates[it] !== undefined);
  const found = [
    ...keeping(system),
    syncing(system),
    holdingBack(system),
    steps ? slewing(system) : null,
    system.clocks.driftPpm > 0 || steps ? allowing(system) : null,
    longerForWork(system),
    guarding(system, locks),
    fencing(system),
  ];
  return found.flatMap((change) => {
    if (change === null) return [];
    const { id, title, lines, after } = change;
    const rates = ratesAfter(id, locks.rates);
    const model = modelOf(
      { ...after, clocks: { ...after.clocks, driftPpm: described.clocks.driftPpm } },
      { ...locks, rates },
    );
    return [{ id, title, lines, model }];
  });
}

/** The system at the worst that its rates speak of, for changes that are sized by that. */
function withExtremes(system: System, rates: Rates): System {
  const most = (causes: readonly CauseName[], own: number | null): number | null =>
    own === null ? null : Math.max(own, ...causes.flatMap((it) => rates[it]?.bins.map(({ to }) => to) ?? []));
  const { clocks, pauses } = system;
  return {
    ...system,
    clocks: {
      ...clocks,
      nodeStepUs: most(NODE_STEPS, clocks.nodeStepUs),
      clientStepUs: most(['clientStep'], clocks.clientStepUs),
    },
    pauses: {
      processUs: most(['pause'], pauses.processUs) ?? 0,
      suspendUs: most(['suspend'], pauses.suspendUs) ?? 0,
      vmUs: most(['vmPause'], pauses.vmUs) ?? 0,
    },
  };
}

/** What a change takes away of what happens. */
function ratesAfter(id: Change['id'], rates: Rates): Rates {
  const without = (...causes: readonly CauseName[]): Rates =>
    Object.fromEntries(Object.entries(rates).filter(([name]) => !causes.some((it) => it === name)));
  switch (id) {
    case 'slew':
      return without(...NODE_STEPS, 'clientStep');
    case 'no-eviction':
      return without('dataLoss');
    case 'no-promotion': {
      // Its primaries still end, and are down for as long as the replica would have taken, at least.
      const { failover, crash } = rates;
      const both = [crash, failover].flatMap((it) => it ?? []);
      const perYear = both.reduce((sum, it) => sum + it.perYear, 0);
      const bins = both.flatMap((it) =>
        it.bins.map((bin): Bin => ({ ...bin, share: (bin.share * it.perYear) / perYear })),
      );
      return perYear === 0 ? without('failover') : { ...without('failover', 'crash'), crash: { perYear, bins } };
    }
    default:
      return rates;
  }
}

/**
 * A look at what is left of the lock before each write, for as long a pause as there is room for: a bar of the histogram is
 * the largest that can be covered whole.
 */
function guarding(system: System, { rates, gapUs, holds }: SystemRates): Change | null {
  const { client, network, work } = system;
  if (!work.writes) return null;
  const ttlUs = 1000 * client.ttlMs;
  const longestUs = Math.max(...holds.map(({ us }) => us));
  const roomUs = ttlUs - driftAllowanceUs(client.policy, ttlUs) - longestUs - 2 * network.mostUs;
  const wayUs = gapUs + network.writeUs;
  const ends = PAUSES.flatMap((cause) => rates[cause]?.bins.map(({ to }) => to) ?? []);
  const coveredUs = Math.max(0, ...ends.filter((end) => end + wayUs < roomUs / 2));
  const guardMs = Math.ceil((1.01 * (coveredUs + wayUs) + 2_000) / 1000);
  if (1000 * guardMs >= roomUs || (client.guardUs !== null && client.guardUs >= 1000 * guardMs)) return null;
  return {
    id: 'guard',
    title: `write only with ${guardMs} ms of the lock left`,
    lines: [
      clientLines(system),
      {
        file: 'right before each write to the protected resource',
        lines: libraryOf(client.policy).guard(guardMs, client.ttlMs),
      },
    ],
    after: { ...system, client: { ...client, guardUs: 1000 * guardMs } },
  };
}
