import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LockError } from 'lockstep-redlock';
import { beforeEach, describe, expect, it } from 'vitest';
import { ANSI_SEQUENCES } from '../report/painter.js';
import { expectSentence, expectTold, filesBelow, HOSTILE, scenarioOf, unprintableIn } from './testing/hostile.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

/** A folder within one that nothing else may be written to. */
let around: string;
let cwd: string;
beforeEach(() => {
  around = emptyFolder();
  cwd = join(around, 'work');
  mkdirSync(cwd);
});

describe.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))('a scenario named %s', (_, name) => {
  it('is told in what can be seen, whatever the form, and writes nothing elsewhere', async () => {
    writeFileSync(join(cwd, 'z.json'), scenarioOf(name));
    const forms = ['text', 'svg', 'mermaid', 'json', 'perfetto'].map((form) => ['--format', form]);
    for (const flags of [...forms, ['--json'], ['--explain'], ['--with', 'persistence=always', '--diff']]) {
      const ran = await lockstep(['replay', 'z.json', ...flags], { cwd });
      expectTold(ran);
      expect(ran.stderr).toBe('');
    }
    expect(filesBelow(around)).toEqual(['work/z.json']);
  });

  it('is a known schedule that no longer reproduces, by every reporter', async () => {
    mkdirSync(join(cwd, 'lockstep/regressions'), { recursive: true });
    writeFileSync(join(cwd, 'lockstep/regressions/z.json'), scenarioOf(name));
    for (const reporter of ['default', 'json', 'junit', 'github', 'minimal']) {
      const env = { GITHUB_STEP_SUMMARY: join(cwd, 'summary.md') };
      const ran = await lockstep(['check', '--runs', '1', '--workers', '1', '--reporter', reporter], { cwd, env });
      expectTold(ran);
      expect(ran.code).toBe(3);
    }
    expect(unprintableIn(readFileSync(join(cwd, 'summary.md'), 'utf8'))).toBeNull();
  });
});

it('colours are this command’s own, and no name can have them', async () => {
  const [name = ''] = HOSTILE;
  writeFileSync(join(cwd, 'z.json'), scenarioOf(name));
  const { stdout } = await lockstep(['replay', 'z.json'], { cwd, stdout: { isTTY: true, write: () => true } });
  expect(stdout).toContain('\u001b[31m');
  expect(stdout).not.toContain('\u001b[31mEVIL');
  expect(unprintableIn(ANSI_SEQUENCES.reduce((text, own) => text.replaceAll(own, ''), stdout))).toBeNull();
});

it.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))('a history with %s', async (_, name) => {
  const line = (type: string, lock: string, atUs: number, more: object) =>
    JSON.stringify({ type, lock, atUs, ...more });
  const acquire = { client: name, resources: [name], ttlMs: 1000 };
  const lines = [
    line('acquire', `1${name}`, 0, acquire),
    line('acquired', `1${name}`, 10, { validUs: 2_000_000 }),
    line('acquire', `2${name}`, 20, acquire),
    line('acquired', `2${name}`, 30, { validUs: 900_000 }),
    line('write', `2${name}`, 2_000_000, { resource: name }),
  ];
  const wrong = [line('extend', name, 0, {}), line(name, '1', 0, {}), line('acquire', '1', 0, { [name]: 1 })];
  writeFileSync(join(cwd, 'h.jsonl'), `${lines.join('\n')}\n`);
  for (const flags of [[], ['--json']]) {
    const ran = await lockstep(['verify', 'h.jsonl', ...flags], { cwd });
    expectTold(ran);
    expect(ran.code).toBe(1);
  }
  for (const [i, text] of [...wrong, line('released', `1${name}`, 1, {}), `{${name}`].entries()) {
    writeFileSync(join(cwd, `w${i}.jsonl`), `${lines.join('\n')}\n${text}\n${text}\n`);
    const { code, stderr } = await lockstep(['verify', `w${i}.jsonl`], { cwd });
    expect(code).toBe(64);
    expectSentence(stderr);
  }
});

