import type { Schedule } from './schedule.js';

/** The TTLs that clients ask for, of locks and of extensions, ms; each once. */
export function ttlsMsOf({ clients }: Schedule): number[] {
  const locks = clients.flatMap((client) => client.locks);
  return [...new Set(locks.flatMap((lock) => [lock.ttlMs, ...lock.extensions.map(({ ttlMs }) => ttlMs)]))];
}

/** The longest of them, µs; 0 where nobody asks for a lock. */
export function longestTtlUs(schedule: Schedule): number {
  return 1000 * Math.max(0, ...ttlsMsOf(schedule));
}
