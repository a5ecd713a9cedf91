import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { canRunOnRedis } from '../testing/can-run.js';

const PROGRAM = `
  import { provision } from './real/provisioner/index.ts';
  const nodes = await provision({ nodes: 1, sources: ['processes'] });
  const client = nodes.nodes[0].client();
  console.log(JSON.stringify([await client.config('GET', 'dir'), /process_id:(\\d+)/.exec(await client.info('server'))[1]]));
  setInterval(() => {}, 1000);`;

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.skipIf(!canRunOnRedis('servers at the end of a process', 'processes'))('own server processes', () => {
  test.each(['SIGINT', 'SIGTERM'] as const)('end with the process when it gets %s', async (signal) => {
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', PROGRAM], {
      cwd: new URL('../..', import.meta.url),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const line = await new Promise<string>((resolve) => child.stdout.once('data', (data) => resolve(String(data))));
    const [[, folder], pid]: [[string, string], string] = JSON.parse(line);
    expect([isRunning(Number(pid)), existsSync(folder)]).toEqual([true, true]);
    const ended = new Promise((resolve) => child.once('exit', (_code, by) => resolve(by)));
    child.kill(signal);
    expect(await ended).toBe(signal);
    expect(existsSync(folder)).toBe(false);
  });
});
