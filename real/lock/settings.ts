import {
  DEFAULT_SETTINGS,
  type Drift,
  HEALING,
  LONGEST_US,
  type LockPolicy,
  type Rules,
  type Settings,
  SOUND,
} from '../../core/index.js';
import { isRecord, readable, show } from './arguments.js';
import { LONGEST_TTL_MS } from './driver.js';
import { configError, type LockOperation } from './errors.js';

/**
 * What only {@link Settings} and {@link Rules} say. A lock in production has the sound choice, and nothing else may be
 * passed for it.
 */
export type PolicyOnly = {
  readonly [Field in Exclude<keyof Settings | keyof Rules, 'votesWanted' | 'maxExtensions' | 'fencing'>]?: never;
};

/**
 * Settings of a {@link Redlock}. Settings that node-redlock has too keep its names and defaults. No setting makes the lock unsafe:
 * quorum, validity check, owner check and cleanup are fixed.
 */
export interface RedlockSettings extends PolicyOnly {
  /**
   * Drift allowance as a share of the TTL, from 0 to below 1; 2 ms are added. It must cover how far the clocks of nodes gain on the
   * clock of this process during a TTL. The lock notices suspends of the machine from 2 ms on. Shorter ones, and pauses of a virtual
   * machine, which it cannot notice, use up the allowance too. Default 0.01.
   */
  readonly driftFactor?: number;
  /** Attempts after a failed first one; -1 retries until the lock is acquired or the signal aborts. Default 10. */
  readonly retryCount?: number;
  /** Mean pause between two attempts, ms, at most a day. Default 200. */
  readonly retryDelay?: number;
  /** Random spread of the pause: uniform within ± this, ms, at most a day. Default 100. */
  readonly retryJitter?: number;
  /**
   * `using` extends the lock when this much validity is left, ms; at most half of the validity counts, so that short locks are not
   * extended all the time. Default 500.
   */
  readonly automaticExtensionThreshold?: number;
  /**
   * Time-out for the answer of a node, ms: without an answer, the node is a failed vote. The default is generous for a network within
   * a region, and small compared to usual TTLs, so that waiting for a hung node leaves most of the validity. At most half of the
   * validity counts, and at most a day. It starts when the command is written, and the lock waits only while no quorum has answered.
   * Default 50.
   */
  readonly nodeTimeoutMs?: number;
  /**
   * Number of votes to wait for, from the quorum to the number of nodes. Each vote beyond the quorum tolerates data loss on one more
   * node, at the price of waiting for it. Fewer votes are accepted once all nodes have answered or timed out: see
   * `lock.toleratedDataLoss`. Default `quorum`.
   */
  readonly votesWanted?: 'quorum' | 'all' | number;
  /** Maximum number of extensions of one lock, including automatic ones; `null` for no limit. Default `null`. */
  readonly maxExtensions?: number | null;
  /**
   * Whether each lock has a fencing token, `lock.fencingToken`, from counters on a quorum of the nodes. It costs two more round trips
   * per acquisition. After a restart or failover, a node gets its counter from a quorum of the others with the next lock, whatever
   * its disk says. If fewer than a quorum know their counter, there are no tokens (`ERR_LOCK_COUNTERS_LOST`) until
   * {@link Redlock.recoverFencing} is called. New nodes need that call too. Clients need the permission for INFO. Default `false`.
   */
  readonly fencing?: boolean;
  /**
   * Whether an extension also sets the key on nodes that lost it in a restart, or were unreachable when the lock was acquired. It
   * helps during rolling updates, when nodes are restarted one after the other. Default `false`.
   */
  readonly healing?: boolean;
  /** Least validity after the answer of a quorum, ms: with less, the attempt fails. Default 0. */
  readonly minValidityMs?: number;
}

/** Settings of one acquisition. They override those of the `Redlock`. */
export interface AcquireSettings extends RedlockSettings {
  /** Aborts the acquisition at once; its keys are deleted in the background. */
  readonly signal?: AbortSignal;
}

/** Every setting, with its value. */
export type ResolvedSettings = Required<Omit<RedlockSettings, keyof PolicyOnly>>;

/** What settings are where nothing is said. */
export const DEFAULTS: ResolvedSettings = Object.freeze({
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
  nodeTimeoutMs: 50,
  votesWanted: 'quorum',
  maxExtensions: null,
  fencing: false,
  healing: false,
  minValidityMs: 0,
});

interface Rule {
  readonly accepts: (value: unknown) => boolean;
  readonly expected: string;
}

/** Nobody means to wait for longer, and beyond 2^31 ms timers fire at once, ms. */
const LONGEST_PAUSE_MS = 86_400_000;

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);
const durationFrom0: Rule = {
  accepts: (value) => isNumber(value) && value >= 0,
  expected: 'a number of milliseconds, 0 or more',
};
const durationAbove0: Rule = {
  accepts: (value) => isNumber(value) && value > 0,
  expected: 'a number of milliseconds above 0',
};
const pauseFrom0: Rule = {
  accepts: (value) => isNumber(value) && value >= 0 && value <= LONGEST_PAUSE_MS,
  expected: `a number of milliseconds from 0 to ${LONGEST_PAUSE_MS}, a day`,
};
const pauseAbove0: Rule = {
  accepts: (value) => pauseFrom0.accepts(value) && value !== 0,
  expected: `a number of milliseconds above 0, up to ${LONGEST_PAUSE_MS}, a day`,
};

