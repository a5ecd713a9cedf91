import { execFile } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { atExit } from './at-exit.js';
import { Clients } from './clients.js';
import { FakeClock, findFaketime } from './fake-clock.js';
import { provisionOf } from './provision-of.js';
import { ServerProcess } from './server-process.js';
import type { OtherServer, Persistence, Provision } from './types.js';

const PROGRAMS = ['redis-server', 'valkey-server'];

/** The path of a Redis-compatible server program, or `undefined` if the PATH has none. */
export function findServerProgram(path: string | undefined): string | undefined {
  for (const program of PROGRAMS) {
    for (const folder of (path ?? '').split(delimiter)) {
      const candidate = join(folder, program);
      if (folder !== '' && isExecutable(candidate)) return candidate;
    }
  }
  return undefined;
}

/** What own processes are made of. */
interface ProcessOptions {
  /** The path of the server program. */
  readonly program: string;
  readonly persistence: Persistence;
  /** Whether they get clocks that can be set, where that is possible. */
  readonly clocks: boolean;
  readonly source: 'processes' | 'package';
  readonly others: readonly OtherServer[];
}

/** Nodes as processes of our own, gone without a trace when they are stopped or this process ends. */
export async function provisionProcesses(nodes: number, options: ProcessOptions): Promise<Provision> {
  const { program, persistence, source, others } = options;
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-redis-'));
  const library = options.clocks ? findFaketime() : undefined;
  const servers = Array.from({ length: nodes }, (_, i) => {
    const own = join(folder, `n${i}`);
    const clock = library === undefined ? null : new FakeClock(library, join(folder, `n${i}.clock`));
    const command = others[i - (nodes - others.length)]?.command ?? [program];
    return new ServerProcess(`n${i}`, command, { folder: own, persistence, clock });
  });
  const clients = new Clients();
  const forget = atExit(() => {
    for (const server of servers) server.killNow();
    rmSync(folder, { recursive: true, force: true });
  });
  const stop = async () => {
    clients.close();
    await Promise.all(servers.map((server) => server.kill()));
    rmSync(folder, { recursive: true, force: true });
    forget();
  };
  try {
    await Promise.all(servers.map((server) => server.start()));
    const names = [
      `${nodes - others.length} × ${await versionOf(program)}`,
      ...others.map(({ name }) => `1 × ${name}`),
    ];
    const description = `${names.join(', ')} on 127.0.0.1`;
    return provisionOf({ source, description, clocks: library !== undefined }, servers, clients, stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function versionOf(program: string): Promise<string> {
  const { stdout } = await promisify(execFile)(program, ['--version']);
  const version = /v=([^ ]+)/.exec(stdout)?.[1] ?? '';
  return `${program.split('/').at(-1)} ${version}`.trim();
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
