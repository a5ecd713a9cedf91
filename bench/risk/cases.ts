import type { RiskModel, RiskNode } from '../../advise/risk/model.js';
import { YEAR_US } from '../../advise/risk/model.js';
import { type PolicyChange, policyWith, REFERENCE } from '../../deviations/index.js';

/*
 * Systems whose risk can be computed by hand. Messages take no time, a waiting client asks again every 20 ms, and what is
 * rare is so rare that its square does not matter, unless a case is about that.
 */

const SECOND = 1_000_000;
const TTL_MS = 10_000;
/** TTL − (1 % of it + 2 ms). */
const VALID = 9.898;
/** From a quorum being free to the next attempt of the waiting client, s: on average half of its pause. */
const NEXT = 0.01;
const LOCKS = 1_000_000;
const YEAR_S = YEAR_US / SECOND;

/** A node that keeps nothing, and is back at once. */
export const EMPTY: RiskNode = { persistence: 'none', diskKept: true, restartUs: 0, lagUs: 0 };
const EVERYSEC: RiskNode = { ...EMPTY, persistence: 'everysec' };

/** A system, and what is to be expected of it a year. */
export interface ClosedForm {
  readonly title: string;
  readonly formula: string;
  readonly model: RiskModel;
  readonly perYear: number;
}

const some = (count: number, node: RiskNode): RiskNode[] => Array.from({ length: count }, () => node);
const policy = (change: PolicyChange = {}): RiskModel['policy'] =>
  policyWith({ ...change, settings: { retryDelayUs: 20_000, retryJitterUs: 0, ...change.settings } }, REFERENCE);

/** A lock of 10 s on such nodes, taken a million times a year for so long, which another client always waits for. */
export function plainModel(nodes: readonly RiskNode[], holdS: number, changes: Partial<RiskModel>): RiskModel {
  return {
    nodes,
    policy: policy(),
    ttlMs: TTL_MS,
    delayUs: [0, 0],
    driftPpm: 0,
    guardUs: null,
    gapUs: 0,
    writeUs: [0, 0],
    writes: false,
    fenced: false,
    extends: false,
    contended: 1,
    rivals: 1,
    locksPerYear: LOCKS,
    holds: [{ us: holdS * SECOND, share: 1 }],
    rates: {},
    ...changes,
  };
}

/** Between `from` and `to` s, evenly on a logarithmic scale. */
const bar = (from: number, to: number, share = 1) => ({ from: from * SECOND, to: to * SECOND, share });
/** The share of such a bar above `s`. */
const above = (from: number, to: number, s: number): number =>
  Math.min(1, Math.max(0, Math.log(to / Math.max(s, from)) / Math.log(to / from)));
/** Mean of f over [low, high]: by Simpson's rule. */
function mean(low: number, high: number, f: (x: number) => number): number {
  const steps = 2_000;
  let sum = 0;
  for (let i = 0; i <= steps; i++)
    sum += f(low + ((high - low) * i) / steps) * (i === 0 || i === steps ? 1 : i % 2 === 1 ? 4 : 2);
  return sum / (3 * steps);
}
/** Events a year, as they are expected within a second. */
const perSecond = (perYear: number): number => perYear / YEAR_S;

const lossOf = (count: number, perYear: number): RiskModel =>
  plainModel(some(count, EMPTY), 5, { rates: { dataLoss: { perYear, bins: [bar(1, 1)] } } });

/** All cases. */
export function closedForms(): ClosedForm[] {
  return [...ofPauses(), ...ofClocks(), ...ofLosses(), ...ofRestarts(), ...ofContention()];
}

