import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Baseline } from './audit-baseline.js';
import { auditFiles, whyNoLock } from './audit-files.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

const finding = (id: string, property = 'mutual exclusion') => ({ id, property });

describe('a baseline', () => {
  it('has what was accepted, by file, property and id, and from any folder', () => {
    const cwd = emptyFolder();
    mkdirSync(join(cwd, 'ci'));
    const made = Baseline.read('ci/base.json', cwd, true);
    made.accept(new Map([['src/lock.ts', [finding('blind-release')]]]));
    const read = Baseline.read('base.json', join(cwd, 'ci'), false);
    expect(read.has('../src/lock.ts', finding('blind-release'))).toBe(true);
    expect(read.has('../src/lock.ts', finding('no-ttl'))).toBe(false);
    expect(read.has('../src/lock.ts', finding('blind-release', 'validity'))).toBe(false);
    expect(read.has('../src/other.ts', finding('blind-release'))).toBe(false);
    expect(readFileSync(join(cwd, 'ci/base.json'), 'utf8')).toContain('"file": "../src/lock.ts"');
  });

  it('says what is no longer found, of files that were audited only, and forgets it as the rest is accepted', () => {
    const cwd = emptyFolder();
    const base = Baseline.read('base.json', cwd, true);
    base.accept(
      new Map([
        ['a.ts', [finding('blind-release'), finding('no-ttl')]],
        ['b.ts', [finding('no-ttl')]],
      ]),
    );
    const now = new Map([['a.ts', [finding('no-ttl')]]]);
    const gone = { file: 'a.ts', property: 'mutual exclusion', id: 'blind-release' };
    expect(base.gone(now)).toEqual([gone]);
    base.accept(now);
    const { findings } = JSON.parse(readFileSync(join(cwd, 'base.json'), 'utf8'));
    expect(findings).toEqual([
      { ...gone, id: 'no-ttl' },
      { ...gone, id: 'no-ttl', file: 'b.ts' },
    ]);
  });
});

it('reads a baseline of the version before, which called an id a cause', () => {
  const cwd = emptyFolder();
  const findings = [{ file: 'a.ts', property: 'mutual exclusion', cause: 'no-ttl' }];
  writeFileSync(join(cwd, 'old.json'), JSON.stringify({ schema: 'lockstep.baseline/1', findings }));
  expect(Baseline.read('old.json', cwd, false).has('a.ts', finding('no-ttl'))).toBe(true);
});

describe('the files of an audit', () => {
  const cwd = emptyFolder();
  for (const folder of ['src/[id]', 'node_modules/p']) mkdirSync(join(cwd, folder), { recursive: true });
  const files = ['src/lock.ts', 'src/lock.test.ts', 'src/[id]/lock.ts', 'node_modules/p/lock.ts'];
  for (const file of files) writeFileSync(join(cwd, file), '');

  it('are those that a pattern is like, or that are named, without packages', () => {
    const many = ['src/[id]/lock.ts', 'src/lock.test.ts', 'src/lock.ts'];
    expect(auditFiles(['**/*lock*.ts'], false, cwd)).toEqual({ files: many, isMany: true });
    expect(auditFiles(['./src/[id]/lock.ts'], false, cwd)).toEqual({ files: ['src/[id]/lock.ts'], isMany: false });
    expect(auditFiles(['src/lock.ts', 'src/lock.ts'], false, cwd)).toEqual({ files: ['src/lock.ts'], isMany: true });
    expect(auditFiles(['src/lock.ts'], true, cwd).isMany).toBe(true);
  });

  it('may have no lock, which is seen by their names', () => {
    expect(['a.md', 'a.d.mts', 'a.spec.js', 'a.ts', 'a.cjs'].map(whyNoLock)).toEqual([
      'it is neither JavaScript nor TypeScript',
      'it has nothing but types',
      'it is a test',
      null,
      null,
    ]);
  });

  it.each([
    [[], 'audit what? Give a file, or a pattern such as "src/**/*lock*.ts"'],
    [['lib/*.ts'], 'audit: there is no such file: "lib/*.ts"'],
    [['src'], 'audit: there is no such file: "src"'],
    [['src/*.ts', '--test', 'x.ts'], '--test: one file cannot test many; leave out its name, and each gets its own'],
    [['src/lock.ts', '--accept'], '--accept: say into which file, as in --baseline lockstep-baseline.json'],
    [['src/lock.ts', '--baseline', 'b.json'], 'b.json: there is no such file; give a baseline, which --accept writes'],
    [['--replay', 'a.json'], 'a.json: there is no such file; give the file of a finding, as audit writes it'],
    [
      ['src/lock.ts', '--replay', 'a.json'],
      '--replay: its file says which lock it is, and how it was audited; leave out src/lock.ts',
    ],
    [
      ['--replay', 'a.json', '--nodes', '3'],
      '--replay: its file says which lock it is, and how it was audited; leave out nodes',
    ],
  ])('%j is answered in a sentence', async (argv, sentence) => {
    const { code, stderr } = await lockstep(['audit', ...argv], { cwd });
    expect({ code, stderr }).toEqual({ code: 64, stderr: `lockstep: ${sentence}\n` });
  });
});
