import type { MakeLock } from '../../testing.js';
import { expectSafe, UnsafeLockError } from '../../testing.js';

/** What the default call says of a lock: the kind of its failure, or `passed`. */
export async function verdictOn(make: MakeLock, reportTo: string): Promise<string> {
  try {
    await expectSafe(make, { reportTo });
    return 'passed';
  } catch (error) {
    if (error instanceof UnsafeLockError) return error.kind;
    throw error;
  }
}
