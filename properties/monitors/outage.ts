/** When nobody could acquire, and why. */
export interface Outage {
  readonly fromUs: number;
  readonly toUs: number;
  readonly reason: 'no-quorum-up' | 'orphaned-keys' | 'nobody-acquires';
}
