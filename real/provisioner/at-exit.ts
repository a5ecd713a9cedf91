const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const tasks = new Set<() => void>();

/** Runs `task` when this process ends, by itself or by a signal, unless the returned function was called before. */
export function atExit(task: () => void): () => void {
  if (tasks.size === 0) {
    process.on('exit', runAll);
    for (const signal of SIGNALS) process.on(signal, onSignal);
  }
  tasks.add(task);
  return () => {
    if (!tasks.delete(task) || tasks.size > 0) return;
    process.off('exit', runAll);
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}

function runAll(): void {
  for (const task of tasks) task();
  tasks.clear();
}

function onSignal(signal: NodeJS.Signals): void {
  // Somebody else decides what this signal means; if that is the end, it comes by `exit`.
  if (process.listenerCount(signal) > 1 + signalExitListeners()) return;
  runAll();
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}

interface Counting {
  readonly count?: number;
}

/**
 * How often the package signal-exit, which testcontainers brings along, listens to each signal: its releases 3 and 4 keep
 * that count where their copies find it. It leaves a signal to others as we do; if both of us did, nothing would happen.
 */
function signalExitListeners(): number {
  const third = (process as { __signal_exit_emitter__?: Counting }).__signal_exit_emitter__;
  const fourth = (globalThis as { [key: symbol]: Counting | undefined })[Symbol.for('signal-exit emitter')];
  return (third?.count ?? 0) + (fourth?.count ?? 0);
}
