import type { Violation } from '../../properties/index.js';

/** The shortest timer of Node, µs, by a clock that is as slow as any in a search. */
const SHORTEST_TIMER_US = 1_100;

interface Pause {
  readonly client: string;
  readonly sinceUs: number;
  untilUs: number;
}

/** Pauses of processes that held a lock of which nothing but they themselves can say that it is over. */
export class HeldPauses {
  private readonly pauses: Pause[] = [];
  private readonly isShared: boolean;

  /** @param isShared - Several may hold the lock: one too many may be any of them. */
  constructor(isShared: boolean) {
    this.isShared = isShared;
  }

  /** A process is paused from one instant to another, µs of true time. */
  add(client: string, sinceUs: number, untilUs: number): void {
    this.pauses.push({ client, sinceUs, untilUs });
  }

  /** A process says that its lock is over, or releases it. A timer that it set as it woke is as good as one that was due. */
  over(client: string, atUs: number): void {
    for (const pause of this.pauses)
      if (pause.client === client && atUs > pause.untilUs && atUs <= pause.untilUs + SHORTEST_TIMER_US)
        pause.untilUs = atUs;
  }

  /**
   * Whether this is about a belief in a lock, of a client that was paused for all of the violation and could learn only
   * afterwards that the lock had ended: it did nothing under the lock meanwhile.
   */
  cover({ property, clients, atUs, untilUs }: Violation): boolean {
    if (untilUs === null || (property !== 'mutual-exclusion' && property !== 'quorum-backed')) return false;
    const isOf = (client: string): boolean => this.isShared || clients.includes(client);
    return this.pauses.some((it) => isOf(it.client) && it.sinceUs <= atUs && untilUs <= it.untilUs);
  }
}
