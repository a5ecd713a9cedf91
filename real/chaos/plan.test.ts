import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type PlanOptions, planFaults } from './plan.js';

const OPTIONS: PlanOptions = { seed: '1', faultModel: 'within', clients: 6, ttlMs: 1000, nodes: 5, forMs: 120_000 };

describe('the plan of a chaos run', () => {
  test.each(['within', 'outside'] as const)(
    '%s the assumptions is the same for the same seed, and another for another',
    (faultModel) => {
      const plan = planFaults({ ...OPTIONS, faultModel });
      expect(planFaults({ ...OPTIONS, faultModel })).toEqual(plan);
      expect(planFaults({ ...OPTIONS, faultModel, seed: '2' })).not.toEqual(plan);
      expect(plan.length).toBeGreaterThan(100);
      expect(plan.map(({ atMs }) => atMs)).toEqual(plan.map(({ atMs }) => atMs).sort((a, b) => a - b));
    },
  );

  test.each(['within', 'outside'] as const)(
    '%s the assumptions begins a longer one with the same seed',
    (faultModel) => {
      const short = planFaults({ ...OPTIONS, faultModel, forMs: 10_000 });
      expect(planFaults({ ...OPTIONS, faultModel }).slice(0, short.length)).toEqual(short);
    },
  );

  test('has every kind of fault that the lock claims to withstand', () => {
    expect([...new Set(planFaults(OPTIONS).map(({ kind }) => kind))].sort()).toEqual([
      'client kill',
      'client stop',
      'clock rate',
      'clock step',
      'cut',
      'delay',
      'half-open',
      'kill',
      'lose both',
      'lose replies',
      'lose requests',
      'stop',
    ]);
  });

  test('keeps within what the lock assumes', () => {
    const plan = planFaults({ ...OPTIONS, forMs: 300_000 });
    const onNodes = plan.filter(
      ({ kind, forMs }) => !kind.startsWith('clock') && !kind.startsWith('client') && forMs > 0,
    );
    for (const { kind, atMs, forMs, nodes } of onNodes) {
      // Longer than any key lives.
      if (kind === 'kill') expect(forMs).toBeGreaterThan(1.02 * OPTIONS.ttlMs);
      const others = onNodes.filter((it) => it.atMs <= atMs && it.atMs + it.forMs > atMs);
      expect(others.length).toBeLessThanOrEqual(3);
      expect(others.filter((it) => it.nodes[0] === nodes[0])).toHaveLength(1);
    }
    for (let node = 0; node < OPTIONS.nodes; node++) {
      const changes = plan.filter(({ kind, nodes }) => kind.startsWith('clock') && nodes[0] === node);
      for (const [i, { atMs, rate = 1, stepMs = 0 }] of changes.entries()) {
        expect(atMs - (changes[i - 1]?.atMs ?? 0)).toBeGreaterThanOrEqual(1.2 * OPTIONS.ttlMs);
        // Together below the drift allowance: what the rate gains in a TTL, and the step.
        expect(Math.abs(rate - 1) * OPTIONS.ttlMs + Math.abs(stepMs)).toBeLessThan(0.01 * OPTIONS.ttlMs + 2);
      }
    }
  });

  test('is all there is of chance', () => {
    for (const name of readdirSync(import.meta.dirname).filter((it) => !it.endsWith('.test.ts'))) {
      expect(readFileSync(`${import.meta.dirname}/${name}`, 'utf8'), name).not.toMatch(
        /Math\.random|randomBytes|randomInt/,
      );
    }
  });
});
