import { type AsyncHook, createHook, executionAsyncId } from 'node:async_hooks';
import { authorsLine, stackNow } from './frames.js';
import { current } from './runtime/owner.js';

/** Something that was begun, and what had begun that. */
interface Begun {
  readonly stack: Error;
  readonly by: Begun | null;
}

/**
 * Which line of a client's author has begun what goes on now. Clients write to their connections later than they are asked
 * to: after a promise, a tick or an immediate. It is followed within one instant: what is begun later, as a queue that is
 * sent when a connection is there, is due to another line than the one that asks for the connection.
 */
export class Origins {
  private readonly nowUs: () => number;
  /** By the number of what is waited for. */
  private readonly begun = new Map<number, Begun>();
  private atUs = 0;
  private kept: Begun | null = null;
  private readonly hook: AsyncHook = createHook({ init: (id) => this.begins(id) });

  /** @param nowUs - The instant, µs of true time. */
  constructor(nowUs: () => number) {
    this.nowUs = nowUs;
  }

  start(): void {
    this.hook.enable();
  }

  stop(): void {
    this.hook.disable();
  }

  private begins(id: number): void {
    if (current.owner !== null) this.begun.set(id, this.now());
  }

  private now(): Begun {
    const nowUs = this.nowUs();
    if (nowUs !== this.atUs) this.begun.clear();
    this.atUs = nowUs;
    return { stack: stackNow(), by: this.kept ?? this.begun.get(executionAsyncId()) ?? null };
  }

  /** The line that has begun what goes on now; `null` where nobody knows. */
  lineNow(): string | null {
    for (let it: Begun | null = this.now(); it !== null; it = it.by) {
      const line = authorsLine(it.stack);
      if (line !== null) return line;
    }
    return null;
  }

  /** Has what this does later in the same instant count as begun by what goes on now. */
  keep(work: () => void): () => void {
    const kept = this.now();
    return () => {
      this.kept = kept;
      try {
        work();
      } finally {
        this.kept = null;
      }
    };
  }
}
