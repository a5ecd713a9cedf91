/**
 * How many rounds of commands may begin with nothing heard from a node in between. Each costs this process tens of
 * microseconds for every node, so these take a few milliseconds: little beside a node time-out.
 */
const MOST_AT_ONCE = 128;

/** Begins a round; `late` if it had to wait. */
type Begin = (late: boolean) => void;

/**
 * Spreads a burst of locks over turns of the event loop. Without it, ten thousand acquisitions of one turn are written
 * before the first reply is read: by then, half a second later, every node seems to have missed its time-out.
 */
export class Pacer {
  #begun = 0;
  #draining = false;
  /** In the order of their coming; those before `#next` have begun. */
  #waiting: Begin[] = [];
  #next = 0;

  /** Runs `begin` now, or in a later turn, behind all that wait already. */
  run(begin: Begin): void {
    if (!this.#draining && this.#begun < MOST_AT_ONCE) {
      this.#begun++;
      begin(false);
      return;
    }
    this.#waiting.push(begin);
    if (this.#draining) return;
    this.#draining = true;
    setImmediate(drain, this);
  }

  /** A node has answered: replies are being read. */
  onReply(): void {
    this.#begun = 0;
  }

  /** Resolves when all that wait now have begun. */
  whenDrained(): Promise<void> {
    return this.#draining ? new Promise((resolve) => this.run(() => resolve())) : Promise.resolve();
  }

  drain(): void {
    const last = Math.min(this.#waiting.length, this.#next + MOST_AT_ONCE);
    while (this.#next < last) this.#waiting[this.#next++]?.(true);
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