function ofPauses(): ClosedForm[] {
  const pause = { perYear: 10, bins: [bar(0.1, 60)] };
  const writing = { writes: true, contended: 0 };
  const rate = LOCKS * perSecond(10);
  return [
    {
      title: 'a pause before an unchecked write',
      formula: 'λ h P(p > v − h)',
      model: plainModel(some(3, EMPTY), 2, { ...writing, rates: { pause } }),
      perYear: rate * 2 * above(0.1, 60, VALID - 2),
    },
    {
      title: 'a pause between the check and the write',
      formula: 'λ ∫₀ᵍ P(p > v − h − u) du',
      model: plainModel(some(3, EMPTY), 2, { ...writing, gapUs: SECOND, guardUs: 1.1 * SECOND, rates: { pause } }),
      perYear: rate * mean(0, 1, (u) => above(0.1, 60, VALID - 2 - u)),
    },
    {
      title: 'a rare pause between the check and the write, 1 ms apart',
      formula: 'λ g P(p > v − h)',
      model: plainModel(some(3, EMPTY), 2, { ...writing, gapUs: 1_000, guardUs: 10_000, rates: { pause } }),
      perYear: rate * 0.001 * above(0.1, 60, VALID - 2),
    },
    {
      title: 'holds of two lengths',
      formula: 'λ Σ sᵢ hᵢ P(p > v − hᵢ)',
      model: plainModel(some(3, EMPTY), 2, {
        ...writing,
        holds: [
          { us: SECOND, share: 0.75 },
          { us: 8 * SECOND, share: 0.25 },
        ],
        rates: { pause },
      }),
      perYear: rate * (0.75 * above(0.1, 60, VALID - 1) + 0.25 * 8 * above(0.1, 60, VALID - 8)),
    },
    {
      title: 'many pauses of a second, eight of which are too many',
      formula: 'L P(Poisson(2) ≥ 8)',
      model: plainModel(some(3, EMPTY), 2, { ...writing, rates: { pause: { perYear: YEAR_S, bins: [bar(1, 1)] } } }),
      perYear: LOCKS * poissonTail(2, 8),
    },
    {
      title: 'a late write',
      formula: 'L s P(w > v − h)',
      model: plainModel(some(3, EMPTY), 2, {
        ...writing,
        rates: { lateWrite: { perYear: 1e-6, bins: [bar(0.5, 90)] } },
      }),
      perYear: LOCKS * 1e-6 * above(0.5, 90, VALID - 2),
    },
    {
      title: 'a virtual machine that is paused',
      formula: 'λ h P(p > TTL − h + r)',
      model: plainModel(some(3, EMPTY), 3, { rates: { vmPause: pause } }),
      perYear: rate * 3 * above(0.1, 60, TTL_MS / 1000 - 3 + NEXT),
    },
    {
      title: 'a machine that sleeps, and a monotonic clock',
      formula: 'λ h P(p > TTL − h + r)',
      model: plainModel(some(3, EMPTY), 4, {
        policy: policy({ habits: { clock: 'monotonic' } }),
        rates: { suspend: pause },
      }),
      perYear: rate * 4 * above(0.1, 60, TTL_MS / 1000 - 4 + NEXT),
    },
  ];
}

function poissonTail(mu: number, least: number): number {
  let [term, below] = [Math.exp(-mu), 0];
  for (let k = 0; k < least; k++) {
    below += term;
    term *= mu / (k + 1);
  }
  return 1 - below;
}

function ofClocks(): ClosedForm[] {
  const step = { perYear: 2, bins: [bar(0.05, 20)] };
  const rate = LOCKS * perSecond(2);
  // A key that is gone at max(t, TTL − J) leaves the rival until the end of the hold.
  const stepped = (5 - NEXT) * above(0.05, 20, 10 - 5 + NEXT);
  return [
    {
      title: 'the clock of the only node is set',
      formula: 'λ (h − r) P(J > TTL − h + r)',
      model: plainModel([EMPTY], 5, { rates: { nodeStep: step } }),
      perYear: rate * stepped,
    },
    {
      title: 'the clocks of all five nodes are set at once',
      formula: 'λ (h − r) P(J > TTL − h + r)',
      model: plainModel(some(5, EMPTY), 5, { rates: { nodeStepOfAll: step } }),
      perYear: rate * stepped,
    },
    {
      title: 'the wall clock of the holder is set back, and its work takes longer than the TTL',
      formula: 'λ v P(J > D + r)',
      model: plainModel(some(3, EMPTY), 12, {
        policy: policy({ habits: { clock: 'wall' } }),
        rates: { clientStep: step },
      }),
      perYear: rate * VALID * above(0.05, 20, TTL_MS / 1000 - VALID + NEXT),
    },
  ];
}

