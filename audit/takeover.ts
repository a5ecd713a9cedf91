import type { Fault } from '../scenarios/index.js';
import type { Defect } from './defect.js';
import { use } from './rehearsal.js';
import { setsAnyway } from './said.js';
import { plays, type Subject, useOf } from './subject.js';

/** The lock of a process that has died, whose value says when it is over, is taken over by two that look first. */
const takenAfterLook = (looks: string, sets: string): Defect => ({
  id: 'check-then-set',
  sentence: `it takes over a stale lock by two commands (${looks.toUpperCase()}, then ${sets.toUpperCase()}): that is not atomic, so that two processes that both find it stale both set the key, overwrite each other, and both hold the lock`,
  fix: 'let the key end by itself (SET key token NX PX ttl), or take it over in one script that compares the stale value',
  brings: ['belief', 'state'],
  property: 'mutual-exclusion',
  isShown: true,
  takes: 'overwritten',
});

/** Two processes ask so many TTLs after the one that has died. */
const STALE_TTLS = 2.5;

/** Whether two processes that ask at once, when the lock of one that has died is over by the time in it, both hold it. */
export async function takenByTwo(subject: Subject): Promise<Defect | null> {
  const { ttlMs } = subject;
  const after = use(STALE_TTLS * ttlMs, ttlMs, ttlMs / 2);
  const dies: Fault = { kind: 'client-crash', client: 'c1', atUs: Math.round(ttlMs * 500) };
  const attempts = await plays(subject, [[use(10, ttlMs, ttlMs)], [after], [after]], [dies]);
  const [one, two] = [useOf(attempts, 'c2'), useOf(attempts, 'c3')];
  if (one === undefined || two === undefined) return null;
  const isAtOnce = one.acquiredMs < two.releasedMs && two.acquiredMs < one.releasedMs;
  const { sent = [], key } = one.trial ?? {};
  const own = sent.filter((it) => it.key === key);
  const at = own.findIndex(setsAnyway);
  const looks = own[at - 1];
  const sets = own[at];
  return isAtOnce && looks !== undefined && sets !== undefined ? takenAfterLook(looks.verb, sets.verb) : null;
}
