import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformWithOxc } from 'vite';
import { type CoreMutant, instrument } from './instrument.js';

/** What decides when a lock is granted, refused, lost: the transition function with what it consists of. */
const MUTATED: readonly string[] = [
  'acquire',
  'drive',
  'extend',
  'fail',
  'fencing',
  'fencing-token',
  'nodes',
  'release',
  'rules',
  'settings',
  'step',
  'tally',
  'time',
  'turn',
  'validity',
];

/** All errors that can be planted in `core`, and the modules with them, by name. */
export function instrumentAll(root: string): {
  readonly mutants: readonly CoreMutant[];
  readonly modules: ReadonlyMap<string, string>;
} {
  const mutants: CoreMutant[] = [];
  const modules = new Map<string, string>();
  for (const name of MUTATED) {
    const file = `core/${name}.ts`;
    const planted = instrument(file, readFileSync(join(root, file), 'utf8'), mutants.length + 1);
    mutants.push(...planted.mutants);
    modules.set(name, planted.code);
  }
  return { mutants, modules };
}

/** Copies of the built house and of the tests of `core`, in which the errors sleep. */
interface Copies {
  /** Folder of the built house, and of the tests. */
  readonly built: string;
  readonly tests: string;
}

/** Makes the copies below `folder`, which is emptied. */
export async function makeCopies(root: string, folder: string, modules: ReadonlyMap<string, string>): Promise<Copies> {
  rmSync(folder, { recursive: true, force: true });
  const built = join(folder, 'house', 'dist');
  const tests = join(folder, 'tests');
  mkdirSync(join(folder, 'house'), { recursive: true });
  cpSync(join(root, 'dist'), built, { recursive: true });
  cpSync(join(root, 'package.json'), join(folder, 'house', 'package.json'));
  cpSync(join(root, 'scenarios', 'catalogue'), join(folder, 'house', 'scenarios', 'catalogue'), { recursive: true });
  for (const room of TESTED) cpSync(join(root, room), join(tests, room), { recursive: true });
  for (const [name, code] of modules) {
    const { code: script } = await transformWithOxc(code, `${name}.ts`);
    writeFileSync(join(built, 'core', `${name}.js`), script);
    writeFileSync(join(tests, 'core', `${name}.ts`), code);
  }
  writeFileSync(
    join(tests, 'vitest.config.mjs'),
    "export default { test: { include: ['batch-*.test.ts'], testTimeout: 20000 } };\n",
  );
  return { built, tests };
}

/** Whose tests are run: most rules of the lock show in what deviates from them. */
const TESTED: readonly string[] = ['core', 'deviations'];

/** Tests that take long: for what the others leave alive. */
const LONG: readonly string[] = ['commands.test.ts', 'step.random.heavy.test.ts'];

/** The test files of `core`, from the folder of the tests: the quick ones, or those that take long. */
export function testFiles(tests: string, which: 'quick' | 'long'): string[] {
  return TESTED.flatMap((room) =>
    readdirSync(join(tests, room))
      .filter((name) => name.endsWith('.test.ts') && LONG.includes(name) === (which === 'long'))
      .map((name) => `./${room}/${name}`),
  );
}