const RULES: Readonly<Record<keyof ResolvedSettings, Rule>> = {
  driftFactor: {
    accepts: (value) => isNumber(value) && value >= 0 && value < 1,
    expected: 'a number from 0 to below 1, such as 0.01',
  },
  retryCount: {
    accepts: (value) => Number.isSafeInteger(value) && Number(value) >= -1,
    expected: 'a whole number, 0 or more, or -1 to try for ever',
  },
  retryDelay: pauseFrom0,
  retryJitter: pauseFrom0,
  automaticExtensionThreshold: durationAbove0,
  nodeTimeoutMs: pauseAbove0,
  votesWanted: {
    accepts: (value) => value === 'quorum' || value === 'all' || Number.isSafeInteger(value),
    expected: "'quorum', 'all' or a whole number",
  },
  maxExtensions: {
    accepts: (value) => value === null || (Number.isSafeInteger(value) && Number(value) >= 0),
    expected: 'a whole number, 0 or more, or null for no limit',
  },
  fencing: { accepts: (value) => typeof value === 'boolean', expected: 'true or false' },
  healing: { accepts: (value) => typeof value === 'boolean', expected: 'true or false' },
  minValidityMs: durationFrom0,
};

/**
 * `base` with what `given` sets.
 *
 * @throws LockError `ERR_LOCK_CONFIG` for an unknown setting or a value out of its range.
 */
export function resolveSettings(base: ResolvedSettings, given: object, nodes: number): ResolvedSettings {
  const entries = entriesOf(given);
  if (entries.length === 0) return base;
  const resolved: Record<string, unknown> = { ...base };
  for (const [name, value] of entries) {
    if (value === undefined || name === 'signal') continue;
    if (!Object.hasOwn(RULES, name)) {
      throw configError(`There is no setting ${name}; the settings are ${Object.keys(RULES).join(', ')}.`);
    }
    const rule = RULES[name as keyof ResolvedSettings];
    if (!rule.accepts(value)) throw configError(`${name} is ${show(value)}, but it must be ${rule.expected}.`);
    resolved[name] = value;
  }
  const settings = resolved as unknown as ResolvedSettings;
  const quorum = SOUND.quorum(nodes, 'acquire');
  if (typeof settings.votesWanted === 'number' && (settings.votesWanted < quorum || settings.votesWanted > nodes)) {
    throw configError(
      `votesWanted is ${settings.votesWanted}, but with ${nodes} nodes it must be from the quorum, ${quorum}, to ${nodes}.`,
    );
  }
  return settings;
}

function entriesOf(given: unknown): [string, unknown][] {
  if (!isRecord(given)) {
    throw configError(`The settings are ${show(given)}, but they must be an object.`);
  }
  return readable('The settings', () => Object.entries(given));
}

/**
 * The policy that carries out `settings` for a TTL: the reference with nothing changed but numbers.
 *
 * @throws LockError `ERR_LOCK_CONFIG` if the TTL is no whole number of ms, or too short to leave any validity.
 */
export function policyFor(settings: ResolvedSettings, ttlMs: number, autoExtend: boolean): LockPolicy {
  const driftPpm = Math.ceil(Number((settings.driftFactor * 1_000_000).toFixed(3)));
  const drift = { driftPpm, driftUs: DEFAULT_SETTINGS.driftUs };
  const validityUs = checkTtl(drift, ttlMs, settings.minValidityMs, 'acquire');
  const halfUs = Math.max(1, Math.floor(validityUs / 2));
  const thresholdUs = Math.min(wholeUs(settings.automaticExtensionThreshold), halfUs);
  const chosen: Settings = {
    ...DEFAULT_SETTINGS,
    ...drift,
    votesWanted: settings.votesWanted,
    fencing: settings.fencing,
    nodeTimeoutUs: Math.min(wholeUs(settings.nodeTimeoutMs), halfUs),
    minValidityUs: wholeUs(settings.minValidityMs),
    tries: settings.retryCount === -1 ? null : settings.retryCount + 1,
    retryDelayUs: wholeUs(settings.retryDelay),
    retryJitterUs: wholeUs(settings.retryJitter),
    maxExtensions: settings.maxExtensions,
    autoExtendAtUs: autoExtend ? thresholdUs : null,
    // A failed extension is tried again while there is time: several times within the threshold.
    autoExtendSpacingUs: Math.min(DEFAULT_SETTINGS.autoExtendSpacingUs, Math.ceil(thresholdUs / 4)),
  };
  return { settings: chosen, rules: settings.healing ? HEALING : SOUND };
}

/**
 * The validity that a TTL leaves after the drift allowance, µs.
 *
 * @throws LockError `ERR_LOCK_CONFIG` if there is none, or the TTL is no TTL.
 */
export function checkTtl(drift: Drift, ttlMs: number, minValidityMs: number, operation: LockOperation): number {
  if (!Number.isSafeInteger(ttlMs) || ttlMs < 1) {
    throw configError(
      `The TTL is ${show(ttlMs)}, but it must be a whole number of milliseconds from 1 to ${Number.MAX_SAFE_INTEGER}.`,
      operation,
    );
  }
  const countedUs = Math.min(ttlMs, LONGEST_TTL_MS) * 1000;
  const driftUs = SOUND.allowance(countedUs, drift);
  const validityUs = countedUs - driftUs;
  if (validityUs <= 0 || validityUs <= minValidityMs * 1000) {
    const needed = minValidityMs > 0 ? `more than the ${minValidityMs} ms of minValidityMs` : 'anything';
    throw configError(
      `A TTL of ${ttlMs} ms does not leave ${needed} after the drift allowance of ${driftUs / 1000} ms.`,
      operation,
    );
  }
  return validityUs;
}

function wholeUs(ms: number): number {
  return Math.min(LONGEST_US, Math.round(ms * 1000));
}
