import { type RecordingInput, type RunSnapshot, snapshotOf } from '../report/index.js';
import type { Schedule } from '../scenarios/index.js';
import type { LockFactory } from './lock-factory.js';
import { type LibraryRunOptions, replayLibraries } from './run.js';
import { judgementOf } from './search/shrink-libraries.js';

/** A run of a library, taken down for a page: the library is not there to run it again. */
export interface Recording {
  readonly schedule: Schedule;
  readonly taken: RunSnapshot;
  readonly hash: string;
}

/** Runs a schedule with a library, and takes the run down. */
export async function record(
  subject: LockFactory,
  schedule: Schedule,
  options: LibraryRunOptions = {},
): Promise<Recording> {
  const played = await replayLibraries(subject, schedule, { ...options, trace: true });
  return { schedule, taken: snapshotOf(schedule, judgementOf(schedule, played), 'foreign'), hash: played.run.hash };
}

/**
 * What the page of a recording shows.
 *
 * @param replay - The command that shows the run again.
 */
export function libraryPage(
  library: string,
  id: string,
  { schedule, taken, hash }: Recording,
  replay: string,
): RecordingInput {
  return {
    id,
    title: `${library}, unmodified, in the simulated world`,
    story: 'The code of the clients ran in the simulator; the nodes, messages and faults are those of the schedule.',
    replay,
    schedule,
    hash,
    taken,
    why: `the code of ${library} is not in it.`,
  };
}
