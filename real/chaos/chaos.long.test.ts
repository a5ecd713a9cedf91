import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type HistoryVerdict, verifyHistory } from '../../properties/history/verify.js';
import { serverCommand } from '../../wire/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type ChaosResult, runChaos } from './index.js';
import { planFaults } from './plan.js';
import type { ChaosOptions, ChaosPlan } from './types.js';

const FOR_MS = 8_000;

async function ran(
  options: Pick<ChaosOptions, 'faultModel'> & Partial<ChaosOptions>,
): Promise<{ result: ChaosResult; verdict: HistoryVerdict; written: ChaosPlan }> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-chaos-test-'));
  const [historyPath, planPath] = [join(folder, 'run.jsonl'), join(folder, 'run.plan.json')];
  const result = await runChaos({ historyPath, planPath, seed: 'test', forMs: FOR_MS, ...options });
  const verdict = verifyHistory(readFileSync(historyPath, 'utf8').split('\n'));
  return { result, verdict, written: JSON.parse(readFileSync(planPath, 'utf8')) };
}

/** The children that this process has now. */
function children(): string[] {
  const tasks = `/proc/${process.pid}/task`;
  return readdirSync(tasks).flatMap((task) =>
    readFileSync(`${tasks}/${task}/children`, 'utf8').split(' ').filter(Boolean),
  );
}

describe.skipIf(!canRunOnRedis('chaos runs', 'processes'))('client processes on five real nodes', () => {
  test('never hold one lock at once within the assumptions, leave no key, and nobody is stuck', async () => {
    const { result, verdict, written } = await ran({ faultModel: 'within' });
    expect(verdict.violations).toEqual([]);
    // The plan is the seed's; beside it is what the machine made of it, each fault once and none before its time.
    expect(written.plan).toEqual(planFaults(written));
    expect(written.performed.length).toBeGreaterThan(5);
    expect(new Set(written.performed.map(({ fault }) => fault)).size).toBe(written.performed.length);
    for (const { fault, begunMs, endedMs } of written.performed) {
      // A timer of Node may fire up to a millisecond early, and both instants are rounded.
      expect(begunMs + 2).toBeGreaterThanOrEqual(written.plan[fault]?.atMs ?? Number.POSITIVE_INFINITY);
      expect(endedMs).toBeGreaterThanOrEqual(begunMs);
    }
    expect(result).toMatchObject({ stuck: [], keysLeft: 0, interrupted: false });
    expect(result.acquired).toBeGreaterThan(10);
    expect(Object.keys(result.faults).length).toBeGreaterThan(5);
  });

  test('on every kind of client, and on servers of several dialects, never hold one lock at once', async () => {
    const libraries = ['ioredis@5', 'ioredis@6', 'iovalkey', 'node-redis@5', 'node-redis@6', 'upstash'] as const;
    const others = (['redis 8.4.0', 'valkey 9.0.0'] as const).map((name) => {
      const [flavour, version] = name.split(' ') as ['redis' | 'valkey', string];
      return { name, command: serverCommand({ flavour, version }) };
    });
    const { result, verdict, written } = await ran({ faultModel: 'within', forMs: 2 * FOR_MS, libraries, others });
    expect(verdict.violations).toEqual([]);
    expect(result).toMatchObject({ stuck: [], keysLeft: 0 });
    expect(result.nodes).toMatch(/^3 × .*, 1 × redis 8\.4\.0, 1 × valkey 9\.0\.0 on 127\.0\.0\.1$/);
    expect(written).toMatchObject({ libraries, others: ['redis 8.4.0', 'valkey 9.0.0'] });
    // On a slow machine REST may be too late for all of them.
    const [first, ...rest] = libraries.filter((library) => (result.acquiredBy[library] ?? 0) > 0);
    expect([first, rest.length >= 3]).toEqual([expect.any(String), true]);
  });

  test('are seen to hold one lock at once when a majority of the nodes forgets', async () => {
    const verdicts: HistoryVerdict[] = [];
    // Somebody has to hold the lock as they forget, which a slow machine may miss in one run.
    for (const seed of ['test', 'again', 'once more']) {
      const { result, verdict } = await ran({ faultModel: 'outside', seed });
      expect(result).toMatchObject({ stuck: [], keysLeft: 0 });
      verdicts.push(verdict);
      if (verdict.verdict === 'violated') break;
    }
    expect(verdicts.at(-1)?.violations[0]?.property).toBe('mutual-exclusion');
  });

  test.skipIf(process.platform !== 'linux')(
    'end at once when they are told to, without a process left behind',
    async () => {
      const before = children();
      const controller = new AbortController();
      const running = ran({ faultModel: 'within', forMs: 60_000, signal: controller.signal });
      await sleep(2_500);
      controller.abort();
      expect((await running).result.interrupted).toBe(true);
      expect(children().filter((child) => !before.includes(child))).toEqual([]);
    },
  );

  test.skipIf(process.platform !== 'linux')(
    'whose server does not come back end with its reason, and leave what was seen and no process',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'lockstep-chaos-test-'));
      const [begun, historyPath, planPath] = ['begun', 'run.jsonl', 'run.plan.json'].map((name) => join(folder, name));
      const script = `[ -e ${begun} ] && exit 7; touch ${begun}; exec redis-server "$@"`;
      const others = [{ name: 'a server that starts once', command: ['sh', '-c', script, 'sh'] }];
      // The clients are at work by then, on a slow machine too.
      const plan = { faultModel: 'within', clients: 6, ttlMs: 1000, nodes: 5, forMs: 120_000 } as const;
      const seed = Array.from({ length: 1_000 }, (_, i) => `${i}`).find((it) => {
        const first = planFaults({ ...plan, seed: it }).find(({ kind, nodes }) => kind === 'kill' && nodes[0] === 4);
        return first !== undefined && first.atMs > 10_000 && first.atMs < 20_000;
      });
      const options = { ...plan, seed: String(seed), others };
      const before = children();
      const run = runChaos({ ...options, historyPath: String(historyPath), planPath: String(planPath) });
      await expect(run).rejects.toThrow('ended with code 7');
      expect(readFileSync(String(historyPath), 'utf8')).toContain('"type":"acquire"');
      expect(children().filter((child) => !before.includes(child))).toEqual([]);
    },
  );
});
