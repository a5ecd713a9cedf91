import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { emptyFolder, lockstep, type Ran } from './testing/in-process.js';

interface Checked {
  readonly runs: number;
  readonly seed: string;
  readonly configuration: {
    readonly shrink: boolean;
    readonly faultModel: { readonly nodes: number; readonly ttlsMs: number[] };
  };
}

/** A folder with one file in it. */
function folderWith(name: string, text: string): string {
  const cwd = emptyFolder();
  mkdirSync(join(cwd, 'deep'));
  writeFileSync(join(cwd, name), text);
  return cwd;
}

const CHECK = { runs: 150, ttl: ['5s', '2s'], nodes: 3, shrink: false, seed: 'file' };

async function checked(cwd: string, ...argv: string[]): Promise<Checked> {
  const ran = await lockstep(['check', '--json', ...argv], { cwd });
  expect(ran.stderr).toBe('');
  return JSON.parse(ran.stdout) as Checked;
}

describe('a configuration file', () => {
  it.each([
    ['lockstep.config.json', JSON.stringify({ check: { ...CHECK, ttl: '5s,2s' } })],
    ['lockstep.config.mjs', `export default ${JSON.stringify({ check: { ...CHECK, ttl: '5s,2s' } })};`],
    ['lockstep.config.js', `module.exports = ${JSON.stringify({ check: { ...CHECK, ttl: '5s,2s' } })};`],
    [
      'lockstep.config.ts',
      `type T = string; const ttl: T = '5s,2s'; export default { check: { ...${JSON.stringify(CHECK)}, ttl } };`,
    ],
  ])('%s: the command line comes before it, and it before the defaults', async (name, text) => {
    const cwd = folderWith(name, text);
    const { runs, seed, configuration } = await checked(cwd, '--runs', '100');
    expect({ runs, seed }).toEqual({ runs: 100, seed: 'file' });
    expect(configuration).toMatchObject({ shrink: false, faultModel: { nodes: 3, ttlsMs: [5_000, 2_000] } });
  });

  it('is left aside by --no-config, and another one is read with --config', async () => {
    const cwd = folderWith('lockstep.config.json', '{ "check": { "nodes": 3, "runs": 100 } }');
    writeFileSync(join(cwd, 'deep/other.json'), '{ "check": { "nodes": 7, "runs": 100 } }');
    expect((await checked(cwd, '--no-config', '--runs', '100')).configuration.faultModel.nodes).toBe(5);
    expect((await checked(cwd, '--config', 'deep/other.json')).configuration.faultModel.nodes).toBe(7);
    expect((await checked(cwd, '--config=deep/other.json')).configuration.faultModel.nodes).toBe(7);
  });

  it('is named where something failed, as a command line that does without it', async () => {
    const cwd = folderWith(
      'lockstep.config.json',
      '{ "check": { "faults": "crash=1", "restart-delay": "0", "shrink": false } }',
    );
    const { code, stderr } = await lockstep(['check', '--runs', '2000'], { cwd });
    expect(code).toBe(1);
    expect(stderr).toBe(
      'lockstep: configured by lockstep.config.json; without it: lockstep check --runs 2000 --faults crash=1 --restart-delay 0 --no-shrink --no-config\n',
    );
    const again = await lockstep(
      [
        'check',
        '--runs',
        '2000',
        '--faults',
        'crash=1',
        '--restart-delay',
        '0',
        '--no-shrink',
        '--no-config',
        '--no-regressions',
      ],
      { cwd },
    );
    expect({ code: again.code, stderr: again.stderr }).toEqual({ code: 1, stderr: '' });
  });
});

describe('a wrong one is told in one sentence', () => {
  it.each([
    ['{ "check": { "ttll": "5s" } }', 'check.ttll: there is no such flag; did you mean "ttl"?'],
    ['{ "chek": {} }', '"chek" is no verb; did you mean "check"?'],
    ['{ "check": { "ttl": "5" } }', '--ttl: duration "5" has no unit; write it like 10s, 50ms or 250us'],
    ['{ "check": { "ttl": { "ms": 5 } } }', 'check.ttl: "[object Object]" is no value of it; use text or a number'],
    ['{ "check": { "shrink": "no" } }', 'check.shrink: "no" is no value of it; use true or false'],
    ['{ "check": 3 }', 'check: it must be an object of flags and their values'],
    ['[]', 'it must be an object of verbs, such as { "check": { "ttl": "5s" } }'],
  ])('%s', async (text, sentence) => {
    const cwd = folderWith('lockstep.config.json', text);
    expect(await lockstep(['check', '--runs', '1'], { cwd })).toEqual<Ran>({
      code: 64,
      stdout: '',
      stderr: `lockstep: lockstep.config.json: ${sentence}\n`,
    });
  });

  it('where it cannot be read at all', async () => {
    const wrong = await lockstep(['list'], { cwd: folderWith('lockstep.config.json', '{ "check": ') });
    expect(wrong).toMatchObject({ code: 64, stdout: '' });
    expect(wrong.stderr).toMatch(/^lockstep: lockstep\.config\.json: it cannot be read \(.+\)\n$/);
    const typed = await lockstep(['list'], { cwd: folderWith('lockstep.config.ts', 'export default {{{') });
    expect(typed).toMatchObject({ code: 64, stdout: '' });
    expect(typed.stderr.trimEnd().split('\n')).toHaveLength(1);
  });

  it('where there are two, or none of that name', async () => {
    const cwd = folderWith('lockstep.config.json', '{}');
    writeFileSync(join(cwd, 'lockstep.config.mjs'), 'export default {}');
    expect((await lockstep(['list'], { cwd })).stderr).toBe(
      'lockstep: there are both lockstep.config.mjs and lockstep.config.json; keep one of them\n',
    );
    expect((await lockstep(['list', '--config', 'no.json'], { cwd })).stderr).toBe(
      'lockstep: --config: there is no file "no.json"\n',
    );
    expect((await lockstep(['list', '--config'], { cwd })).stderr).toBe('lockstep: --config: name a file after it\n');
  });
});

test('what it says of one verb is nothing to another', async () => {
  const cwd = folderWith('lockstep.config.json', '{ "mutants": { "runs": 1 } }');
  expect((await lockstep(['list'], { cwd })).code).toBe(0);
});
