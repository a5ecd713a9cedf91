import { deviates, type Policy, releasesInTurn } from '../../../deviations/index.js';

/** Rounds that an attempt may take for its fencing token: counters are read, read again if none is there, and raised. */
const FENCING_ROUNDS = 3;

/** How long what clients do may take under a policy, µs of local time. */
export class Durations {
  asksInTurn = false;
  /** The longest pause between two attempts. */
  longestPauseUs = 0;
  nodeTimeoutUs: number | null = null;
  private fencingRounds = 0;
  private releasesInTurn = false;
  private awaitsCleanUp = false;
  private policy: Policy | null = null;

  constructor(policy: Policy) {
    this.reset(policy);
  }

  /** For a run of another policy. */
  reset(policy: Policy): void {
    if (policy === this.policy) return;
    this.policy = policy;
    const { retryDelayUs, retryJitterUs, nodeTimeoutUs, fencing } = policy.settings;
    this.asksInTurn = deviates(policy, 'asks-in-turn');
    this.longestPauseUs = retryDelayUs + retryJitterUs;
    this.nodeTimeoutUs = nodeTimeoutUs;
    this.fencingRounds = fencing ? FENCING_ROUNDS : 0;
    this.releasesInTurn = releasesInTurn(policy);
    this.awaitsCleanUp = deviates(policy, 'awaits-clean-up', 'awaits-whole-clean-up');
  }

  /** One attempt: as long as its own time-outs, or else the TTL, because nothing can come of it after that. */
  attemptUs(nodes: number, ttlMs: number): number {
    if (this.nodeTimeoutUs === null) return ttlMs * 1000;
    return this.nodeTimeoutUs * ((this.asksInTurn ? nodes : 1) + this.fencingRounds);
  }

  /** The releases of one lock or attempt. */
  releaseUs(nodes: number, ttlMs: number): number {
    if (this.nodeTimeoutUs === null) return ttlMs * 1000;
    return this.nodeTimeoutUs * (this.releasesInTurn ? nodes : 1);
  }

  /** A clean-up, where the next attempt waits for it. */
  cleanUpUs(nodes: number, ttlMs: number): number {
    return this.awaitsCleanUp ? this.releaseUs(nodes, ttlMs) : 0;
  }
}
