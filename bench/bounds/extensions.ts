import type { Fate } from '../../scenarios/index.js';
import {
  ALIGNED,
  type Attack,
  alone,
  attack,
  type ExpiryModel,
  type Setting,
} from '../../search/safety-map/adversary.js';
import { greatest } from '../../search/safety-map/bisect.js';
import { observeRun } from '../../search/safety-map/watch.js';

/** A holder that extends its lock once, half a TTL after its claim. */
interface ExtensionCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  readonly grain?: ExpiryModel;
}

/** Fates of one round of extension on the first `nodes` nodes. */
function round(number: number, nodes: number, fate: Pick<Fate, 'direction' | 'delayUs' | 'lost'>): Fate[] {
  return Array.from({ length: nodes }, (_, i) => ({
    client: 'c1',
    operation: 'extend',
    round: number,
    node: `n${i}`,
    ...fate,
  }));
}

/** The new deadline counts from where `from` says, and the round took `elapsedUs`, all of the surplus on its way back. */
export function slowRoundAttack(wanted: ExtensionCase, from: 'start' | 'reply', elapsedUs: number): Attack {
  const { ttlMs, delayUs, grain = ALIGNED } = wanted;
  const afterUs = 500 * ttlMs;
  const setting: Setting = {
    ttlMs,
    delayUs,
    grain,
    votes: 3,
    policy: { deviations: from === 'reply' ? ['extension-counts-from-reply'] : [] },
    holder: { extensions: [{ afterUs, ttlMs }] },
    fates: round(0, 3, { direction: 'reply', delayUs: elapsedUs - delayUs }),
  };
  return attack(setting, 3 * delayUs + afterUs);
}

/** The slowest round of extension that lets nobody in although the new deadline counts from its replies, µs. */
export function greatestElapsedFromReply(wanted: ExtensionCase): number {
  const { ttlMs, delayUs } = wanted;
  return greatest(2 * delayUs, 400 * ttlMs, (us) => !slowRoundAttack(wanted, 'reply', us).overlap);
}

/** Of `nodes` nodes, all of which voted, only `reached` carry out the extension, and the holder is content with them. */
export function fewExtendedAttack(nodes: number, quorum: number, reached: number): Attack {
  const ttlMs = 10_000;
  return attack({
    ttlMs,
    delayUs: 1000,
    nodes,
    policy: { deviations: [`quorum:${quorum}`, `extension-votes:${reached - quorum}`] },
    holder: { extensions: [{ afterUs: 500 * ttlMs, ttlMs }] },
    fates: round(0, nodes, { direction: 'request', lost: true }).slice(reached),
  });
}

/** The least number of nodes that have to carry out an extension so that nobody gets in. */
export function leastExtended(nodes: number, quorum: number): number {
  for (let reached = 1; reached <= nodes; reached++) {
    if (!fewExtendedAttack(nodes, quorum, reached).overlap) return reached;
  }
  throw new Error('somebody gets in although all nodes extended');
}

/** True times of {@link overtakenAttack}: when the short extension is called and carried out, and when the long one is called. */
export const OVERTAKEN = { shortCallUs: 100_000, shortLandsUs: 2_000_000, longCallUs: 500_000 } as const;

/**
 * An extension by `shortMs` times out unacknowledged and is carried out only after a later one by the whole TTL, as
 * `command` says.
 */
export function overtakenAttack(ttlMs: number, command: 'own' | 'own-or-missing', shortMs: number): Attack {
  const delayUs = 1000;
  const claimUs = 2 * delayUs;
  const { shortCallUs, shortLandsUs, longCallUs } = OVERTAKEN;
  return attack(
    {
      ttlMs,
      delayUs,
      votes: 3,
      link: 'reordering',
      policy: { settings: { nodeTimeoutUs: 50_000 }, deviations: command === 'own' ? [] : ['extends-missing'] },
      holder: {
        extensions: [
          { afterUs: shortCallUs - claimUs, ttlMs: shortMs },
          { afterUs: longCallUs - claimUs, ttlMs },
        ],
      },
      fates: round(0, 5, { direction: 'request', delayUs: shortLandsUs - shortCallUs }),
    },
    shortLandsUs,
  );
}

/** The longest overtaken extension that lets somebody in where a late command can shorten the life of a key, ms. */
export function greatestOvertaken(ttlMs: number): number {
  return greatest(1, ttlMs, (shortMs) => overtakenAttack(ttlMs, 'own-or-missing', shortMs).overlap);
}

/** The longest time that a lock can be held with so many extensions, each called as late as it can be. */
interface LongestHold {
  /** When the extensions are called, µs after the claim. */
  readonly callsUs: readonly number[];
  /** True time at which the holder stops believing, µs after its call. */
  readonly endUs: number;
  /** True time at which a rival's SETs can succeed, µs after the holder's call. */
  readonly freeUs: number;
}

/** The longest time that a lock can be held by so many extensions, found by bisection. */
export function longestHold({ ttlMs, delayUs, grain = ALIGNED }: ExtensionCase, extensions: number): LongestHold {
  const setting = (calls: readonly number[]): Setting => ({
    ttlMs,
    delayUs,
    grain,
    policy: { settings: { maxExtensions: extensions } },
    holder: { extensions: calls.map((afterUs) => ({ afterUs, ttlMs })) },
  });
  const calls: number[] = [];
  for (let i = 0; i < extensions; i++) {
    const last = calls.at(-1) ?? 0;
    const extends_ = (us: number): boolean => observeRun(alone(setting([...calls, us]))).extended.length > i;
    calls.push(greatest(last, last + 2000 * ttlMs, (us) => (us === last ? true : extends_(us))));
  }
  const run = attack(setting([...calls, ...calls.slice(-1).map((us) => us + 2 * delayUs + 1)]));
  const end = run.ends.find((change) => change.client === 'c1');
  if (end === undefined) throw new Error('the holder believes for ever');
  return { callsUs: calls, endUs: end.atUs, freeUs: run.strikeUs };
}
