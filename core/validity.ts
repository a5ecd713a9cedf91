import type { Round } from './rules.js';
import type { LocalTime } from './time.js';
import type { Turn } from './turn.js';

/**
 * The local instant at which a lock ends whose votes are in: T1 + TTL − D, or `null` where too little is left of that,
 * TTL − (T2 − T1) − D.
 */
export function deadlineOf({ policy, s, now }: Turn, round: Round): LocalTime | null {
  const { rules, settings } = policy;
  const isNew = round === 'acquire';
  const ttlUs = (isNew ? s.ttlMs : s.extension.ttlMs) * 1000;
  const startedAt = isNew ? s.attempt.startedAt : s.extension.startedAt;
  const allowanceUs = rules.allowance(ttlUs, settings);
  const won = { round, calledAt: s.calledAt, startedAt, now, ttlUs, allowanceUs };
  const from = rules.from(won);
  const leftUs = rules.left(won, from);
  return rules.enough(leftUs, settings, round) ? rules.deadline(won, from, leftUs) : null;
}
