import { serve } from '../../../wire/index.js';
import { reasonFor } from './left-out.js';
import { nameOf, type Outcome, runUnit, type UnitOutcome } from './suite.js';
import { WatchedServer } from './watched.js';

/** What a test of the suite says of a simulated server. */
export interface Verdict {
  readonly name: string;
  readonly kind: 'agrees' | 'differs' | 'does not apply';
  /** How it differs, or why it does not apply. */
  readonly why: string;
}

const BY_THE_SUITE = 'the suite leaves it out against a server that it did not start';
const NOT_BY_REDIS = 'a redis-server that the suite did not start fails it as well';

/** What of a run on a simulated server is not as on the real one, with the reason where it does not apply. */
async function runSimulated(checkout: string, unit: string, skipped: readonly string[]) {
  const server = await WatchedServer.make();
  await using node = await serve(server);
  const { tests } = await runUnit(checkout, unit, node.port, skipped);
  return { tests, asked: server.asked };
}

function failure(outcome: Outcome | undefined): string {
  const [line = ''] = (outcome?.text ?? 'it was not reached').split('\n');
  return `${outcome?.state ?? 'failed'}: ${line.slice(0, 300)}`;
}

/**
 * Runs a file of the suite on a simulated server, and compares it with how it went on a real one. Where tests fail that
 * should not, it is run once more without those that do not apply: what these leave behind is no fault of the others.
 */
export async function compareUnit(checkout: string, unit: string, expected: UnitOutcome): Promise<Verdict[]> {
  const first = await runSimulated(checkout, unit, []);
  const isSame = (key: string, tests: ReadonlyMap<string, Outcome>): boolean => tests.get(key)?.state === 'passed';
  const passed = [...expected.tests].filter(([, { state }]) => state === 'passed').map(([key]) => key);
  const reasons = new Map<string, string>();
  const judge = (tests: ReadonlyMap<string, Outcome>, asked: WatchedServer['asked']): string[] => {
    const different = passed.filter((key) => !isSame(key, tests));
    for (const key of different) {
      const reason = reasonFor(asked.get(nameOf(key)) ?? []);
      if (reason !== null) reasons.set(key, reason);
    }
    return different.filter((key) => !reasons.has(key));
  };
  let { tests } = first;
  let different = judge(tests, first.asked);
  if (different.length > 0 && reasons.size > 0) {
    const second = await runSimulated(checkout, unit, [...reasons.keys()].map(nameOf));
    tests = new Map([...tests, ...second.tests]);
    different = judge(tests, second.asked);
  }
  return [
    ...[...expected.tests.keys()].map((key): Verdict => {
      const name = nameOf(key);
      if (!passed.includes(key)) return { name, kind: 'does not apply', why: NOT_BY_REDIS };
      const reason = reasons.get(key);
      if (reason !== undefined) return { name, kind: 'does not apply', why: reason };
      if (different.includes(key)) return { name, kind: 'differs', why: failure(tests.get(key)) };
      return { name, kind: 'agrees', why: '' };
    }),
    ...expected.left.map((name): Verdict => ({ name, kind: 'does not apply', why: BY_THE_SUITE })),
  ];
}
