/* Signals that end calls. */

/** The abort signals among arguments, and in their properties `signal`. */
export function signalsIn(given: readonly unknown[]): AbortSignal[] {
  return given
    .flatMap((it) => [it, typeof it === 'object' && it !== null ? Reflect.get(it, 'signal') : null])
    .filter((it) => it instanceof AbortSignal);
}

/** Rejects when a signal aborts. */
export function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });
}

/** What takes no longer than until one of these signals aborts. */
export function limited(takes: () => Promise<void>, signals: readonly AbortSignal[]): () => Promise<void> {
  return signals.length === 0 ? takes : () => Promise.race([takes(), ...signals.map(aborted)]);
}
