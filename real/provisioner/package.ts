import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ProvisionError } from './types.js';

const run = promisify(execFile);
const PACKAGES = ['redis-server', 'redis-tools'];
const TOOLS = ['apt-get', 'apt-cache', 'dpkg-deb', 'dpkg-query'];
const TRIES = 3;
const DOWNLOAD_MS = 60_000;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The server program of the distribution's Redis packages, on Debian and Ubuntu: downloaded once, unpacked into the cache
 * (`$XDG_CACHE_HOME/lockstep`, by default in `~/.cache`) with the libraries that are missing here. Needs no root, and
 * installs nothing.
 *
 * @returns The path of the program, or the error to throw if there are no other nodes.
 */
export async function unpackedServer(env: Environment = process.env): Promise<string | ProvisionError> {
  const folder = join(env.XDG_CACHE_HOME || join(env.HOME || homedir(), '.cache'), 'lockstep', 'redis-package');
  const program = join(folder, 'redis-server');
  if (existsSync(program)) return program;
  const missing = TOOLS.find((tool) => !isOnPath(tool, env.PATH));
  if (missing !== undefined) return failed(`there is no ${missing}, so this is no Debian or Ubuntu`);
  try {
    mkdirSync(join(folder, '..'), { recursive: true });
    const work = mkdtempSync(`${folder}-`);
    try {
      await unpack(work, env);
      // Whole or not at all; somebody else may have been first.
      if (!existsSync(program)) renameSync(work, folder);
    } finally {
      rmSync(work, { recursive: true, force: true });
    }
    return program;
  } catch (error) {
    return failed(reasonOf(error), error);
  }
}

async function unpack(work: string, env: Environment): Promise<void> {
  const options = { cwd: work, env: { ...env, LC_ALL: 'C' }, timeout: DOWNLOAD_MS };
  const names = [...PACKAGES, ...(await missingLibraries(options))];
  for (let tries = 1; ; tries++) {
    try {
      await run('apt-get', ['download', '-qq', ...names], options);
      break;
    } catch (error) {
      if (tries === TRIES) throw error;
      await sleep(1000 * tries);
    }
  }
  for (const file of readdirSync(work).filter((name) => name.endsWith('.deb'))) {
    await run('dpkg-deb', ['-x', file, 'root'], options);
    rmSync(join(work, file));
  }
  // The libraries lie beside the program. `exec` keeps its process the one that was started.
  const script = `#!/bin/sh
here=$(dirname "$0")/root
for folder in "$here"/usr/lib/*-linux-gnu* "$here"/lib/*-linux-gnu* "$here"/usr/lib; do libraries=$libraries\${libraries:+:}$folder; done
LD_LIBRARY_PATH=$libraries exec "$here/usr/bin/redis-server" "$@"
`;
  writeFileSync(join(work, 'redis-server'), script);
  chmodSync(join(work, 'redis-server'), 0o755);
  await run(join(work, 'redis-server'), ['--version'], options);
}

interface RunOptions {
  readonly cwd: string;
  readonly env: Record<string, string | undefined>;
  readonly timeout: number;
}

/** The libraries that the packages need and that are not installed. */
async function missingLibraries(options: RunOptions): Promise<string[]> {
  const { stdout } = await run('apt-cache', ['depends', '--no-recommends', '--no-suggests', ...PACKAGES], options);
  const needed = [...stdout.matchAll(/Depends: ((?:lib|lua)[^<>\s]+)/g)].flatMap(([, name]) => name ?? []);
  const missing: string[] = [];
  for (const name of new Set(needed)) {
    const installed = await run('dpkg-query', ['-W', '-f', '$' + '{db:Status-Status}', name], options).then(
      ({ stdout: status }) => status === 'installed',
      () => false,
    );
    if (!installed) missing.push(name);
  }
  return missing;
}

function isOnPath(tool: string, path: string | undefined): boolean {
  return (path ?? '').split(delimiter).some((folder) => folder !== '' && existsSync(join(folder, tool)));
}

function failed(why: string, cause?: unknown): ProvisionError {
  const message = `The distribution's Redis package cannot be unpacked: ${why.replace(/[.\s]+$/, '')}.`;
  return new ProvisionError(message, cause === undefined ? undefined : { cause });
}

function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.trim().split('\n').at(-1) ?? text;
}
