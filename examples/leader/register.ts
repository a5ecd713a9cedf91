import { compareFencingTokens, type FencingToken } from 'lockstep-redlock';

/** A resource that leaders write to. It refuses who shows a lesser token than it has seen. */
export class Register {
  /** Who wrote, in the order of the writes that it took. */
  readonly writers: string[] = [];
  /** Writes that it refused. */
  refused = 0;
  #seen: FencingToken | null = null;

  /** @returns Whether it took the write. */
  write(writer: string, token: FencingToken): boolean {
    if (this.#seen !== null && compareFencingTokens(token, this.#seen) < 0) {
      this.refused++;
      return false;
    }
    this.#seen = token;
    this.writers.push(writer);
    return true;
  }

  /** The writers in turn, each once for writes that follow each other. */
  get leaders(): readonly string[] {
    return this.writers.filter((writer, at) => writer !== this.writers[at - 1]);
  }
}
