/** Calls library code; when what it returns has settled, says so, and goes on unless it is `over` by then. */
export function follow(
  call: () => unknown,
  settled: () => void,
  done: (value: unknown) => void,
  failed: (error: unknown) => void,
  over: () => boolean,
): void {
  let outcome: unknown;
  try {
    outcome = call();
  } catch (error) {
    settled();
    failed(error);
    return;
  }
  Promise.resolve(outcome).then(
    (value) => {
      settled();
      if (!over()) done(value);
    },
    (error) => {
      settled();
      if (!over()) failed(error);
    },
  );
}

/** What a trace says of what a client rejects with. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.name : 'failed';
}