describe('a command line', () => {
  it.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))('with %s anywhere', async (_, name) => {
    const signal = AbortSignal.abort();
    const lines = [
      [name],
      [`--${name}`],
      ['replay', name],
      ['replay', `${name}.json`],
      ['replay', `x/${name}`],
      ['replay', 'S03', '--with', name],
      ['replay', 'S03', '--with', `policy=${name}`],
      ['replay', 'S03', '--format', name],
      ['replay', 'S03', '--diff', name],
      ['replay', 'S03', name],
      ['verify', `${name}.jsonl`],
      ['explore', '--checkpoint', `no-such-folder-${name}/\0`, '--ttl', '1'],
      ['campaign', 'merge', name],
      ['campaign', '--libraries', `./${name}.ts`],
      ['campaign', '--queue', `http://${name}`, '--runs', '1'],
      ['libraries', '--only', name],
      ['libraries', '--file', name],
      ['libraries', '--replay', name],
      ['sweep', name, name],
      ['sweep', `ttl=${name}`, 'drift=0..2%/3'],
      ['list', '--config', name],
      ['check', '--regressions', name],
      ...['--nodes', '--ttl', '--faults', '--profile', '--runs', '--budget', '--properties', '--strategy'].map((it) => [
        'check',
        it,
        name,
      ]),
      ['mutants', '--ids', name],
      ['completion', name],
    ];
    for (const argv of lines) {
      const ran = await lockstep(argv, { cwd, signal });
      expectTold({ ...ran, code: ran.code === 130 ? 2 : ran.code });
      expect(ran.code).not.toBe(0);
    }
    expect(filesBelow(around)).toEqual([]);
  });
});

it.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))(
  'a configuration with %s',
  async (_, name) => {
    const texts = [{ [name]: {} }, { check: { [name]: 1 } }, { check: { ttl: name } }, { check: { faults: [name] } }];
    for (const text of [...texts.map((it) => JSON.stringify(it)), name, `{ "check": ${name}`]) {
      writeFileSync(join(cwd, 'lockstep.config.json'), text);
      const { code, stderr } = await lockstep(['check', '--runs', '1'], { cwd });
      expect(code).toBe(64);
      expectSentence(stderr);
    }
    writeFileSync(
      join(cwd, 'lockstep.config.json'),
      JSON.stringify({ check: { seed: name, runs: 1, faults: 'crash=1' } }),
    );
    const ran = await lockstep(['check', '--workers', '1'], { cwd });
    expectTold(ran);
  },
);

it('a lock says what is wrong with a resource in what can be seen', () => {
  for (const name of HOSTILE) {
    const { message } = new LockError(`The acquisition of ${name} was aborted.`, {
      code: 'ERR_LOCK_ABORTED',
      operation: 'acquire',
    });
    expect(unprintableIn(message)).toBeNull();
    expect(message.length).toBeLessThan(1_100);
  }
});

it.each(HOSTILE.map((name) => [JSON.stringify(name).slice(0, 40), name]))(
  'the pages of a scenario named %s are written where they belong',
  async (_, name) => {
    const around = emptyFolder();
    const cwd = join(around, 'work');
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'z.json'), scenarioOf(name));
    const page = await lockstep(['replay', 'z.json', '--format', 'html'], { cwd });
    expectTold(page);
    expect(page.stderr).toBe('');
    for (const flags of [['--open'], ['--with', 'persistence=always', '--diff', '--open']]) {
      const env = { LOCKSTEP_OPEN: 'no' };
      const { code, stdout, stderr } = await lockstep(['replay', 'z.json', ...flags], { cwd, env });
      expect({ code, stderr }).toEqual({ code: 3, stderr: '' });
      expect(stdout).toMatch(/^\.lockstep\/reports\/[^/\n]+\.html\n$/);
      expect(readFileSync(join(cwd, stdout.trim()), 'utf8')).toContain('<html');
    }
    expect(filesBelow(around).filter((it) => !/^work\/(?:z\.json$|\.lockstep\/reports\/[^/]+$)/.test(it))).toEqual([]);
  },
);
