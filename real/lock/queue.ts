/** An acquisition that may pause between two attempts. */
interface Waiting {
  readonly resources: readonly string[];
  /** Ends the pause, if it is in one that may be cut short; returns whether it was. */
  hurry(): boolean;
}

/**
 * Acquisitions of one `Redlock` that found their resource held, or others waiting for it. When a lock of the same `Redlock` ends, the one that has waited
 * longest tries at once. This is a hint and decides nothing: another process may be quicker, and then the pause begins again. Of
 * those that wait without end the first tries at each pause, and the others now and then: they would split its votes.
 */
export class WaitingQueue {
  readonly #waiting = new Map<string, Set<Waiting>>();
  /** Resources that became free while none of those that wait could be woken. */
  readonly #unclaimed = new Set<string>();

  /** Keeps the place of one that is in it already. */
  join(it: Waiting): void {
    for (const resource of it.resources) {
      const others = this.#waiting.get(resource);
      if (others === undefined) this.#waiting.set(resource, new Set([it]));
      else others.add(it);
    }
  }

  leave(it: Waiting): void {
    for (const resource of it.resources) {
      const others = this.#waiting.get(resource);
      if (!others?.delete(it) || others.size > 0) continue;
      this.#waiting.delete(resource);
      this.#unclaimed.delete(resource);
    }
  }

  /**
   * Whether a new acquisition would come before one that has waited for one of `resources`, and for nothing else. Who waits for
   * another resource besides holds nobody up.
   */
  wouldOvertake(resources: readonly string[]): boolean {
    if (this.#waiting.size === 0) return false;
    return resources.some((resource) => {
      const [first] = this.#waiting.get(resource) ?? [];
      return first?.resources.every((it) => resources.includes(it)) && !this.#unclaimed.delete(resource);
    });
  }

  /** Whether nobody has waited longer for any of its resources. */
  isFirst(it: Waiting): boolean {
    return it.resources.every((resource) => {
      const [first] = this.#waiting.get(resource) ?? [];
      return first === it;
    });
  }

  /** Wakes one for each resource that is free again. */
  wake(resources: readonly string[]): void {
    if (this.#waiting.size === 0) return;
    for (const resource of resources) {
      const others = this.#waiting.get(resource);
      if (others !== undefined && !wakeOne(others)) this.#unclaimed.add(resource);
    }
  }
}

function wakeOne(waiting: Iterable<Waiting>): boolean {
  for (const it of waiting) if (it.hurry()) return true;
  return false;
}
