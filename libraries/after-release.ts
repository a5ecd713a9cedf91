import type { SimLock, TrueTime } from '../sim/index.js';
import type { Hold } from './hold.js';

/** A released lock that says that it is held again. */
interface HeldAgain {
  readonly lock: SimLock;
  /** Since its release was called, µs. */
  readonly afterUs: number;
}

/**
 * Watches a lock for a TTL from the call of its release. An extension that was under way may not make it say that it is held again. A
 * lock that never says that it is over is not judged.
 */
export class AfterRelease {
  private hold: Hold | null = null;
  private sinceUs = 0;
  private saidOver = false;

  /** The release has been called. */
  begins(hold: Hold, now: TrueTime): void {
    this.hold = hold;
    this.sinceUs = now;
    this.saidOver = false;
  }

  /** Another acquisition has begun, and may share what the released one says. */
  ends(): void {
    this.hold = null;
  }

  /** @param says - Whether a lock says that it is held. */
  look(now: TrueTime, says: (hold: Hold) => boolean): HeldAgain | null {
    const { hold } = this;
    if (hold === null) return null;
    const afterUs = now - this.sinceUs;
    const isHeld = says(hold);
    this.saidOver ||= !isHeld;
    const isAgain = isHeld && this.saidOver;
    if (isAgain || afterUs > hold.lock.plan.ttlMs * 1000) this.ends();
    return isAgain ? { lock: hold.lock, afterUs } : null;
  }
}
