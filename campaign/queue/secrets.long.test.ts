import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { provision } from '../../real/provisioner/index.js';
import { canRunOnRedis } from '../../real/testing/can-run.js';
import { started } from '../testing/command.js';

const PASSWORD = 'hunter2secret';

it.skipIf(!canRunOnRedis('campaigns over a queue', 'processes'))(
  'a campaign over a queue with a password neither tells it nor keeps it',
  async () => {
    await using provided = await provision({ nodes: 1, sources: ['processes'] });
    const [node] = provided.nodes;
    await node?.client().config('SET', 'requirepass', PASSWORD);
    const { host } = new URL(node?.url ?? '');
    const url = `redis://:${PASSWORD}@${host}`;
    const search = ['--faults', 'crash=1', '--restart-delay', '0', '--runs', '200', '--range-runs', '100'];
    const texts: string[] = [];
    const lockstep = async (env: Record<string, string>, ...argv: string[]): Promise<void> => {
      const { end, cwd } = started(['campaign', ...argv], env);
      const { stdout, stderr } = await end;
      texts.push(stdout, stderr);
      const files = readdirSync(cwd, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
      texts.push(...files.map((it) => readFileSync(join(it.parentPath, it.name), 'utf8')));
    };
    await lockstep({}, ...search, '--queue', url);
    await lockstep({ LOCKSTEP_QUEUE: url }, 'work', '--workers', '1');
    await lockstep({ LOCKSTEP_QUEUE: url }, 'status');
    await lockstep({}, 'status', '--json', '--queue', url);
    await lockstep({ LOCKSTEP_QUEUE: url }, 'failures');
    expect(texts.join('\n')).toContain('200 schedules');
    const client = new Redis(url, { disconnectTimeout: 1 });
    for (const key of await client.keys('*')) {
      texts.push(key, (await client.dumpBuffer(key))?.toString('latin1') ?? '');
    }
    client.disconnect();
    expect(texts.length).toBeGreaterThan(20);
    expect(texts.join('\n')).not.toContain(PASSWORD);
  },
);
