import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { watchdog } from './watchdog.js';

const testing = (name: string): string => fileURLToPath(new URL(`../testing/${name}`, import.meta.url));
const script = testing('with-endless-loop.ts');

it.each(['sync', 'microtasks'])(
  'ends the process of a test whose client loops for ever, with a sentence: %s',
  (which) => {
    const { stderr, signal } = spawnSync(process.execPath, ['--import', 'tsx', script, which], { encoding: 'utf8' });
    expect(stderr).toContain('the client has used its thread for 2 s: it goes round in a loop that waits for nothing.');
    expect(signal).toBe('SIGKILL');
  },
);

it('allows what nobody has set another limit for twenty seconds', () => {
  expect(watchdog.limitMs).toBe(20_000);
});

it('lets live what does not run, as on a machine that sleeps', async () => {
  const child = spawn(process.execPath, ['--import', 'tsx', testing('with-watchdog.ts')], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  await sleep(3_000);
  child.kill('SIGCONT');
  expect(await once(child, 'exit')).toEqual([0, null]);
});
