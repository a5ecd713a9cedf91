/** So many times in a row a node grants what nobody has waited for, until that is a loop. */
export const LOOP_ANSWERS = 100;

/** A node that grants what it is asked for, again and again. */
interface Streak {
  count: number;
  sinceUs: number;
  /** As many pauses its process had made when it began. */
  readonly pauses: number;
}

/**
 * Whether a client goes round in a loop while it holds a lock: one node says yes to each command, and the next is sent
 * without any pause. Who is refused may ask again as quickly as it likes: that ends with its lock.
 */
export class Haste {
  private readonly streaks: (Streak | undefined)[] = [];

  /**
   * A node answers.
   *
   * @param pauses - How often the process has waited for a timer, or was asked for something, so far.
   * @returns When the streak began that is a loop with this answer, µs; else `null`.
   */
  answered(place: number, isGranted: boolean, pauses: number, nowUs: number): number | null {
    const before = this.streaks[place];
    const goesOn = isGranted && before !== undefined && before.pauses === pauses;
    const streak = goesOn ? before : { count: 0, sinceUs: nowUs, pauses };
    if (isGranted) streak.count++;
    this.streaks[place] = streak;
    return streak.count === LOOP_ANSWERS ? streak.sinceUs : null;
  }
}
