import type { Fault } from '../../scenarios/index.js';
import { type Attack, attack, type ExpiryModel, type Setting } from '../../search/safety-map/adversary.js';
import { greatest } from '../../search/safety-map/bisect.js';

const TTL_MS = 10_000;
const DELAY_US = 1_000;
const EVERY_US = 1_000_000;

/** One of three voters writes an append-only file, with an fsync every second, and crashes. */
interface FsyncCase {
  /** From the start of an fsync to the holder's SET, µs. */
  readonly phaseUs: number;
  /** How long an fsync takes, µs. */
  readonly takesUs: number;
  /** The power goes, not only the process. */
  readonly power: boolean;
}

function crash(atUs: number, power: boolean): Fault {
  return { kind: 'crash', atUs, node: 'n0', power, restartAfterUs: 0 };
}

/** The node crashes `laterUs` after the holder's SET, and is back at once. */
function crashAttack({ phaseUs, takesUs, power }: FsyncCase, laterUs: number): Attack {
  const firstUs = (DELAY_US - phaseUs + EVERY_US) % EVERY_US;
  return attack({
    ttlMs: TTL_MS,
    delayUs: DELAY_US,
    votes: 3,
    disk: { persistence: 'everysec', fsync: { firstUs, everyUs: EVERY_US, takesUs } },
    faults: [crash(DELAY_US + laterUs, power)],
  });
}

/** The longest time after a SET at which the crash still lets somebody in, µs. */
export function longestUnsafe(wanted: FsyncCase): number {
  return greatest(1, 4 * EVERY_US, (us) => crashAttack(wanted, us).overlap);
}

/** The holder extends at `callUs`, and the power goes when the SET is on disk and the extension is not. */
function lostExtensionAttack(callUs: number, grain: ExpiryModel): Attack {
  const carriedOutUs = callUs + DELAY_US;
  const setting: Setting = {
    ttlMs: TTL_MS,
    delayUs: DELAY_US,
    grain,
    votes: 3,
    holder: { extensions: [{ afterUs: callUs - 2 * DELAY_US, ttlMs: TTL_MS }] },
    disk: { persistence: 'everysec', fsync: { firstUs: 2 * DELAY_US, everyUs: EVERY_US, takesUs: 0 } },
    faults: [crash(carriedOutUs + 2 * DELAY_US, true)],
  };
  return attack(setting, carriedOutUs);
}

/** The latest call of an extension whose loss lets nobody in, µs after the call of the holder. */
export function latestHarmlessLoss(grain: ExpiryModel): number {
  return greatest(3 * DELAY_US, EVERY_US - 10 * DELAY_US, (us) => !lostExtensionAttack(us, grain).overlap);
}

/** The circumstances that are the same in all of them. */
export const FSYNC_SETTING: { readonly ttlMs: number; readonly delayUs: number; readonly everyUs: number } = {
  ttlMs: TTL_MS,
  delayUs: DELAY_US,
  everyUs: EVERY_US,
};
