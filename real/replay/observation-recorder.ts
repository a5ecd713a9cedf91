import type { LockLine } from '../../scenarios/history-line.js';
import type { Unfounded } from './observation.js';
import type { ReplayClock } from './replay-clock.js';

/** Takes down what happens in a run. */
export class ObservationRecorder {
  /** What clients were told, as it was told. */
  readonly told: LockLine[] = [];
  readonly claims: { readonly client: string; readonly atUs: number }[] = [];
  readonly unfounded: Unfounded[] = [];
  /** When claims end that were prolonged, µs, by their place in what was told. */
  readonly #ends = new Map<number, number>();
  readonly #clockwork: ReplayClock;

  constructor(clockwork: ReplayClock) {
    this.#clockwork = clockwork;
  }

  note(line: LockLine): void {
    this.told.push(line);
  }

  /** A claim will last for so long from now on, whatever was told. */
  prolonged(lock: string, forUs: number): void {
    const claim = this.told.findLastIndex((line) => line.lock === lock && 'validUs' in line);
    this.#ends.set(claim, this.#clockwork.nowUs() + forUs);
  }

  /** What clients were told, with claims as long as they lasted by their clocks. */
  get history(): readonly LockLine[] {
    return this.told.map((line, i) => {
      const endUs = this.#ends.get(i);
      return endUs === undefined || !('validUs' in line) ? line : { ...line, validUs: endUs - line.atUs };
    });
  }

  doubt(claim: Unfounded): void {
    this.unfounded.push(claim);
  }

  claimed(client: string): void {
    this.claims.push({ client, atUs: this.#clockwork.nowUs() });
  }
}
