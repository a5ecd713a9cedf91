/** Everything that a lock has to withstand, at once. */
export const demanding = { faults: { crash: 1, skewMs: 50, partition: 1, loss: 0.02, delay: 0.05 }, runs: 25 } as const;

/** What a promise is rejected with. */
export async function caught(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('nothing was thrown');
}
