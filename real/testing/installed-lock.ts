import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { packInto } from '../../test/packed.js';

const exec = promisify(execFile);
const LOCK = fileURLToPath(new URL('../lock', import.meta.url));
const { devDependencies } = createRequire(import.meta.url)('../../package.json') as {
  readonly devDependencies: Readonly<Record<string, string>>;
};

/** The packed lock, installed in a folder of its own beside other packages. */
export interface InstalledLock extends AsyncDisposable {
  readonly folder: string;
  write(name: string, text: string): void;
  /**
   * Runs a program there, and resolves with what it prints.
   *
   * @throws Error with what it writes to stderr, if it fails or takes longer than two minutes.
   */
  run(program: string, argv: readonly string[], env?: NodeJS.ProcessEnv): Promise<string>;
}

/**
 * Packs what was built last, and installs it.
 *
 * @param packages - What else is installed, from the registry of npm: `name@version`, or a name of the project's dependencies.
 * @throws Error with what npm writes, where the registry is away.
 */
export async function installLock(packages: readonly string[]): Promise<InstalledLock> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-installed-'));
  const { filename } = await packInto(folder, LOCK);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const versions = packages.map((it) => (devDependencies[it] === undefined ? it : `${it}@${devDependencies[it]}`));
  await install(folder, [join(folder, filename), ...versions]);
  return {
    folder,
    write: (name, text) => writeFileSync(join(folder, name), text),
    run: async (program, argv, env) => {
      const { stdout } = await exec(program, argv, { cwd: folder, timeout: 120_000, env: { ...process.env, ...env } });
      return stdout;
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Installs packages without running their scripts: what is needed of them is there before. */
export async function install(folder: string, packages: readonly string[]): Promise<void> {
  const options = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  await exec('npm', ['install', '--prefix', folder, ...options, ...packages]);
}
