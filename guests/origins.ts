import { type AsyncHook, createHook, executionAsyncId } from 'node:async_hooks';
import { authorsLine } from './frames.js';
import { current } from './host/owner.js';

/**
 * Which line of a client's author has begun what goes on now. Clients write to their connections later than they are asked
 * to: after a promise, a tick or an immediate. It is followed within one instant: what is begun later, as a queue that is
 * sent when a connection is there, is due to another line than the one that asks for the connection.
 */
export class Origins {
  private readonly nowUs: () => number;
  /** By the number of what is waited for. */
  private readonly lines = new Map<number, string>();
  private atUs = 0;
  private line: string | null = null;
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
    if (current.owner === null) return;
    const line = this.lineNow();
    if (line !== null) this.lines.set(id, line);
  }

  /** The line that has begun what goes on now; `null` where nobody knows. */
  lineNow(): string | null {
    const nowUs = this.nowUs();
    if (nowUs !== this.atUs) this.lines.clear();
    this.atUs = nowUs;
    return authorsLine() ?? this.line ?? this.lines.get(executionAsyncId()) ?? null;
  }

  /** Has what this does later in the same instant count as begun by the line that is at work now. */
  keep(work: () => void): () => void {
    const kept = this.lineNow();
    return () => {
      this.line = kept;
      try {
        work();
      } finally {
        this.line = null;
      }
    };
  }
}
