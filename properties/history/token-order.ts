import { compareFencingTokens } from '../../core/index.js';
import type { Issue } from './lock-history.js';

/** Two locks on one resource whose fencing tokens are certainly in the wrong order. */
interface WrongOrder {
  readonly before: Issue;
  readonly after: Issue;
}

/**
 * Fencing tokens of one resource that are no greater than one of a lock that was certainly there before: it had been
 * acquired when this one was asked for, or was over when this one was acquired. Besides, no two locks have the same.
 */
export function wrongOrders(issues: readonly Issue[]): WrongOrder[] {
  if (issues.length < 2) return [];
  const byTime = [...issues].sort((a, b) => a.acquiredUs.earliest - b.acquiredUs.earliest);
  const acquired = greatestBy(byTime, ({ acquiredUs }) => acquiredUs.latest);
  const over = greatestBy(byTime, ({ overUs }) => overUs);
  const seen = new Map<string, Issue>();
  return byTime.flatMap((after) => {
    const { counter, attempt } = after.token;
    const id = `${counter} ${attempt}`;
    const candidates = [seen.get(id), acquired(after.calledUs), over(after.acquiredUs.earliest)];
    seen.set(id, after);
    const before = candidates.find((it) => it !== undefined && it !== after && isNoGreater(after, it));
    return before === undefined ? [] : [{ before, after }];
  });
}

/** Finds the greatest token of those whose time is not after an instant. */
function greatestBy(issues: readonly Issue[], timeOf: (issue: Issue) => number): (atUs: number) => Issue | undefined {
  const sorted = [...issues].sort((a, b) => timeOf(a) - timeOf(b));
  let greatest = sorted[0];
  const upTo = sorted.map((it) => {
    if (greatest === undefined || !isNoGreater(it, greatest)) greatest = it;
    return greatest;
  });
  return (atUs) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const it = sorted[middle];
      if (it !== undefined && timeOf(it) <= atUs) low = middle + 1;
      else high = middle;
    }
    return upTo[low - 1];
  };
}

function isNoGreater(a: Issue, b: Issue): boolean {
  return compareFencingTokens(a.token, b.token) <= 0;
}
