import type { LocalTime, LockPolicy, Won } from '../index.js';

/** What the rules of a policy say of an attempt that began at `from` and has its votes at `now`. */
export class Validity {
  private readonly policy: LockPolicy;
  private readonly won: Won;

  constructor(policy: LockPolicy, from: LocalTime, now: LocalTime, ttlUs: number) {
    const allowanceUs = policy.rules.allowance(ttlUs, policy.settings);
    this.policy = policy;
    this.won = { round: 'acquire', calledAt: from, startedAt: from, now, ttlUs, allowanceUs };
  }

  get leftUs(): number {
    return this.policy.rules.left(this.won, this.policy.rules.from(this.won));
  }

  get deadline(): LocalTime {
    return this.policy.rules.deadline(this.won, this.policy.rules.from(this.won), this.leftUs);
  }

  get isEnough(): boolean {
    return isEnough(this.policy, this.leftUs);
  }
}

/** Whether so much is enough. */
export function isEnough({ rules, settings }: LockPolicy, leftUs: number): boolean {
  return rules.enough(leftUs, settings, 'acquire');
}
