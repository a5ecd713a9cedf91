import { afterEach, expect, test, vi } from 'vitest';
import { lockstep } from './testing/in-process.js';

afterEach(() => vi.unstubAllEnvs());

test('a Redis that cannot be reached is one sentence, and decides nothing', async () => {
  vi.stubEnv('LOCKSTEP_REDIS', 'redis://127.0.0.1:1');
  const { code, stdout, stderr } = await lockstep(['bench', '--nodes', '1']);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(/^lockstep: LOCKSTEP_REDIS: no Redis answers at redis:\/\/127\.0\.0\.1:1 .*\n$/);
});

test('a node named twice is one sentence', async () => {
  vi.stubEnv('LOCKSTEP_REDIS', 'redis://127.0.0.1:1,redis://127.0.0.1:1');
  const { code, stderr } = await lockstep(['bench', '--nodes', '2']);
  expect(code).toBe(2);
  expect(stderr).toMatch(/twice/);
});
