import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DEVIATIONS } from '../deviations/index.js';
import { importsPicture } from './imports-picture.js';
import { closureOf, cycles, forbiddenImports, importsOf, type Modules, ROOMS, readModules } from './modules.js';

const house: Modules = readModules(new URL('..', import.meta.url));

describe('the house', () => {
  it('is read: every room that has modules, with their imports', () => {
    const rooms = new Set([...house.keys()].map((path) => path.split('/')[0]));
    for (const room of ['core', 'scenarios', 'sim', 'properties', 'real']) expect(rooms).toContain(room);
    expect(house.get('sim/clock.ts')?.map(({ target }) => target)).toEqual(['core/index.ts', 'sim/time.ts']);
  });

  it('has only imports of files that are there', () => {
    const missing = [...house].flatMap(([path, imports]) =>
      imports
        .filter((it) => !it.package && it.target.endsWith('.ts') && !house.has(it.target))
        .map((it) => `${path} imports ${it.target}`),
    );
    expect(missing).toEqual([]);
  });

  it('has imports in one direction only', () => {
    expect(forbiddenImports(house)).toEqual([]);
  });

  it('is drawn in docs/architecture.md as it is', () => {
    const page = readFileSync(new URL('../docs/architecture.md', import.meta.url), 'utf8');
    expect(page).toContain(`\`\`\`mermaid\n${importsPicture(house).mermaid}\n\`\`\``);
  });

  it('has no cycle of imports, types included', () => {
    expect(cycles(house)).toEqual([]);
  });

  it('asks policies for deviations that are in the catalogue', () => {
    const asked = [...house.keys()].flatMap((path) => {
      const text = readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
      return [...text.matchAll(/\bdeviates\([^;{]*?\)/g)].flatMap(([call]) => call.match(/(?<=')[a-z-]+(?=')/g) ?? []);
    });
    expect(asked.length).toBeGreaterThan(20);
    expect(asked.filter((name) => !Object.hasOwn(DEVIATIONS, name))).toEqual([]);
  });

  it('has a lock of which every module is in text, core or real/lock, without dependencies and deviations', () => {
    const lock = closureOf(house, 'real/lock/index.ts');
    expect(lock).toContain('core/step.ts');
    expect(lock.filter((path) => !/^(text|core|real\/lock)\//.test(path))).toEqual([]);
    const others = [...house.keys()].filter((path) => path.startsWith('real/lock/') && !lock.includes(path));
    expect(others).toEqual(['real/lock/compat.ts', 'real/lock/parts.ts']);
    for (const other of others) {
      expect(closureOf(house, other).filter((path) => !lock.includes(path))).toEqual([other]);
    }
    const packages = lock.flatMap((path) => house.get(path)?.filter((it) => it.package) ?? []);
    expect([...new Set(packages.map(({ target }) => target))].filter((name) => !name.startsWith('node:'))).toEqual([]);
    expect(closureOf(house, 'sim/client.ts')).toContain('deviations/catalogue.ts');
  });

  it('has a tool that uses the lock as its users do, but for the parts that it plays schedules with', () => {
    const used = [...house]
      // What it costs to be watched is measured against a lock that cannot be: its inside is replaced.
      .filter(([path]) => !path.startsWith('real/lock/') && path !== 'bench/watching.ts')
      .flatMap(([, imports]) => imports.map(({ target }) => target))
      .filter((target) => target.startsWith('real/lock/'));
    expect([...new Set(used)].sort()).toEqual(['real/lock/index.ts', 'real/lock/parts.ts']);
  });
});

/** A house of texts. */
function built(files: Readonly<Record<string, string>>): Modules {
  return new Map(Object.entries(files).map(([path, text]) => [path, importsOf(path, text)]));
}

describe('the reading of imports', () => {
  it('finds each form, and tells types from values', () => {
    const text = `
      import { a } from './a.js';
      import type { B } from './b.js';
      import { type C } from '../sim/c.js';
      import {
        d,
        type D,
      } from './d.js';
      import './e.js';
      import * as f from "./deep/f.js";
      import type from './g.js';
      export { h } from './h.js';
      export type * from './i.js';
      export * from './j.js';
      import k, { type K } from 'k';
      import l from './l.json' with { type: 'json' };
      const m = await import('./m.js');
      type N = import('./n.js').N;
      import { readFileSync } from 'node:fs';
    `;
    expect(
      importsOf('core/x.ts', text).map(({ target, typeOnly }) => `${target}${typeOnly ? ' (types)' : ''}`),
    ).toEqual([
      'core/a.ts',
      'core/b.ts (types)',
      'sim/c.ts',
      'core/d.ts',
      'core/e.ts',
      'core/deep/f.ts',
      'core/g.ts',
      'core/h.ts',
      'core/i.ts (types)',
      'core/j.ts',
      'k',
      'core/l.json',
      'node:fs',
      'core/m.ts',
      'core/n.ts',
    ]);
  });

  it('is not misled by what is no import', () => {
    const text = `
      /**
       * import { a } from './a.js';
       * const { a } = await import('./a.js');
       */
      // import { a } from './a.js';
      export const from = './a.js';
      export function f(a = './a.js') {}
      const text = "import it from './a.js'";
    `;
    expect(importsOf('core/x.ts', text)).toEqual([]);
  });
});

describe('the direction of imports', () => {
  const wrong = (path: string, text: string): string[] => forbiddenImports(built({ [path]: text }));

  it('is that of the picture', () => {
    expect(wrong('sim/a.ts', "import { a } from '../core/index.js';")).toEqual([]);
    expect(wrong('sim/a.ts', "import type { A } from '../properties/index.js';")).toEqual([
      'sim/a.ts imports properties/index.ts, but sim may not import properties',
    ]);
    expect(wrong('sim/deep/a.ts', "export * from '../../real/index.js';")).toEqual([
      'sim/deep/a.ts imports real/index.ts, but sim may not import real',
    ]);
    expect(wrong('real/a.ts', "import '../sim/index.js';")).toHaveLength(1);
    expect(wrong('report/a.ts', "import '../real/index.js';")).toHaveLength(1);
    expect(wrong('cli/a.ts', "import '../real/index.js';\nimport '../sim/index.js';")).toEqual([]);
    expect(wrong('libraries/a.ts', "import '../real/index.js';")).toEqual([]);
    expect(wrong('core/a.ts', "import '../bench/index.js';")).toHaveLength(1);
  });

  it('leads nowhere twice: of two rooms, one at most may import the other', () => {
    for (const [room, allowed] of Object.entries(ROOMS)) {
      for (const other of allowed) expect(ROOMS[other]).not.toContain(room);
    }
  });

  it('leaves text and core without any dependency', () => {
    expect(wrong('text/a.ts', "import { join } from 'node:path';")).toEqual([
      'text/a.ts imports node:path, but text depends on nothing',
    ]);
    expect(wrong('text/a.ts', "import { a } from '../core/index.js';")).toHaveLength(1);
    expect(wrong('core/a.ts', "import fc from 'fast-check';")).toEqual([
      'core/a.ts imports fast-check, but core depends on nothing',
    ]);
    expect(wrong('core/a.ts', "import { join } from 'node:path';")).toHaveLength(1);
    expect(wrong('sim/a.ts', "import seedrandom from 'seedrandom';")).toEqual([]);
  });

  it('lets sim and the monitors have types of scenarios only', () => {
    const values = "import { parse } from '../scenarios/index.js';";
    const types = "import type { Fault } from '../scenarios/index.js';";
    // With `verbatimModuleSyntax`, this is an import at run time as well.
    const inline = "import { type Fault } from '../scenarios/index.js';";
    expect(wrong('sim/a.ts', types)).toEqual([]);
    expect(wrong('sim/a.ts', values)).toEqual(['sim/a.ts imports more than types of scenarios/index.ts']);
    expect(wrong('sim/a.ts', inline)).toHaveLength(1);
    expect(wrong('properties/monitors/a.ts', values.replace('..', '../..'))).toHaveLength(1);
    expect(wrong('properties/a.ts', values)).toEqual([]);
  });

  it('does not lead from the house into its tests', () => {
    expect(wrong('sim/a.ts', "import { lock } from './testing/schedule.js';")).toHaveLength(1);
    expect(wrong('sim/a.ts', "import './a.test.js';")).toHaveLength(1);
  });

  it('has no place for a folder that is no room', () => {
    expect(wrong('utils/a.ts', '')).toEqual(['utils/a.ts is in no room of the house']);
  });
});

describe('a cycle', () => {
  it('is found, however long, and through types too', () => {
    const files = {
      'core/a.ts': "import { b } from './b.js';",
      'core/b.ts': "import type { C } from './c.js';",
      'core/c.ts': "export { b } from './a.js';",
      'core/d.ts': "import './a.js';",
    };
    expect(cycles(built(files))).toEqual(['core/a.ts → core/b.ts → core/c.ts → core/a.ts']);
    expect(cycles(built({ 'core/a.ts': "import type { A } from './a.js';" }))).toEqual(['core/a.ts → core/a.ts']);
  });

  it('is not two ways to one module', () => {
    const files = {
      'core/a.ts': "import './b.js';\nimport './c.js';",
      'core/b.ts': "import './d.js';",
      'core/c.ts': "import './d.js';",
      'core/d.ts': '',
    };
    expect(cycles(built(files))).toEqual([]);
  });
});
