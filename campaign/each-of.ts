/**
 * Does one task after the other, so many at a time, until the signal comes: what has begun is then left behind.
 *
 * @returns What came of those that ended, in the order of the tasks.
 */
export async function eachOf<T, R>(
  tasks: Iterable<T>,
  width: number,
  signal: AbortSignal,
  make: (task: T) => Promise<R>,
): Promise<R[]> {
  const results: { readonly place: number; readonly result: R }[] = [];
  const left = tasks[Symbol.iterator]();
  let places = 0;
  let stop: () => void = () => {};
  const stopped = new Promise<null>((resolve) => {
    stop = () => resolve(null);
  });
  signal.addEventListener('abort', stop, { once: true });
  const work = async (): Promise<void> => {
    while (!signal.aborted) {
      const next = left.next();
      if (next.done) return;
      const place = places++;
      const result = await Promise.race([make(next.value).then((it) => ({ it })), stopped]);
      if (result === null) return;
      results.push({ place, result: result.it });
    }
  };
  try {
    await Promise.all(Array.from({ length: width }, work));
  } finally {
    signal.removeEventListener('abort', stop);
  }
  return results.sort((a, b) => a.place - b.place).map(({ result }) => result);
}
