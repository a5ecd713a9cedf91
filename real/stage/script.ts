import type { LockLine } from '../../scenarios/history-line.js';
import type { Clockwork } from './clockwork.js';

/** Takes down what happens in a run. */
export class Script {
  readonly history: LockLine[] = [];
  readonly claims: { readonly client: string; readonly atUs: number }[] = [];
  readonly #clockwork: Clockwork;

  constructor(clockwork: Clockwork) {
    this.#clockwork = clockwork;
  }

  note(line: LockLine): void {
    this.history.push(line);
  }

  claimed(client: string): void {
    this.claims.push({ client, atUs: this.#clockwork.nowUs() });
  }
}
