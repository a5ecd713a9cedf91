import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { SOCKET_CLIENTS } from '../bench/socket-locks.js';
import { RandomStreams } from '../sim/index.js';
import { LIBRARIES, loadSubject } from './libraries/index.js';
import { FAULT_CLASSES } from './search/fault-classes.js';
import { drawGuestRun } from './search/search.js';
import { hashOf } from './testing/print-hash.js';

const run = promisify(execFile);
const script = new URL('./testing/print-hash.ts', import.meta.url).pathname;

it.each([...LIBRARIES.map(({ id }) => id), ...Object.keys(SOCKET_CLIENTS)])(
  '%s gives one hash for one seed in 1000 runs, and in a fresh process',
  async (id) => {
    const hashes = new Set<string>();
    for (let i = 0; i < 1000; i++) hashes.add(await hashOf(id, 'seed', 3));
    expect(hashes.size).toBe(1);
    const { stdout } = await run(process.execPath, ['--import', 'tsx', script, id, 'seed', '3']);
    expect(stdout.trim()).toBe([...hashes][0]);
  },
);

describe.each(LIBRARIES)('$id', (library) => {
  it('is drained at once as by immediates, on 100 seeds', async () => {
    const subject = await loadSubject(library);
    for (let seed = 0; seed < 100; seed++) {
      const faults = FAULT_CLASSES[seed % FAULT_CLASSES.length];
      if (faults === undefined) continue;
      const [slow, fast] = [
        await drawGuestRun(subject, faults, new RandomStreams(String(seed)), 0, 'immediates'),
        await drawGuestRun(subject, faults, new RandomStreams(String(seed)), 0, 'at-once'),
      ];
      expect([seed, fast.run.hash, fast.run.events]).toEqual([seed, slow.run.hash, slow.run.events]);
    }
  });
});
