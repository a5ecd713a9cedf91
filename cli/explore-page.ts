import type { Exploration, ExploreScope, LivenessResult } from '../explore/index.js';
import { propertyLabel } from '../report/index.js';
import type { Fact, PassReport } from '../report/pass/index.js';
import { formatCount } from '../text/format.js';
import type { ExploreFlags } from './flags.js';
import type { Io } from './io.js';
import { emptyPass, fearedChanges, writePass } from './pass-page.js';

/** What became of an exploration. */
interface Result {
  readonly result: Exploration | LivenessResult;
  readonly seconds: number;
  readonly interrupted: boolean;
}

/** What was explored, and how it was asked for. */
interface Asked {
  readonly scope: ExploreScope;
  readonly flags: ExploreFlags;
  /** Both in one line. */
  readonly line: string;
}

/** Writes the page for a space in which nothing was violated. @returns Its path; `null` where none was asked for. */
export function writeExplorePass(explored: Result, { scope, flags, line }: Asked, io: Io): string | null {
  if (flags.report === undefined) return null;
  const { result, seconds, interrupted } = explored;
  const { verdict, states, transitions, depth, waiting } = result;
  const isWhole = verdict === 'safe';
  const what = flags.liveness ? 'deadlock freedom' : propertyLabel(flags.property ?? 'mutual-exclusion');
  const report: PassReport = {
    ...emptyPass(io),
    subject: line,
    verdict: isWhole ? 'safe' : interrupted ? 'stopped early' : 'not exhausted',
    tone: isWhole ? 'good' : 'open',
    sentence: isWhole
      ? `Every state that this world can come to was met, and none violates ${what}.`
      : `Nothing violates ${what} so far; ${formatCount(waiting)} states were not looked at.`,
    tried: [
      {
        name: 'states',
        text: `${formatCount(states)}, by ${formatCount(transitions)} transitions, in ${seconds.toFixed(1)} s`,
      },
      { name: 'longest way', text: `${depth} actions` },
      { name: 'in every order', text: line.replace(/^explore [^:]*: /, '') },
    ],
    notTried: notTriedIn(scope),
    changes: fearedChanges(io),
    configuration: Object.entries(scope)
      .filter(([, value]) => typeof value === 'number' || typeof value === 'string')
      .map(([name, value]) => ({ name, text: String(value) })),
    meaning: [
      'This holds for a world of this size and for this model, in which one tick is a millisecond. It is a proof for that world, and none for a larger one; docs/explorer.md says what it does not show.',
    ],
  };
  return writePass(flags.report, report, io);
}

/** Kinds of trouble that a scope has none of, with the flag that adds it. */
function notTriedIn(scope: ExploreScope): Fact[] {
  const kinds: readonly (readonly [amount: number, name: string, flag: string])[] = [
    [scope.crashes, 'crashes of nodes', '--crash 1'],
    [scope.rollbacks, 'nodes that come back with an older dump', '--rollback 1'],
    [scope.drift, 'clocks that run apart', '--drift 1'],
    [scope.losses, 'lost messages', '--loss 1'],
    [scope.pauses, 'frozen clients', '--pause 1'],
    [scope.extensions, 'extensions', '--extensions 1'],
    [scope.forever ? 1 : scope.retries, 'retries', '--retries 1'],
    [scope.releases ? 1 : 0, 'releases', '--releases'],
  ];
  return kinds.flatMap(([amount, name, flag]) => (amount > 0 ? [] : [{ name, text: `add them by ${flag}` }]));
}
