import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { verifyHistory } from '../../properties/history/verify.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!canRunOnRedis('recording by processes', 'processes'))('processes that share a history', () => {
  let nodes: Provision;
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
  });
  afterAll(() => nodes?.stop());

  /** A process that takes and releases one lock until it is killed or has done so `turns` times. */
  function worker(client: string, path: string, turns: number): ChildProcess {
    const program = `
      import { Redis } from 'ioredis';
      import { Redlock } from './real/index.ts';
      import { openHistory, Recorder } from './real/history/recorder.ts';
      const clients = ${JSON.stringify(nodes.urls)}.map((url) => new Redis(url, { disconnectTimeout: 1 }));
      const redlock = new Redlock(clients, { retryCount: -1, retryDelay: 5, retryJitter: 4 });
      const { append } = openHistory(${JSON.stringify(path)});
      const recorder = new Recorder(redlock, { client: ${JSON.stringify(client)}, append });
      for (let turn = 0; turn < ${turns}; turn++) {
        const lock = await recorder.acquire('shared', 600);
        lock.wrote('shared');
        await new Promise((resolve) => setTimeout(resolve, 2));
        await lock.release();
      }
      clients.forEach((it) => it.disconnect());`;
    const args = ['--import', 'tsx', '--input-type=module', '--eval', program];
    return spawn(process.execPath, args, {
      cwd: new URL('../..', import.meta.url),
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  }

  /** Waits until a client has recorded something. */
  async function started(path: string, client: string): Promise<void> {
    const lines = (): string => {
      try {
        return readFileSync(path, 'utf8');
      } catch {
        return '';
      }
    };
    while (!lines().includes(`"lock":"${client}/3"`)) await sleep(10);
  }

  test('pass, also when one is killed while it works', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'lockstep-history-')), 'run.jsonl');
    const victim = worker('c1', path, 1_000_000);
    try {
      await started(path, 'c1');
      const survivor = worker('c2', path, 30);
      const ended = once(survivor, 'close');
      await started(path, 'c2');
      victim.kill('SIGKILL');
      expect((await ended)[0]).toBe(0);
    } finally {
      victim.kill('SIGKILL');
    }
    const { verdict, operations, violations, doubts } = verifyHistory(readFileSync(path, 'utf8').split('\n'));
    expect({ verdict, violations, doubts }).toEqual({ verdict: 'passed', violations: [], doubts: [] });
    expect(operations).toBeGreaterThan(100);
  });
});
