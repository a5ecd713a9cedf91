import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type HistoryVerdict, verifyHistory } from '../../properties/history/verify.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { runTorture, type TortureResult } from './index.js';
import type { TortureOptions } from './types.js';

const FOR_MS = 8_000;

async function tortured(
  options: Pick<TortureOptions, 'weather'> & Partial<TortureOptions>,
): Promise<{ result: TortureResult; verdict: HistoryVerdict }> {
  const historyPath = join(mkdtempSync(join(tmpdir(), 'lockstep-torture-test-')), 'run.jsonl');
  const result = await runTorture({ historyPath, forMs: FOR_MS, ...options });
  return { result, verdict: verifyHistory(readFileSync(historyPath, 'utf8').split('\n')) };
}

/** The children that this process has now. */
function children(): string[] {
  const tasks = `/proc/${process.pid}/task`;
  return readdirSync(tasks).flatMap((task) =>
    readFileSync(`${tasks}/${task}/children`, 'utf8').split(' ').filter(Boolean),
  );
}

describe.skipIf(!canRunOnRedis('torture', 'processes'))('client processes on five real nodes', () => {
  test('never hold one lock at once within the assumptions, leave no key, and nobody is stuck', async () => {
    const { result, verdict } = await tortured({ weather: 'within' });
    expect(verdict.violations).toEqual([]);
    expect(result).toMatchObject({ stuck: [], keysLeft: 0, interrupted: false });
    expect(result.acquired).toBeGreaterThan(10);
    expect(Object.keys(result.faults).length).toBeGreaterThan(5);
  });

  test('are seen to hold one lock at once when a majority of the nodes forgets', async () => {
    const { result, verdict } = await tortured({ weather: 'outside' });
    expect(verdict.verdict).toBe('violated');
    expect(verdict.violations[0]?.property).toBe('mutual-exclusion');
    expect(result).toMatchObject({ stuck: [], keysLeft: 0 });
  });

  test.skipIf(process.platform !== 'linux')(
    'end at once when they are told to, without a process left behind',
    async () => {
      const before = children();
      const controller = new AbortController();
      const running = tortured({ weather: 'within', forMs: 60_000, signal: controller.signal });
      await sleep(2_500);
      controller.abort();
      expect((await running).result.interrupted).toBe(true);
      expect(children().filter((child) => !before.includes(child))).toEqual([]);
    },
  );
});
