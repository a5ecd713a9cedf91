import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const script = fileURLToPath(new URL('./testing/with-endless-loop.ts', import.meta.url));

it.each(['sync', 'microtasks'])(
  'ends the process of a test whose client loops for ever, with a sentence: %s',
  (which) => {
    const { stderr, signal } = spawnSync(process.execPath, ['--import', 'tsx', script, which], { encoding: 'utf8' });
    expect(stderr).toContain(
      'the client has kept its thread for 20 s: it goes round in a loop that waits for nothing.',
    );
    expect(signal).toBe('SIGKILL');
  },
);
