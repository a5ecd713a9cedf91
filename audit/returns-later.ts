import type { LockFactory } from '../libraries/lock-factory.js';
import { replayLibraries } from '../libraries/run.js';
import { kindOf, type ViolationKind } from '../libraries/search/kinds.js';
import type { Violation } from '../properties/index.js';
import type { Schedule } from '../scenarios/index.js';

/**
 * How much longer than a run a call is waited for, µs. ioredis gives up what it would send to a dead node after 21 tries to connect, which
 * are at most 2 s apart, and a lock may ask several times.
 */
const LONGER_US = 900_000_000;

/** A run in which a call had not returned. */
interface Waited {
  readonly kind: ViolationKind;
  readonly violation: Violation;
  readonly schedule: Schedule;
  readonly extending: boolean;
  readonly subject: LockFactory;
}

/**
 * Whether a call that had not returned at the end of a run does so where the run goes on: clients send nothing while they try to connect.
 * Such a call is slow, and does not hang.
 */
export async function returnsLater({ kind, violation, schedule, extending, subject }: Waited): Promise<boolean> {
  if (kind !== 'hang') return false;
  const longer = { ...schedule, untilUs: schedule.untilUs + LONGER_US };
  const { violations } = await replayLibraries(subject, longer, { extendsItself: extending });
  return !violations.some((it) => kindOf(it) === kind && it.clients.join() === violation.clients.join());
}
