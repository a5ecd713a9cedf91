/**
 * How many rounds of commands may begin with nothing heard from a node in between. Each costs this process tens of
 * microseconds for every node, so these take a few milliseconds: little beside a node time-out.
 */
const MOST_AT_ONCE = 128;

/**
 * Spreads a burst of locks over turns of the event loop. Without it, ten thousand acquisitions of one turn are written
 * before the first reply is read: by then, half a second later, every node seems to have missed its time-out.
 */
export class Pacer {
  #begun = 0;
  #draining = false;
  /** In the order of their coming; those before `#next` have begun. */
  #waiting: (() => void)[] = [];
  #next = 0;

  /** Whether a round may begin now, which then counts as begun; if not, it has to {@link Pacer.wait}. */
  begins(): boolean {
    if (this.#draining || this.#begun >= MOST_AT_ONCE) return false;
    this.#begun++;
    return true;
  }

  /** Calls `begin` in a later turn, behind all that wait already. */
  wait(begin: () => void): void {
    this.#waiting.push(begin);
    if (this.#draining) return;
    this.#draining = true;
    setImmediate(drain, this);
  }

  /** Calls `begin` now, or when its turn has come. */
  run(begin: () => void): void {
    if (this.begins()) begin();
    else this.wait(begin);
  }

  /** A node has answered: replies are being read. */
  onReply(): void {
    this.#begun = 0;
  }

  /** Resolves when all that wait now have begun. */
  whenDrained(): Promise<void> {
    return this.#draining ? new Promise((resolve) => this.wait(resolve)) : Promise.resolve();
  }

  drain(): void {
    const last = Math.min(this.#waiting.length, this.#next + MOST_AT_ONCE);
    while (this.#next < last) this.#waiting[this.#next++]?.();
    if (this.#next < this.#waiting.length) {
      setImmediate(drain, this);
      return;
    }
    this.#waiting = [];
    this.#next = 0;
    this.#draining = false;
  }
}

function drain(pacer: Pacer): void {
  pacer.drain();
}
