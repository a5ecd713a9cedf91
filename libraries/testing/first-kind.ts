import '../runtime/installed.js';
import { searched } from '../expect-safe.js';
import type { ExpectSafeOptions } from '../options.js';
import { kindOf, type ViolationKind } from '../search/kinds.js';
import type { MakeLock } from '../testing.js';

/** A failure as it was found. */
class Found extends Error {
  readonly kind: ViolationKind;

  constructor(kind: ViolationKind) {
    super(kind);
    this.kind = kind;
  }
}

/**
 * What `expectSafe` comes to: the kind of the first failure, or `passed`. The failure is not made small, which for a lock
 * that nobody releases takes far longer than to find it.
 */
export async function firstKind(make: MakeLock, options: ExpectSafeOptions = {}): Promise<ViolationKind | 'passed'> {
  try {
    await searched(make, options, async (_, __, violation) => new Found(kindOf(violation)));
    return 'passed';
  } catch (error) {
    if (error instanceof Found) return error.kind;
    throw error;
  }
}
