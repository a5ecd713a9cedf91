import { describe, expect, it } from 'vitest';
import { RandomStreams } from '../sim/index.js';
import { LIBRARIES, loadSubject } from './adapters/index.js';
import { FAULT_CLASSES } from './search/fault-classes.js';
import { drawLibraryRun } from './search/search.js';
import { hashesOf } from './testing/hashes-of.js';

describe.each(LIBRARIES)('$id', (library) => {
  it('gives one hash for one seed in many runs, in a fresh process, and while garbage is collected', async () => {
    expect((await hashesOf(library.id)).size).toBe(1);
  });

  it('is drained at once as by immediates, on 24 seeds', async () => {
    const subject = await loadSubject(library);
    for (let seed = 0; seed < 24; seed++) {
      const faults = FAULT_CLASSES[seed % FAULT_CLASSES.length];
      if (faults === undefined) continue;
      const [slow, fast] = [
        await drawLibraryRun(subject, faults, new RandomStreams(String(seed)), 0, 'immediates'),
        await drawLibraryRun(subject, faults, new RandomStreams(String(seed)), 0, 'at-once'),
      ];
      expect([seed, fast.run.hash, fast.run.events]).toEqual([seed, slow.run.hash, slow.run.events]);
    }
  });
});
