import type { LockLine } from '../../scenarios/history-line.js';
import type { Clockwork } from './clockwork.js';
import type { Unfounded } from './observation.js';

/** Takes down what happens in a run. */
export class Script {
  readonly history: LockLine[] = [];
  readonly claims: { readonly client: string; readonly atUs: number }[] = [];
  readonly unfounded: Unfounded[] = [];
  readonly #clockwork: Clockwork;

  constructor(clockwork: Clockwork) {
    this.#clockwork = clockwork;
  }

  note(line: LockLine): void {
    this.history.push(line);
  }

  doubt(claim: Unfounded): void {
    this.unfounded.push(claim);
  }

  claimed(client: string): void {
    this.claims.push({ client, atUs: this.#clockwork.nowUs() });
  }
}
