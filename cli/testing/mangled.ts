import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import seedrandom from 'seedrandom';
import { expect } from 'vitest';
import { formatClientFailure } from '../../libraries/failure-file.js';
import { findScenario } from '../../scenarios/catalogue.js';
import { formatScenario, formatSchedule } from '../../scenarios/index.js';
import { sealedJson } from '../sealed.js';
import { expectSentence, expectTold, filesBelow, HOSTILE } from './hostile.js';
import { emptyFolder, lockstep } from './in-process.js';

/** Something that is read, whole; what is done with it; and how a damaged one is made. */
interface Input {
  readonly file: string;
  readonly whole: Buffer;
  readonly argv: readonly string[];
  readonly mangle: (whole: Buffer, random: () => number) => Buffer;
}

/** What came of many damaged inputs. */
interface Mangled {
  readonly refused: number;
  readonly read: number;
}

/** Reads so many damaged inputs of every kind in turn; each is told of in what can be seen, and writes nothing elsewhere. */
export async function readMangled(count: number, seed: string): Promise<Mangled> {
  const around = emptyFolder();
  const cwd = join(around, 'work');
  mkdirSync(cwd);
  const inputs = await inputsIn(cwd);
  const random = seedrandom(seed);
  let refused = 0;
  for (let i = 0; i < count; i++) {
    const input = inputs[i % inputs.length];
    if (input === undefined) throw new Error('there are no inputs');
    const { file, whole, argv, mangle } = input;
    const damaged = mangle(whole, random);
    writeFileSync(join(cwd, file), damaged);
    const isShown = argv[0] === 'replay' && random() < 0.05;
    const ran = await lockstep([...argv, ...(isShown ? ['--open'] : [])], { cwd, env: { LOCKSTEP_OPEN: 'no' } });
    try {
      expectTold(ran);
      if (ran.code === 64) expectSentence(ran.stderr);
    } catch (error) {
      writeFileSync(join(around, `${i}-${file}`), damaged);
      throw new Error(`${i} of seed ${seed} (${argv.join(' ')}), kept in ${around}`, { cause: error });
    }
    if (ran.code === 64) refused++;
  }
  const names = inputs.map(({ file }) => join('work', file));
  const elsewhere = filesBelow(around).filter(
    (it) => !names.includes(it) && !/^work\/\.lockstep\/[^/]+\/[^/]+$/.test(it),
  );
  // The page of a schedule is beside it.
  expect(elsewhere.filter((it) => it !== 'work/schedule.html')).toEqual([]);
  expect(existsSync('/tmp/lockstep-outside.html')).toBe(false);
  return { refused, read: count - refused };
}

async function inputsIn(cwd: string): Promise<Input[]> {
  const scenario = findScenario('S03');
  const { schedule } = scenario;
  const client = { from: 'file', name: './my-lock.ts' } as const;
  const failure = formatClientFailure({ client, kind: 'belief', extending: false, schedule });
  const config = { check: { ttl: '5s', faults: ['crash=1'], nodes: 5, seed: 'a', shrink: false } };
  await lockstep(['campaign', '--runs', '20', '--range-runs', '10', '--workers', '1', '--out', 'part.json'], { cwd });
  const exploring = ['explore', '--max-states', '300', '--checkpoint', 'a.space'];
  await lockstep(exploring, { cwd });
  const part = readFileSync(join(cwd, 'part.json'));
  const check = ['check', '--config', 'config.json', '--runs', '1', '--workers', '1', '--no-regressions'];
  const json = (file: string, text: string, argv: readonly string[]): Input => {
    return { file, whole: Buffer.from(text), argv, mangle: mangledJson };
  };
  const merging = ['campaign', 'merge'];
  return [
    json('scenario.json', formatScenario(scenario), ['replay', 'scenario.json']),
    json('schedule.json', formatSchedule(schedule), ['replay', 'schedule.json']),
    json('failure.json', failure, ['replay', 'failure.json']),
    json('config.json', JSON.stringify(config), check),
    { file: 'history.jsonl', whole: Buffer.from(HISTORY), argv: ['verify', 'history.jsonl'], mangle: mangledLines },
    { file: 'part.json', whole: part, argv: [...merging, 'part.json'], mangle: mangledBytes },
    { file: 'forged.json', whole: part, argv: [...merging, 'forged.json'], mangle: forgedPart },
    { file: 'a.space', whole: readFileSync(join(cwd, 'a.space')), argv: exploring, mangle: mangledBytes },
  ];
}

