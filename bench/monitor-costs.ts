import type { Monitors } from '../properties/index.js';
import { median } from '../real/bench/statistics.js';

/** What one monitor costs: the share of the CPU time that is saved without it. */
export interface MonitorCost {
  readonly monitor: string;
  readonly percent: number;
}

/** The monitors by the fields that hold them: of `Monitors`, or of its `protocol`. */
const PARTS = {
  'mutual-exclusion': ['mutualExclusion'],
  'quorum-backed': ['quorumBacked'],
  'no-stale-write': ['staleWrites'],
  'deadlock-free, fault-tolerance, progress': ['liveness'],
  'situations that are counted': ['coverage'],
  acquisition: ['protocol', 'acquisition'],
  extension: ['protocol', 'extension'],
  continuity: ['protocol', 'continuity'],
  'loss-notified': ['protocol', 'lossNotified'],
  'unique-token, one-lock-per-token': ['protocol', 'uniqueToken'],
  'bounded-key-lifetime': ['keyLifetime'],
  'owner-only-release': ['protocol', 'ownerOnlyRelease'],
  'release-to-all': ['protocol', 'releaseToAll'],
  cleanup: ['protocol', 'cleanup'],
  fencing: ['protocol', 'fencing'],
} as const;

/** Puts something in the place of a monitor that does nothing. */
function mute(monitors: Monitors, path: readonly string[]): void {
  let owner: object = monitors;
  for (const field of path.slice(0, -1)) owner = Reflect.get(owner, field) as object;
  const field = path[path.length - 1] ?? '';
  const monitor = Reflect.get(owner, field) as object | undefined;
  if (monitor === undefined) throw new Error(`there is no monitor "${path.join('.')}"`);
  Reflect.set(owner, field, silent(monitor));
}

const SILENT = new Map<object, object>();

/** Has the methods of a monitor, which do nothing; made once for each class, so that calls stay as fast as they can be. */
function silent(monitor: object): object {
  const proto = Object.getPrototypeOf(monitor) as object;
  let quiet = SILENT.get(proto);
  if (quiet === undefined) {
    quiet = {};
    for (const name of Object.getOwnPropertyNames(proto)) {
      if (name !== 'constructor') Object.defineProperty(quiet, name, { value: () => undefined });
    }
    SILENT.set(proto, quiet);
  }
  return quiet;
}

/**
 * Measures each monitor's cost: rounds of histories with all of them, and with all but one, in turns.
 *
 * @param play - Plays one history with monitors that were altered by the function.
 */
export function monitorCosts(
  play: (run: number, alter: (monitors: Monitors) => void) => void,
  rounds: number,
  histories: number,
): MonitorCost[] {
  const time = (alter: (monitors: Monitors) => void): number => {
    const began = process.cpuUsage();
    for (let run = 0; run < histories; run++) play(run, alter);
    const { user, system } = process.cpuUsage(began);
    return user + system;
  };
  const shares = Object.entries(PARTS).map(([monitor, path]) => ({ monitor, path, saved: [] as number[] }));
  for (let round = 0; round < rounds; round++) {
    for (const { path, saved } of shares) {
      const all = time(() => undefined);
      const without = time((monitors) => mute(monitors, path));
      saved.push(100 * (1 - without / all));
    }
  }
  return shares.map(({ monitor, saved }) => ({ monitor, percent: Math.round(10 * median(saved)) / 10 }));
}
