/** A member and its score. */
export interface Scored {
  readonly member: string;
  readonly score: number;
}

/** Members by score, and by their bytes where scores are equal. */
export class SortedSet {
  private readonly scores = new Map<string, number>();
  private order: Scored[] = [];
  /** Has outgrown the small form, and stays so. */
  large = false;

  get size(): number {
    return this.order.length;
  }

  score(member: string): number | undefined {
    return this.scores.get(member);
  }

  /** Sets the score of a member, new or not. */
  set(member: string, score: number): void {
    this.delete(member);
    // The small form keeps whole numbers as integers, which have no negative zero.
    const kept = this.large ? score : score + 0;
    this.scores.set(member, kept);
    this.order.splice(this.place(member, kept), 0, { member, score: kept });
  }

  delete(member: string): boolean {
    const score = this.scores.get(member);
    if (score === undefined) return false;
    this.scores.delete(member);
    this.order.splice(this.place(member, score), 1);
    return true;
  }

  /** The place of a member, from 0 for the lowest, or -1. */
  rank(member: string): number {
    const score = this.scores.get(member);
    return score === undefined ? -1 : this.place(member, score);
  }

  /** From one place to another, the latter excluded. */
  slice(from: number, to: number): readonly Scored[] {
    return this.order.slice(from, to);
  }

  /** All of it, by rank. Not to be kept beyond a change. */
  all(): readonly Scored[] {
    return this.order;
  }

  removeRange(from: number, to: number): number {
    const removed = this.order.splice(from, to - from);
    for (const { member } of removed) this.scores.delete(member);
    return removed.length;
  }

  /** Grows into the large form where it has to: counted are members, and the bytes of one. */
  grow(maxEntries: number, maxBytes: number): void {
    if (!this.large) this.large = this.size > maxEntries || this.order.some(({ member }) => member.length > maxBytes);
  }

  /** Takes the form that its size asks for, whichever it had. */
  settle(maxEntries: number, maxBytes: number): void {
    this.large = false;
    this.grow(maxEntries, maxBytes);
    if (!this.large) for (const { member, score } of [...this.order]) if (score === 0) this.set(member, 0);
  }

  copy(): SortedSet {
    const copy = new SortedSet();
    for (const [member, score] of this.scores) copy.scores.set(member, score);
    copy.order = [...this.order];
    copy.large = this.large;
    return copy;
  }

  /** The first place that is not before this member with this score. */
  private place(member: string, score: number): number {
    let [low, high] = [0, this.order.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const it = this.order[middle];
      if (it !== undefined && (it.score < score || (it.score === score && it.member < member))) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
