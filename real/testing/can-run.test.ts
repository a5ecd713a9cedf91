import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { canRun, canRunOnRedis } from './can-run.js';

const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});

beforeEach(() => {
  warn.mockClear();
  vi.stubEnv('PATH', '').stubEnv('LOCKSTEP_REDIS', '').stubEnv('LOCKSTEP_REQUIRE', '');
});

afterEach(() => {
  vi.unstubAllEnvs();
});

afterAll(() => warn.mockRestore());

test('what is here runs without a word', () => {
  vi.stubEnv('LOCKSTEP_REQUIRE', 'spin');
  expect(canRun('this suite', 'spin', undefined)).toBe(true);
  expect(warn).not.toHaveBeenCalled();
});

test('a skip is loud, and a failure where LOCKSTEP_REQUIRE names what is lacking', () => {
  expect(canRun('this suite', 'spin', 'no Spin is here')).toBe(false);
  expect(warn.mock.lastCall).toEqual(['SKIPPED this suite: no Spin is here']);
  vi.stubEnv('LOCKSTEP_REQUIRE', 'redis, browser');
  expect(canRun('this suite', 'spin', 'no Spin is here')).toBe(false);
  vi.stubEnv('LOCKSTEP_REQUIRE', 'redis, spin');
  expect(() => canRun('this suite', 'spin', 'no Spin is here')).toThrow(
    'LOCKSTEP_REQUIRE names spin, but this suite: no Spin is here',
  );
});

test('a suite on real nodes names the ways to get some; given ones do for those that strike none', () => {
  expect(canRunOnRedis('this suite')).toBe(false);
  expect(warn.mock.lastCall?.[0]).toMatch(
    /^SKIPPED this suite: no real Redis[\s\S]*LOCKSTEP_REDIS[\s\S]*Redis[\s\S]*Valkey/,
  );
  vi.stubEnv('LOCKSTEP_REDIS', 'redis://localhost');
  expect(canRunOnRedis('this suite')).toBe(true);
  expect(canRunOnRedis('this suite', 'processes')).toBe(false);
  expect(warn.mock.lastCall?.[0]).not.toContain('LOCKSTEP_REDIS');
  vi.stubEnv('LOCKSTEP_REQUIRE', 'redis');
  expect(() => canRunOnRedis('this suite', 'processes')).toThrow(/^LOCKSTEP_REQUIRE names redis, but this suite/);
});
