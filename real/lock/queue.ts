/** An acquisition that may pause between two attempts. */
interface Waiting {
  readonly resources: readonly string[];
  /** Ends the pause, if it is in one that may be cut short; returns whether it was. */
  hurry(): boolean;
}

/**
 * Acquisitions of one `Redlock` that found their resource held. When a lock of the same `Redlock` ends, the one that has waited
 * longest tries at once. This is a hint and decides nothing: another process may be quicker, and then the pause begins again. Of
 * those that wait without end the first tries at each pause, and the others now and then: they would split its votes.
 */
export class WaitingQueue {
  readonly #waiting = new Map<string, Set<Waiting>>();

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
      if (others?.delete(it) && others.size === 0) this.#waiting.delete(resource);
    }
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
      for (const it of this.#waiting.get(resource) ?? []) if (it.hurry()) break;
    }
  }
}
