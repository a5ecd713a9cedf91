import type { Schedule } from '../../scenarios/index.js';
import { CATALOGUE } from './scenes.js';

/** A schedule in which three clients lock and release for so many rounds of a second; about 160 events each round. */
export function longSchedule(rounds: number): Schedule {
  const { schedule } = CATALOGUE.find(({ id }) => id === 'S03') ?? {};
  const lock = schedule?.clients[0]?.locks[0];
  if (schedule === undefined || lock === undefined) throw new Error('S03 has lost its lock');
  const clients = ['c1', 'c2', 'c3'].map((id, client) => ({
    id,
    locks: Array.from({ length: rounds }, (_, round) => ({
      ...lock,
      atUs: round * 1_000_000 + client * 300_000,
      ttlMs: 1_000,
      holdUs: 100_000,
    })),
  }));
  return { ...schedule, clients, faults: [], fates: [], untilUs: (rounds + 10) * 1_000_000 };
}