const HISTORY = [
  { type: 'acquire', client: 'c1', lock: 'c1/1', atUs: 0, resources: ['a', 'b'], ttlMs: 1000 },
  { type: 'acquired', lock: 'c1/1', atUs: 900, validUs: 900_000 },
  { type: 'write', lock: 'c1/1', atUs: 5_000, resource: 'a' },
  { type: 'extend', lock: 'c1/1', atUs: 10_000, ttlMs: 1000 },
  { type: 'extended', lock: 'c1/1', atUs: 11_000, validUs: 900_000, errorUs: 10 },
  { type: 'release', lock: 'c1/1', atUs: 20_000 },
  { type: 'released', lock: 'c1/1', atUs: 21_000 },
]
  .map((line) => `${JSON.stringify(line)}\n`)
  .join('');

function pick<T>(list: readonly T[], random: () => number): T | undefined {
  return list[Math.floor(random() * list.length)];
}

function name(random: () => number): string {
  return pick(HOSTILE, random) ?? '';
}

/** Values that stand where others should; no number that would be a long run. */
function wrong(random: () => number): unknown {
  return pick(
    [name(random), name(random), null, -1, 1.5, 1e308, true, [], {}, [name(random)], { [name(random)]: 1 }],
    random,
  );
}

/** Most times one value or key is another one, and at times the text itself is damaged. */
function mangledJson(whole: Buffer, random: () => number): Buffer {
  if (random() < 0.3) return mangledBytes(whole, random);
  const value: unknown = JSON.parse(whole.toString());
  altered(value, random);
  return Buffer.from(JSON.stringify(value));
}

/** One line of several. */
function mangledLines(whole: Buffer, random: () => number): Buffer {
  const lines = whole.toString().split('\n');
  const at = Math.floor(random() * (lines.length - 1));
  lines[at] = mangledJson(Buffer.from(lines[at] ?? ''), random).toString();
  return Buffer.from(lines.join('\n'));
}

/** A part as a forger who knows of the hash would write it. */
function forgedPart(whole: Buffer, random: () => number): Buffer {
  const { sha256: _, ...part } = JSON.parse(whole.toString());
  altered(part, random);
  return Buffer.from(sealedJson(part));
}

/** Changes one place of plain data, at any depth. */
function altered(value: unknown, random: () => number): void {
  if (typeof value !== 'object' || value === null) return;
  const key = pick(Object.keys(value), random);
  if (key === undefined) return;
  const inner: unknown = Reflect.get(value, key);
  if (typeof inner === 'object' && inner !== null && random() < 0.8) {
    altered(inner, random);
    return;
  }
  const how = random();
  if (how < 0.15) Reflect.deleteProperty(value, key);
  else if (how < 0.3 && !Array.isArray(value)) {
    Reflect.deleteProperty(value, key);
    Object.defineProperty(value, name(random), { value: inner, enumerable: true, configurable: true });
  } else Reflect.set(value, key, wrong(random));
}

/** A flipped bit, a cut, a piece twice, or what stands where nothing should. */
function mangledBytes(whole: Buffer, random: () => number): Buffer {
  const at = Math.floor(random() * whole.length);
  const [before, after] = [whole.subarray(0, at), whole.subarray(at)];
  const how = random();
  if (how < 0.5) {
    const damaged = Buffer.from(whole);
    damaged[at] = (whole[at] ?? 0) ^ (1 << Math.floor(random() * 8));
    return damaged;
  }
  if (how < 0.65) return Buffer.from(before);
  if (how < 0.8) return Buffer.concat([before, before.subarray(-20), after]);
  return Buffer.concat([before, Buffer.from(name(random)), after]);
}
