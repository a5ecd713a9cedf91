import { describe, expect, it } from 'vitest';
import { inMacrotask } from './host/drain.js';
import { LIBRARIES, loadSubject } from './libraries/index.js';
import { replayGuests, replayGuestsAtOnce } from './run.js';
import { plan, scheduleOf } from './testing/schedules.js';

describe.each(LIBRARIES)('$package $version', (library) => {
  it('acquires, extends, releases and lets the next one in', async () => {
    const subject = await loadSubject(library);
    const schedule = scheduleOf([
      [plan(0, 300_000, { extensions: [{ afterUs: 100_000, ttlMs: 1_000 }] })],
      [plan(500_000, 100_000)],
    ]);
    const { run, violations, uncaught } = await replayGuests(subject, schedule, { trace: true });
    expect(uncaught).toEqual([]);
    expect(violations).toEqual([]);
    const kinds = run.trace.map(({ kind }) => kind);
    expect(kinds.filter((it) => it === 'claim')).toHaveLength(2);
    expect(kinds.filter((it) => it === 'released')).toHaveLength(2);
    const fast = await inMacrotask(() => replayGuestsAtOnce(subject, schedule));
    const again = await replayGuests(subject, schedule);
    expect([fast.run.hash, again.run.hash]).toEqual([again.run.hash, again.run.hash]);
  });
});
