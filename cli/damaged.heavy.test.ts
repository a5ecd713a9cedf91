import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rangesDone } from '../campaign/index.js';
import { readPart } from './campaign-part-file.js';
import { readCheckpoint } from './explore-checkpoint.js';
import { run } from './run.js';
import { sealedJson, unsealed, unsealedJson } from './sealed.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

const SEARCH = [
  'campaign',
  '--ttl',
  '10s',
  '--faults',
  'failover=1,replica-lag=1ms',
  '--runs',
  '160',
  '--range-runs',
  '20',
];

const HEAD_BITS = 640;
const MOST_BITS = 20_000;

/** Bits of a file: all of its head, and of the rest as many as there is time for, none beside the other. */
function bitsOf(file: Buffer): number[] {
  const step = Math.max(7, Math.ceil((file.length * 8) / MOST_BITS));
  const all = Array.from({ length: file.length * 8 }, (_, i) => i);
  return all.filter((bit) => bit < HEAD_BITS || bit % step === 0);
}

/** A file with one bit that is not as it was written. */
function flipped(file: Buffer, bit: number): Buffer {
  const damaged = Buffer.from(file);
  damaged[bit >> 3] = (file[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return damaged;
}

const NO_PART = 'it is no part of a campaign, or not as it was written; give a file that "campaign --out" has written';

describe('a damaged part', () => {
  const SMALL = ['campaign', '--runs', '20', '--range-runs', '10', '--workers', '1', '--out', 'part.json'];

  it('is noticed, whichever bit of it is flipped', async () => {
    const cwd = emptyFolder();
    await lockstep(SMALL, { cwd });
    const path = join(cwd, 'part.json');
    const file = readFileSync(path);
    expect(rangesDone(readPart(path, cwd))).toBe(2);
    expect(bitsOf(file).filter((bit) => unsealedJson(flipped(file, bit)) !== null)).toEqual([]);
    for (const bit of [0, 100, file.length * 4, file.length * 8 - 1]) {
      writeFileSync(path, flipped(file, bit));
      expect(() => readPart(path, cwd), `bit ${bit}`).toThrow(NO_PART);
    }
  });

  it('is noticed where somebody changed it and its hash', async () => {
    const cwd = emptyFolder();
    await lockstep(SMALL, { cwd });
    const { sha256: _, ...part } = JSON.parse(readFileSync(join(cwd, 'part.json'), 'utf8'));
    const [tally] = part.tallies;
    const changes: [string, object][] = [
      ['its list of ranges is damaged', { done: [[0, null]] }],
      ['its list of ranges is damaged', { done: [[1, 0]] }],
      ['its list of ranges is damaged', { done: 'all' }],
      ['it has range 6 of 2 ranges', { done: [[0, 7]] }],
      ['its counts are damaged', { tallies: [{ ...tally, runs: '20' }] }],
      ['its counts are damaged', { tallies: [] }],
      ['its counts are not those of its 2 ranges', { tallies: [{ ...tally, runs: 21 }] }],
      ['its counts are not those of its 1 ranges', { done: [[0, 1]] }],
      ['its failures are damaged', { failures: [{ run: '/../../x' }] }],
      ['its searches are damaged', { spec: { ...part.spec, searches: [] } }],
      ['its numbers of runs are damaged', { spec: { ...part.spec, rangeRuns: 0 } }],
      ['its schema is "other"', { schema: 'other' }],
    ];
    for (const [wrong, change] of changes) {
      writeFileSync(join(cwd, 'other.json'), sealedJson({ ...part, ...change }));
      expect(await lockstep(['campaign', 'merge', 'other.json'], { cwd })).toEqual({
        code: 64,
        stdout: '',
        stderr: `lockstep: other.json: it is no part of a campaign: ${wrong}\n`,
      });
    }
  });
});

describe('a result is told even where its file cannot be written', () => {
  const cwd = emptyFolder();
  let usual: Awaited<ReturnType<typeof lockstep>>;

  beforeAll(async () => {
    usual = await lockstep([...SEARCH, '--out', 'part.json'], { cwd });
  });

  it('by merge', async () => {
    const told = await lockstep(['campaign', 'merge', 'part.json'], { cwd });
    writeFileSync(join(cwd, 'a-file'), '');
    expect(await lockstep(['campaign', 'merge', 'part.json', '--out', 'a-file/all.json'], { cwd })).toEqual({
      code: told.code === 1 ? 1 : 64,
      stdout: told.stdout,
      stderr: 'lockstep: a-file/all.json cannot be written: a part of its path is no folder\n',
    });
  });

  it('by a campaign whose disk is full at its end', async () => {
    const texts: string[] = [];
    let isGone = false;
    const stderr = {
      isTTY: true,
      write: (text: string) => {
        texts.push(text);
        if (isGone || !text.includes('ranges')) return;
        isGone = true;
        rmSync(join(cwd, 'out'), { recursive: true });
        writeFileSync(join(cwd, 'out'), 'in the way');
      },
    };
    let stdout = '';
    const code = await run([...SEARCH, '--out', 'out/part.json'], {
      stdout: { write: (text) => (stdout += text) },
      stderr,
      cwd,
      env: {},
      signal: new AbortController().signal,
      command: 'lockstep',
    });
    expect(stdout).toBe(usual.stdout);
    expect(code).toBe(usual.code === 1 ? 1 : 64);
    expect(texts.join('')).toContain('out/part.json cannot be written: a part of its path is no folder');
  });
});

describe('a damaged checkpoint', () => {
  const NO_CHECKPOINT = 'it is no checkpoint of "lockstep explore", or not as it was written; start again without it';

  it('is noticed, whichever bit of it is flipped', async () => {
    const cwd = emptyFolder();
    const flags = ['explore', '--checkpoint', 'a.space', '--max-states', '200'];
    await lockstep(flags, { cwd });
    const path = join(cwd, 'a.space');
    const file = readFileSync(path);
    expect(readCheckpoint('a.space', cwd)?.states.length).toBeGreaterThan(0);
    expect(bitsOf(file).filter((bit) => unsealed('lockstep.exploration/3', flipped(file, bit)) !== null)).toEqual([]);
    for (const bit of [0, 300, file.length * 4, file.length * 8 - 1]) {
      writeFileSync(path, flipped(file, bit));
      expect(() => readCheckpoint('a.space', cwd), `bit ${bit}`).toThrow(NO_CHECKPOINT);
    }
    expect(await lockstep(flags, { cwd })).toEqual({
      code: 64,
      stdout: expect.stringContaining('explore'),
      stderr: `lockstep: a.space: ${NO_CHECKPOINT}\n`,
    });
  });
});

/** A file stands where the folder for all that is written would be. */
function folderInTheWay(): string {
  const cwd = emptyFolder();
  writeFileSync(join(cwd, '.lockstep'), 'in the way');
  return cwd;
}

describe('where nothing can be written', () => {
  const WHY = 'cannot be written: a part of its path is no folder';

  it('a page that was asked for is refused in one sentence', async () => {
    for (const flags of [['--open'], ['--with', 'persistence=always', '--diff', '--open']]) {
      const { code, stdout, stderr } = await lockstep(['replay', 'S03', ...flags], { cwd: folderInTheWay() });
      expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
      expect(stderr).toMatch(/^lockstep: --open: \.lockstep\/reports\/S03(?:-diff)?\.html cannot be written: .+\n$/);
      expect(stderr).toContain(WHY);
    }
  });

  it('a counterexample of the explorer is told, without a command for a file that is not there', async () => {
    const flags = ['explore', '--crash', '1', '--restart-delay', '0', '--ttl', '1'];
    const { code, stdout, stderr } = await lockstep(flags, { cwd: folderInTheWay() });
    expect(code).toBe(1);
    expect(stdout).toContain('both held');
    expect(stdout).toContain('replay        none: its file could not be written');
    expect(stderr).toMatch(/^lockstep: \.lockstep\/failures\/explore-.+\n$/);
    expect(stderr).toContain(WHY);
    const json = JSON.parse((await lockstep([...flags, '--json'], { cwd: folderInTheWay() })).stdout);
    expect(json).toMatchObject({ verdict: 'violated', counterexample: { schedule: null, replay: null } });
  });

  it('a map is told, without commands for files that are not there', async () => {
    const { code, stdout, stderr } = await lockstep(['sweep', 'ttl=1s,5s', 'drift=0..2%/3'], { cwd: folderInTheWay() });
    expect(code).toBe(0);
    expect(stdout).not.toContain('lockstep replay');
    expect(stderr.split('\n').filter((it) => it.includes(WHY))).toHaveLength(2);
  });

  it('an exploration that cannot be kept is told as far as it went', async () => {
    const cwd = folderInTheWay();
    const flags = ['explore', '--max-states', '1000', '--checkpoint', '.lockstep/a.space'];
    const { code, stdout, stderr } = await lockstep(flags, { cwd });
    expect(code).toBe(2);
    expect(stdout).toContain('not exhausted   stopped at a limit');
    expect(stdout).not.toContain('goes on from');
    expect(stderr).toContain(WHY);
  });

  it('failures of a campaign are named one by one', async () => {
    const cwd = folderInTheWay();
    const search = ['--faults', 'crash=1', '--restart-delay', '0', '--runs', '60', '--workers', '1'];
    expect((await lockstep(['campaign', ...search, '--out', 'part.json'], { cwd })).code).toBe(1);
    const { code, stdout, stderr } = await lockstep(['campaign', 'failures', 'part.json'], { cwd });
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(stderr).toContain(WHY);
  });
});

describe.skipIf(!existsSync('/dev/full'))('a disk that is full', () => {
  it('is named, and no device is replaced by a file', async () => {
    const cwd = emptyFolder();
    const { code, stderr } = await lockstep(['campaign', '--runs', '1', '--out', '/dev/full'], { cwd });
    expect(code).toBe(64);
    expect(stderr).toBe('lockstep: --out: /dev/full cannot be written: no space is left on the disk\n');
    expect(readdirSync(cwd)).toEqual([]);
  });

  it('behind stdout is one sentence, and no verdict', () => {
    const main = join(import.meta.dirname, 'main.ts');
    const { status, stderr } = spawnSync(
      'bash',
      ['-c', `"$0" --import tsx "${main}" list > /dev/full`, process.execPath],
      {
        encoding: 'utf8',
      },
    );
    expect(stderr).toBe('lockstep: standard output cannot be written: no space is left on the disk\n');
    expect(status).toBe(2);
  });
});
