import type { Command, Token } from '../../core/index.js';

/** An extension that a node carries out whatever TTL the key has. */
interface SentExtension {
  /** The connection that it went by. */
  readonly by: object;
  readonly ttlMs: number;
}

/** The extensions without a script that a node has not answered, by the token of their lock. */
export class SentExtensions {
  readonly #sent = new Map<Token, SentExtension>();

  get size(): number {
    return this.#sent.size;
  }

  /**
   * An extension without a script gives its TTL, whatever the key has. One whose connection was lost may still arrive: after
   * a longer one that came by another connection, which is therefore not sent.
   */
  mayFollow({ operation, token, ttlMs }: Command, by: object): boolean {
    if (operation === 'release') this.#sent.delete(token);
    const earlier = this.#sent.get(token);
    return earlier === undefined || earlier.by === by || ttlMs <= earlier.ttlMs;
  }

  note({ token, ttlMs }: Command, by: object): SentExtension {
    const extension = { by, ttlMs };
    const earlier = this.#sent.get(token);
    // One of a connection that was lost stays in doubt. On the same one the later stands for both.
    if (earlier === undefined || earlier.by === by) this.#sent.set(token, extension);
    return extension;
  }

  settle({ token }: Command, extension: SentExtension): void {
    if (this.#sent.get(token) === extension) this.#sent.delete(token);
  }
}
