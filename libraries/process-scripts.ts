import type { Effect, Sender } from './redis/effect.js';
import type { Meaning, Scripts } from './redis/meaning.js';
import type { Session } from './session.js';

/** What the scripts and commands of one process do, seen from the locks that it asks for. */
export class ProcessScripts implements Scripts {
  private readonly session: Session;
  private readonly isAcquiring: () => boolean;
  /** By key: the words by which the process asked for it last. */
  private readonly acquisitions = new Map<string, readonly string[]>();

  constructor(session: Session, isAcquiring: () => boolean) {
    this.session = session;
    this.isAcquiring = isAcquiring;
  }

  /** The process sends this command. */
  sends(words: readonly string[], { operation, keys }: Meaning): void {
    const key = keys[0];
    if (operation !== 'acquire' || key === undefined) return;
    const isBySha = words[0]?.toLowerCase() === 'evalsha';
    this.acquisitions.set(key, isBySha ? ['eval', this.textOf(words[1] ?? '') ?? '', ...words.slice(2)] : words);
  }

  textOf(sha: string): string | undefined {
    return this.session.textOf(sha);
  }

  effectOf(text: string, rest: readonly string[]): Effect | null {
    return this.session.effects.ofScript(text, rest, this.senderOf(rest[1]));
  }

  effectOfFunction(name: string, rest: readonly string[]): Effect | null {
    return this.session.effects.ofFunction(name, rest, this.senderOf(rest[1]));
  }

  effectOfCommand(name: string, rest: readonly string[]): Effect | null {
    const { acquiredBy } = this.senderOf(rest[0]);
    return acquiredBy === null ? null : this.session.effects.afterAcquiring([name, ...rest], acquiredBy);
  }

  private senderOf(key = ''): Sender {
    return { isAcquiring: this.isAcquiring(), acquiredBy: this.acquisitions.get(key) ?? null };
  }
}
