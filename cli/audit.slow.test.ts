import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Ended, started } from '../campaign/testing/command.js';
import { emptyFolder } from './testing/in-process.js';
import { expectToFit } from './testing/output.js';

const TOP = fileURLToPath(new URL('..', import.meta.url));

/** A project with some of the locks in `audit/testing/locks`. */
function projectWith(...files: readonly string[]): string {
  const cwd = emptyFolder();
  mkdirSync(join(cwd, 'src'));
  symlinkSync(join(TOP, 'node_modules'), join(cwd, 'node_modules'));
  for (const file of files) cpSync(join(TOP, 'audit/testing/locks', file), join(cwd, 'src', file));
  return cwd;
}

const audit = (cwd: string, ...argv: string[]): Promise<Ended> => started(['audit', ...argv], {}, cwd).end;

const RUNS = ['--runs', '20'];
/** Of two locks in one file, one is safe, and is found by default. */
const TWO_LOCKS = `
export async function acquireLock(redis, key, ttlMs) {
  const token = crypto.randomUUID();
  return (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? token : null;
}
export async function releaseLock(redis, key, token) {
  await redis.eval("if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0", 1, key, token);
}
export async function grab(client, key, ttlMs) {
  return (await client.set(key, 'mine', { NX: true, PX: ttlMs })) === 'OK';
}
export async function drop(client, key) {
  await client.del(key);
}
`;

describe('audit of many files', () => {
  const cwd = projectWith('named-pair.ts');
  writeFileSync(join(cwd, 'src/other-lock.ts'), 'export const add = (a: number, b: number): number => a + b;\n');
  writeFileSync(join(cwd, 'src/broken-lock.ts'), 'export function lock( {\n');
  const files = ['src/named-pair.ts', 'src/other-lock.ts', '--runs', '4'];

  it('leaves out those without a lock, and accepts what the baseline has', async () => {
    const found = await audit(cwd, ...files, '--reporter', 'github');
    expect(found.code).toBe(1);
    expect(found.stdout).toContain('– src/other-lock.ts: other-lock.ts: no lock was found in it');
    expect(found.stdout).toMatch(/^2 files: 1 not safe and 1 skipped; 1 finding$/m);
    expect(found.stdout).toMatch(/^::error title=.*ms-as-seconds,file=src\/named-pair\.ts,line=15::its TTL is/m);
    const accepted = await audit(cwd, ...files, '--baseline', 'base.json', '--accept', '--json');
    expect(accepted.code).toBe(0);
    const all = JSON.parse(accepted.stdout);
    expectToFit(all);
    expect(all.audits[0].findings[0]).toMatchObject({ id: 'ms-as-seconds', accepted: true });
    expect(all.skipped).toMatchObject([{ file: 'src/other-lock.ts' }]);
  });

  it('says what is no longer found, and judges the rest with another seed alike', async () => {
    const gone = { file: 'src/named-pair.ts', property: 'cleanup', id: 'leak' };
    const base = JSON.parse(readFileSync(join(cwd, 'base.json'), 'utf8'));
    base.findings.push(gone);
    writeFileSync(join(cwd, 'base.json'), JSON.stringify(base));
    const argv = ['src/{named-pair,broken-lock}.ts', '--runs', '4', '--seed', 'other', '--baseline', 'base.json'];
    const { code, stdout, stderr } = await audit(cwd, ...argv, '--reporter', 'sarif');
    expect(code).toBe(2);
    expect(stderr).toBe(
      'lockstep: base.json: cleanup (leak) is no longer found in src/named-pair.ts; remove it, or add --accept\n',
    );
    const [broken, accepted] = JSON.parse(stdout).runs[0].results;
    expect(accepted.suppressions).toHaveLength(1);
    expect(broken).toMatchObject({ ruleId: 'not-audited', message: { text: /syntax error/ } });
  });
});

describe('a finding of an audit', () => {
  it('is shown again by its command, with the flags of the run that found it, until the lock is mended', async () => {
    const cwd = projectWith();
    writeFileSync(join(cwd, 'src/two-locks.mjs'), TWO_LOCKS);
    const how = ['--acquire', 'grab', '--release', 'drop', '--client', 'node-redis', '--nodes', '1', '--seed', 'other'];
    const found = await audit(cwd, 'src/two-locks.mjs', ...how, ...RUNS, '--json');
    expect(found.code).toBe(1);
    const [finding] = JSON.parse(found.stdout).findings;
    expect(finding.id).toBe('blind-release');
    const [, replay = ''] = / (audit --replay \S+)$/.exec(finding.replay) ?? [];
    const again = await started([...replay.split(' '), '--json'], {}, cwd).end;
    expect(again.code).toBe(0);
    expectToFit(JSON.parse(again.stdout));
    expect(JSON.parse(again.stdout).findings).toEqual([finding]);
    const text = TWO_LOCKS.replace('await client.del(key)', "await client.eval('return 0', { keys: [key] })");
    writeFileSync(join(cwd, 'src/two-locks.mjs'), text);
    const mended = await started(replay.split(' '), {}, cwd).end;
    expect(mended.code).toBe(3);
    expect(mended.stderr).toContain(
      'lockstep: not reproduced: the finding of .lockstep/audit/two-locks-blind-release-',
    );
    const elsewhere = await started(['libraries', '--replay', finding.schedule], {}, cwd).end;
    expect(elsewhere).toMatchObject({ code: 64, stderr: expect.stringContaining('was found by an audit; run') });
  });
});

describe('an audit that is interrupted', () => {
  it('says what there is so far, leaves no thread behind, and exits with 130', async () => {
    const cwd = projectWith('with-node-redis.ts');
    // Each simulated process loads the file: most of them do so in the search. Only a package can tell that outside.
    const counts = join(cwd, 'src/node_modules/counts');
    mkdirSync(counts, { recursive: true });
    writeFileSync(join(counts, 'package.json'), '{ "name": "counts", "main": "index.cjs" }');
    const count = "require('node:fs').appendFileSync('loaded', '.')";
    writeFileSync(join(counts, 'index.cjs'), `exports.loaded = () => ${count};`);
    const path = join(cwd, 'src/with-node-redis.ts');
    writeFileSync(path, `import { loaded } from 'counts';\nloaded();\n${readFileSync(path, 'utf8')}`);
    appendFileSync(join(cwd, 'loaded'), '');
    const { child, end } = started(['audit', 'src/with-node-redis.ts', '--runs', '1000000'], {}, cwd);
    while (readFileSync(join(cwd, 'loaded')).length < 60 && child.exitCode === null) await sleep(20);
    child.kill('SIGINT');
    const { code, stdout, stderr } = await end;
    expect(code).toBe(130);
    expect(stdout).toContain('the search was interrupted');
    expect(stderr).toContain('lockstep: interrupted: 0 of 1 file audited to the end');
    expect(existsSync(`/proc/${child.pid}`)).toBe(false);
  });
});
