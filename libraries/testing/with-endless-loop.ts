import { tmpdir } from 'node:os';
import { watchdog } from '../runtime/watchdog.js';
import { expectSafe } from '../testing.js';

/** Clients that never let go of their thread, by what is named on the command line. */
const LOOPS: Readonly<Record<string, () => unknown>> = {
  sync: () => {
    for (;;);
  },
  microtasks: async () => {
    for (;;) await null;
  },
};

// The default limit is 20 s.
watchdog.limitMs = 2_000;
const [, , which = ''] = process.argv;
const acquire = LOOPS[which] ?? (() => null);
expectSafe(() => ({ acquire, release: () => undefined }), { runs: 1, reportTo: tmpdir() }).catch(() => {});
