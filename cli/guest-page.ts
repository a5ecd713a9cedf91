import type { GuestFailure } from '../guests/campaign.js';
import type { RecordingInput } from '../report/index.js';

/** A run of a library as a page has it: recorded, since the library is not in the page. */
export function guestPage(
  library: string,
  id: string,
  { schedule, taken, hash }: Pick<GuestFailure, 'schedule' | 'taken' | 'hash'>,
  replay: string,
): RecordingInput {
  return {
    id,
    title: `${library}, unmodified, in the simulated world`,
    story: 'The library of the clients ran in the simulator; the nodes, messages and faults are those of the schedule.',
    replay,
    schedule,
    hash,
    taken,
    why: `the library ${library} is not in it.`,
  };
}
