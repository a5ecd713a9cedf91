import { constants } from 'node:os';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

interface Counting {
  readonly count?: number;
}

/**
 * Ends this process on a signal when all who listen to it leave that to others, until the returned function is called.
 *
 * `atExit` is one of those, and the package signal-exit, which testcontainers brings along, is another: each sees the
 * other, takes it for somebody who decides, and Ctrl-C would do nothing at all.
 */
export function endBySignal(): () => void {
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return () => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}

function onSignal(signal: NodeJS.Signals): void {
  const own = process.listeners(signal).filter((listener) => listener === onSignal).length;
  const ofAtExit = 1;
  if (process.listenerCount(signal) > own + ofAtExit + signalExitListeners()) return;
  // Unlike the signal by itself, this comes by `exit`, where the tasks of atExit run.
  process.exit(128 + constants.signals[signal]);
}

/** How often signal-exit listens to each signal: its releases 3 and 4 keep that count where their copies find it. */
function signalExitListeners(): number {
  const third = (process as { __signal_exit_emitter__?: Counting }).__signal_exit_emitter__;
  const fourth = (globalThis as { [key: symbol]: Counting | undefined })[Symbol.for('signal-exit emitter')];
  return (third?.count ?? 0) + (fourth?.count ?? 0);
}
