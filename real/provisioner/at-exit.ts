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
  if (process.listenerCount(signal) > 1) return;
  runAll();
  process.off(signal, onSignal);
  process.kill(process.pid, signal);
}
