import type { Defect } from './defect.js';
import type { Plan } from './plan.js';
import { CALL_TTL_MS, CONNECTED_MS } from './played.js';
import { calm, REST_MS, rehearse, use } from './rehearsal.js';
import { SHARES_WATCH } from './shown-defects.js';
import type { Runnable } from './subject.js';
import type { Trial } from './trial.js';

/** From one call to the other, ms: the first has not had its first answer. */
const SOON_MS = 0.5;

/** Whether two calls of a process that are made at once watch keys over one connection: the EXEC of one ends the WATCH of the other. */
export async function sharesWatch({ bench, hosts, how }: Runnable, plan: Plan): Promise<Defect | null> {
  if (!bench.program.texts.some((it) => /\bwatch\(/i.test(it))) return null;
  const ttlMs = how.fixedTtlMs ?? CALL_TTL_MS;
  // What the first call of a process sends may wait for its connection: it is about something else.
  const first = { ...use(10, ttlMs, 1), resources: ['b'] };
  const uses = [first, ...[CONNECTED_MS, CONNECTED_MS + SOON_MS].map((atMs) => use(atMs, ttlMs, 1))];
  const schedule = calm(1, [uses], (CONNECTED_MS + REST_MS) * 1000);
  const attempts = await rehearse(bench, hosts, how, schedule, { naturally: true, apart: true, planOf: () => plan });
  const [, one, two] = attempts.map(({ trial }) => trial);
  if (one == null || two == null || one.loops) return null;
  const isOneConnection = [...one.watchedOver].some((it) => two.watchedOver.has(it));
  return isOneConnection && watchesWithin(one, two) && watchesWithin(two, one) ? SHARES_WATCH : null;
}

/** Whether the first WATCH of one comes before a transaction of the other is sent. */
function watchesWithin(one: Trial, other: Trial): boolean {
  const watched = one.sent.find(({ verb }) => verb === 'watch');
  const changes = other.sent.find(({ inMulti }) => inMulti === true);
  return watched !== undefined && changes !== undefined && watched.atMs < changes.atMs;
}
