/**
 * What the host itself goes on using once the dispatchers are in their places. Taken when this module is first loaded,
 * once for the whole thread.
 */
interface Natives {
  readonly setImmediate: (callback: () => void) => unknown;
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  readonly now: () => number;
  /** What this process has used of the processor, ms: how busy the machine is does not change it. */
  readonly cpuMs: () => number;
  readonly Date: DateConstructor;
}

const KEY = Symbol.for('lockstep.guests.natives');

function cpuMsBy(usage: typeof process.cpuUsage): () => number {
  return () => {
    const { user, system } = usage();
    return (user + system) / 1000;
  };
}

function nativesOfThread(): Natives {
  const holder = globalThis as unknown as Record<symbol, Natives | undefined>;
  const known = holder[KEY];
  if (known !== undefined) return known;
  const natives: Natives = {
    setImmediate: globalThis.setImmediate,
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    now: performance.now.bind(performance),
    Date: globalThis.Date,
    cpuMs: cpuMsBy(process.cpuUsage.bind(process)),
  };
  holder[KEY] = natives;
  return natives;
}

/** What this thread had before the dispatchers took its place. */
export const natives: Natives = nativesOfThread();
