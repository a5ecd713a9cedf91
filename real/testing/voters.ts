import type { Redlock } from 'lockstep-redlock';
import { expect } from 'vitest';

let taken = 0;

/** Waits until `count` nodes vote for a lock. */
export async function untilVoters(redlock: Redlock, count: number): Promise<void> {
  const voters = async () => {
    await using lock = await redlock.acquire(`voters:${process.pid}:${taken++}`, 5000, { votesWanted: 'all' });
    return lock.votes.granted.length;
  };
  await expect.poll(voters, { timeout: 10_000 }).toBe(count);
}
