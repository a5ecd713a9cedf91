import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { blocksOf, commandsIn, documents } from '../test/blocks.js';
import { emptyFolder, lockstep } from './testing/in-process.js';

/** Nobody listens there: what needs real nodes says so, after it has read its flags. */
const NO_REDIS = 'redis://127.0.0.1:1';
beforeEach(() => {
  vi.stubEnv('LOCKSTEP_REDIS', NO_REDIS);
  vi.stubEnv('PATH', '/nowhere');
});
afterEach(() => vi.unstubAllEnvs());

const { stdout: usage } = await lockstep(['--help']);
const verbs = [...usage.slice(usage.indexOf('Commands:')).matchAll(/^ {2}([a-z]+) /gm)]
  .map(([, verb = '']) => verb)
  // Examples about several machines and their queue are in the tests of campaigns; those of libraries need the build, and mcp a
  // client.
  .filter((verb) => !['campaign', 'libraries', 'mcp'].includes(verb));

/** The examples of a verb, as its help has them: up to two spaces, after which comes what they are for. */
async function examplesOf(verb: string): Promise<string[]> {
  const { stdout } = await lockstep([verb, '--help']);
  const examples = stdout.slice(stdout.indexOf('Examples:'));
  return [...examples.matchAll(/^ {2}lockstep (.*?)(?: > .*| {2,}.*)?$/gm)].map(([, words = '']) => words);
}

/** Examples that documents have too, which are run with these. */
const IN_DOCUMENTS: readonly string[] = documents()
  .flatMap(blocksOf)
  .flatMap(commandsIn)
  .map(({ argv }) => argv.join(' '))
  .filter((command) => /^(?:explore|sweep) /.test(command));

/** The same search with less to do, where it is to find nothing. */
function quick(example: string): string[] {
  return /^check(?: --reporter junit)?$/.test(example) ? [...example.split(' '), '--runs', '600'] : example.split(' ');
}

/** What examples do on a machine without Redis, where it is not to pass; and how long ones are cut short. */
function expectedOf(example: string): { readonly codes: readonly number[]; readonly stopAfterMs?: number } {
  if (/^(bench|chaos)|--real/.test(example)) return { codes: [2] };
  if (/^advise .*--redis/.test(example)) return { codes: [2] };
  if (/^(verify|audit|advise system|risk (?:system|examples)|playground --at \S+\.json)/.test(example))
    return { codes: [64] };
  if (/^replay \.lockstep/.test(example)) return { codes: [64] };
  if (
    /^check --faults|^check --exceed|^explore --crash 1 --restart-delay 0|^explore --mutant|^explore --sets \S+ --ttl 2$|^check S13/.test(
      example,
    )
  )
    return { codes: [1] };
  if (/--checkpoint|--budget|^mutants/.test(example)) return { codes: [130, 0, 2, 4], stopAfterMs: 300 };
  return { codes: [0] };
}

describe.each(verbs)('the help of %s', (verb) => {
  it('has examples, each of which runs', async () => {
    const examples = await examplesOf(verb);
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples.filter((it) => !IN_DOCUMENTS.includes(it))) {
      const { codes, stopAfterMs } = expectedOf(example);
      const signal = stopAfterMs === undefined ? new AbortController().signal : AbortSignal.timeout(stopAfterMs);
      const ran = await lockstep(quick(example), { cwd: emptyFolder(), env: { LOCKSTEP_REDIS: NO_REDIS }, signal });
      expect(codes, `${example}: ${ran.code} ${ran.stderr}`).toContain(ran.code);
      // A file that is only an example is all that may be wrong with it.
      if (ran.code === 64) expect(ran.stderr).toContain('there is no such file');
    }
  });
});

it('names every verb once', () => {
  expect(new Set(verbs).size).toBe(verbs.length);
  expect(verbs).toEqual(
    expect.arrayContaining([
      'check',
      'replay',
      'explore',
      'sweep',
      'list',
      'mutants',
      'verify',
      'bench',
      'chaos',
      'doctor',
      'completion',
    ]),
  );
});
