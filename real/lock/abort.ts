interface Listening {
  readonly callbacks: Set<() => void>;
  readonly listener: () => void;
}

const listening = new WeakMap<AbortSignal, Listening>();

/**
 * Calls back once if `signal` aborts. All share one listener, because Node warns of a leak at the eleventh on a signal.
 * Returns what takes it back.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const { callbacks, listener } = listening.get(signal) ?? listen(signal);
  callbacks.add(callback);
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return;
    signal.removeEventListener('abort', listener);
    listening.delete(signal);
  };
}

function listen(signal: AbortSignal): Listening {
  const callbacks = new Set<() => void>();
  const listener = (): void => {
    listening.delete(signal);
    for (const callback of callbacks) callback();
  };
  const made = { callbacks, listener };
  listening.set(signal, made);
  signal.addEventListener('abort', listener, { once: true });
  return made;
}

/** Resolves when `promise` does, or when `signal` aborts. */
export function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return promise;
  return new Promise((resolve) => {
    const forget = onAbort(signal, resolve);
    void promise.then(() => {
      forget();
      resolve();
    });
  });
}