function ofLosses(): ClosedForm[] {
  const within = 5 - NEXT;
  const one = perSecond(1);
  return [
    {
      title: 'the only node loses its keys',
      formula: 'λ (h − r)',
      model: lossOf(1, 1),
      perYear: LOCKS * one * within,
    },
    {
      title: 'two of three nodes lose their keys in one hold',
      formula: 'C(3,2) (λ (h − r))²',
      model: lossOf(3, 1),
      perYear: LOCKS * 3 * (one * within) ** 2,
    },
    {
      title: 'three of five nodes lose their keys in one hold',
      formula: 'C(5,3) (λ (h − r))³',
      model: lossOf(5, 1),
      perYear: LOCKS * 10 * (one * within) ** 3,
    },
    {
      title: 'a loss while a pause makes the hold 5 s longer',
      formula: 'λ (h − r) + λ λₚ h p',
      model: plainModel([EMPTY], 1, {
        rates: { dataLoss: { perYear: 1, bins: [bar(1, 1)] }, pause: { perYear: 0.1 * YEAR_S, bins: [bar(5, 5)] } },
      }),
      // With two pauses: until the lock is no longer valid.
      perYear: LOCKS * one * (1 - NEXT + 5 * 0.1 - (10 + 1 - VALID) * (1 - Math.exp(-0.1) * 1.1)),
    },
  ];
}

function ofRestarts(): ClosedForm[] {
  const rate = LOCKS * perSecond(1);
  const once = { perYear: 1, bins: [bar(0.001, 0.001)] };
  const everywhere = (count: number, share: number): ClosedForm => ({
    title: `all ${count} nodes lose their power at once, with an fsync each second`,
    formula: `λ ${share} s`,
    model: plainModel(some(count, EVERYSEC), 5, { rates: { powerLossOfAll: once } }),
    perYear: rate * share,
  });
  return [
    {
      title: 'the only node crashes and is back, empty, after a second',
      formula: 'λ (h − R − r)',
      model: plainModel([EMPTY], 5, { rates: { crash: { perYear: 1, bins: [bar(1, 1)] } } }),
      perYear: rate * (5 - 1 - NEXT),
    },
    {
      title: 'it is away for 0.1 to 60 s',
      formula: 'λ E[max(0, h − R − r)]',
      model: plainModel([EMPTY], 5, { rates: { crash: { perYear: 1, bins: [bar(0.1, 60)] } } }),
      perYear: rate * mean(0, Math.log(600), (u) => Math.max(0, 5 - NEXT - 0.1 * Math.exp(u))),
    },
    {
      title: 'the only node loses its power, with an fsync each second',
      formula: 'λ ∫₀¹ (1 − t) dt',
      model: plainModel([EVERYSEC], 5, { rates: { powerLoss: once } }),
      perYear: rate * 0.5,
    },
    everywhere(3, 0.5),
    // Three of four must have lost it: ∫ 4p³(1 − p) + p⁴ dp.
    everywhere(4, 0.4),
    everywhere(5, 0.5),
    {
      title: 'a replica that is up to 2 s behind takes over after 1 s',
      formula: 'λ lag / 2',
      model: plainModel([{ ...EMPTY, lagUs: 2 * SECOND }], 5, {
        rates: { failover: { perYear: 1, bins: [bar(1, 1)] } },
      }),
      perYear: rate,
    },
  ];
}

function ofContention(): ClosedForm[] {
  const losing = (changes: Partial<RiskModel>): RiskModel => ({ ...lossOf(1, 1), ...changes });
  const rate = LOCKS * perSecond(1);
  const slow = policy({ settings: { retryDelayUs: 2 * SECOND } });
  return [
    {
      title: 'another client waits in 30 % of the holds',
      formula: '0.3 λ (h − r)',
      model: losing({ contended: 0.3 }),
      perYear: 0.3 * rate * (5 - NEXT),
    },
    {
      title: 'it asks every 2 s',
      formula: 'λ (h − E[r])',
      model: losing({ policy: slow }),
      perYear: rate * (5 - 1),
    },
    {
      title: 'four others wait, each of which asks every 2 s',
      formula: 'λ (h − E[min of 4])',
      model: losing({ policy: slow, rivals: 4 }),
      perYear: rate * (5 - 2 / 5),
    },
    {
      title: 'it asks after 0.5 to 3.5 s',
      formula: 'λ (h − E[T²] / 2E[T])',
      model: losing({ policy: policy({ settings: { retryDelayUs: 2 * SECOND, retryJitterUs: 1.5 * SECOND } }) }),
      perYear: rate * (5 - (4 + 3 / 4) / 4),
    },
  ];
}
