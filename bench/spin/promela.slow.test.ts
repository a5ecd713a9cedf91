import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPE, explore } from '../../explore/index.js';
import { canRun } from '../../real/testing/can-run.js';
import { hasSpin, runSpin, type SpinBounds } from './promela.js';

const PERFECT: SpinBounds = { ttl: 3, allowance: 0, crashes: 0, delay: 0, drift: 0 };

const lacking = hasSpin() ? undefined : 'no Spin, or no gcc for what it writes, is here (apt-get install spin gcc)';

describe.skipIf(!canRun('the Promela model', 'spin', lacking))('the Promela model of a bounded world', () => {
  it.each<[string, SpinBounds, 'safe' | 'violated']>([
    ['a perfect world', PERFECT, 'safe'],
    ['a crash with immediate restart', { ...PERFECT, crashes: 1 }, 'violated'],
    ['a clock that is off by a tick', { ...PERFECT, drift: 1 }, 'violated'],
    ['a shorter TTL, with an allowance for drift', { ...PERFECT, ttl: 2, drift: 1, allowance: 1 }, 'safe'],
  ])('%s: Spin says the same, state for state', (_, scope, verdict) => {
    const spin = runSpin(scope);
    expect(spin.violated ? 'violated' : 'safe').toBe(verdict);
    const bounds = {
      ...DEFAULT_SCOPE,
      ttl: scope.ttl,
      allowance: scope.allowance,
      crashes: scope.crashes,
      restartDelay: scope.delay,
      drift: scope.drift,
    };
    const ours = explore({ bounds, symmetry: false });
    expect(ours.verdict).toBe(verdict);
    // A violated space is left where the violation is met, and the two look in different orders.
    if (verdict === 'safe') expect(spin.states).toBe(ours.states);
  });
});
