import type { Fate, Fault } from '../../scenarios/index.js';
import {
  ALIGNED,
  type Attack,
  alone,
  attack,
  type ExpiryModel,
  type Setting,
  strikeAt,
} from '../../search/safety-map/adversary.js';
import { observeRun } from '../../search/safety-map/watch.js';

/** A client that sends its SETs and is never heard of again, and what keeps its keys longest. */
interface SilenceCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  readonly grain?: ExpiryModel;
  /** Rate of the nodes' clocks, ppm: slow nodes keep a key longer. */
  readonly nodePpm?: number;
  /** The clocks of a blocking minority are set back by this, µs. */
  readonly setBackUs?: number;
  /** SETs to a blocking minority take this long instead, µs. */
  readonly ghostUs?: number;
}

/** As few of five nodes as suffice to keep everybody else from a quorum. */
const BLOCKING = 3;

/** The nodes of a blocking minority, each made into something. */
function blocking<T>(make: (node: string) => T): T[] {
  return Array.from({ length: BLOCKING }, (_, i) => make(`n${i}`));
}

function silence(wanted: SilenceCase): Setting {
  const { ttlMs, delayUs, grain = ALIGNED, nodePpm = 0, setBackUs = 0, ghostUs } = wanted;
  // After the last of its SETs was carried out.
  const atUs = (ghostUs ?? delayUs) + 1000;
  const back = (process: string): Fault => ({ kind: 'clock-step', atUs, process, byUs: -setBackUs });
  const ghost = (node: string): Fate => ({
    client: 'c1',
    operation: 'acquire',
    node,
    direction: 'request',
    delayUs: ghostUs ?? delayUs,
  });
  return {
    ttlMs,
    delayUs,
    grain,
    nodePpm,
    drifting: BLOCKING,
    faults: [{ kind: 'client-crash', atUs: 0, edge: 'after', client: 'c1' }, ...(setBackUs > 0 ? blocking(back) : [])],
    fates: ghostUs === undefined ? [] : blocking(ghost),
  };
}

/** A rival whose SETs are carried out `beforeUs` before the last key of a blocking minority is gone. */
export function holderCrashAttack(wanted: SilenceCase, beforeUs = 0): Attack {
  const setting = silence(wanted);
  const run = attack(setting, wanted.ghostUs ?? wanted.delayUs);
  return beforeUs === 0 ? run : strikeAt(setting, run.strikeUs - beforeUs);
}

/** From the last word of a client to the instant at which a rival's SETs succeed, µs. */
export function freeAfterSilence(wanted: SilenceCase): number {
  const run = holderCrashAttack(wanted);
  if (!run.claims.some((claim) => claim.client === 'c2')) throw new Error('the rival does not get the lock');
  return run.strikeUs;
}

/** A client that keeps trying, alone, for a lock whose holder is gone. */
interface WaitCase {
  readonly ttlMs: number;
  readonly delayUs: number;
  readonly timeoutUs: number;
  readonly retryDelayUs: number;
  readonly retryJitterUs: number;
  /** Two of the five nodes are down, and only one of the others is not free yet: its refusal decides nothing. */
  readonly twoDown: boolean;
}

const LONGEST_PAUSE_PPM = 1_000_000;

function waitingSetting(wanted: WaitCase): Setting {
  const { ttlMs, delayUs, timeoutUs, retryDelayUs, retryJitterUs, twoDown } = wanted;
  const down = ['n3', 'n4'].map((node): Fault => ({ kind: 'crash', atUs: 0, node, restartAfterUs: null }));
  const sooner = ['n0', 'n1'].map(
    (process): Fault => ({ kind: 'clock-step', atUs: 3 * delayUs, process, byUs: 10_000 }),
  );
  return {
    ttlMs,
    delayUs,
    policy: { settings: { nodeTimeoutUs: timeoutUs, retryDelayUs, retryJitterUs, tries: null } },
    rival: { jitterPpm: [LONGEST_PAUSE_PPM] },
    faults: [
      { kind: 'client-crash', atUs: 2 * delayUs, edge: 'after', client: 'c1' },
      ...(twoDown ? [...down, ...sooner] : []),
    ],
  };
}

/** When the lock is free, and when a client claims it whose SETs come `earlyUs` before that. */
export function waitAttack(wanted: WaitCase, earlyUs: number): { freeUs: number; claimUs: number } {
  const setting = waitingSetting(wanted);
  const { freeUs } = observeRun(alone(setting), wanted.delayUs);
  if (freeUs === null) throw new Error('a quorum never gets free');
  const claim = strikeAt(setting, freeUs - earlyUs).claims.find((it) => it.client === 'c2');
  if (claim === undefined) throw new Error('the waiting client never gets the lock');
  return { freeUs, claimUs: claim.atUs };
}

/** The longest time from when the lock is free to the claim of a client that has been trying all along, µs. */
export function longestWait(wanted: WaitCase): number {
  const { freeUs, claimUs } = waitAttack(wanted, 1);
  return claimUs - freeUs;
}
