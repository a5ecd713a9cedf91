import { ofThread } from './thread.js';

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

function cpuMsBy(usage: typeof process.cpuUsage): () => number {
  return () => {
    const { user, system } = usage();
    return (user + system) / 1000;
  };
}

/** What this thread had before the dispatchers took its place. */
export const natives: Natives = ofThread('natives', () => ({
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
  now: performance.now.bind(performance),
  Date: globalThis.Date,
  cpuMs: cpuMsBy(process.cpuUsage.bind(process)),
}));
