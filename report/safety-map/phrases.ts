import { formatDurationMs } from '../../scenarios/index.js';
import {
  type BoundaryWitness,
  edgeOf,
  PARAMETERS,
  type ParameterName,
  type SafetyMap,
  type SweepPlan,
} from '../../search/safety-map/index.js';
import { formatCount, formatPercent, plural } from '../../text/format.js';

/** What each parameter is called at its axis. */
export const AXIS_WORDS: Readonly<Record<ParameterName, string>> = {
  ttl: 'TTL',
  drift: 'drift rate of clocks',
  'drift-allowance': 'drift allowance, share of the TTL',
  'fixed-allowance': 'drift allowance besides',
  'restart-delay': 'restart delay of a crashed voter',
  step: "step of a faulty voter's clock",
  latency: 'least one-way latency',
  nodes: 'nodes',
  votes: 'votes behind the holder',
  'faulty-voters': 'faulty voters',
  'nodes-down': 'other nodes that are down',
  'write-delay': 'pause between check and write',
  guard: 'validity asked for in the check',
};

/** A value with its unit: `0.5126 %`, `10 000 ms`, `3`. */
export function valueWords(name: ParameterName, value: number): string {
  switch (PARAMETERS[name].unit) {
    case 'ppm':
      return formatPercent(value);
    case 'µs':
      return `${formatDurationMs(value)} ms`;
    case 'count':
      return formatCount(value);
  }
}

/** A value in a sentence, after `with`: `clocks 0.5126 % wrong`. */
export function phrase(name: ParameterName, value: number): string {
  const words = valueWords(name, value);
  const phrases: Readonly<Record<ParameterName, string>> = {
    ttl: `a TTL of ${words}`,
    drift: value === 0 ? 'right clocks' : `clocks ${words} wrong`,
    'drift-allowance': `a drift allowance of ${words}`,
    'fixed-allowance': `${words} of allowance besides`,
    'restart-delay': `a crashed voter back after ${words}`,
    step: `a clock step of ${words}`,
    latency: value === 0 ? 'messages that take no time' : `messages of ${words}`,
    nodes: plural(value, 'node'),
    votes: plural(value, 'vote'),
    'faulty-voters': plural(value, 'faulty voter'),
    'nodes-down': `${plural(value, 'node')} down`,
    'write-delay': `a pause of ${words}`,
    guard: `a guard of ${words}`,
  };
  return phrases[name];
}

/** The answer to "how much does my configuration tolerate?", in one sentence. */
export function safetyMapSentence(map: SafetyMap): string {
  const { plan, focus } = map;
  const given = `With ${phrase(plan.x.name, focus.at)}`;
  const edge = edgeOf(map);
  if (edge !== null) return `${given}, ${edgeWords(plan, edge)}.`;
  const y = plan.y.name;
  const [first] = focus.boundaries;
  if (first !== undefined) {
    const { below, above } = first;
    return `${given}, the lock is ${below.verdict} up to ${phrase(y, below.at)}, and ${above.verdict} with ${phrase(y, above.at)}.`;
  }
  const [low = 0] = plan.y.values;
  const all = `from ${phrase(y, low)} to ${phrase(y, plan.y.values.at(-1) ?? low)}`;
  return `${given}, the lock is ${focus.measured[0] ?? 'not measured'} all the way ${all}.`;
}

function edgeWords({ y }: SweepPlan, { boundary, property }: BoundaryWitness): string {
  const { below, above } = boundary;
  const harm = property === 'mutual-exclusion' ? 'two clients can hold it at once' : 'a write can come after its claim';
  const [safe, violated] = below.verdict === 'safe' ? [below, above] : [above, below];
  return `the lock is safe with ${phrase(y.name, safe.at)}; with ${phrase(y.name, violated.at)} ${harm}`;
}

/** What the theory says of the same edge, and how many cells it calls alike. */
export function theorySentence(
  { plan }: SafetyMap,
  edge: BoundaryWitness | null,
  agree: number,
  cells: number,
): string {
  const all =
    agree === cells ? `all ${formatCount(cells)} cells` : `${formatCount(agree)} of ${formatCount(cells)} cells`;
  const at = edge?.boundary.computed ?? null;
  const where = at === null ? '' : `puts the edge at ${exactWords(plan.y.name, at)}, and `;
  return `The theory ${where}agrees in ${all}.`;
}

/** With the decimals that show what rounding to whole units took away. */
function exactWords(name: ParameterName, value: number): string {
  switch (PARAMETERS[name].unit) {
    case 'ppm':
      return `${(value / 10_000).toFixed(5)} %`;
    case 'µs':
      return `${(value / 1_000).toFixed(4).replace(/\.?0+$/, '')} ms`;
    case 'count':
      return formatCount(value);
  }
}

/** What is neither swept nor calm, as a person would say it. */
export function settingWords({ x, y, base, profile, persistence = 'none' }: SweepPlan): string {
  const shown: readonly ParameterName[] = ['nodes', 'ttl', 'drift-allowance', 'fixed-allowance', 'drift', 'latency'];
  const rest: readonly ParameterName[] = ['votes', 'restart-delay', 'step', 'nodes-down', 'write-delay', 'guard'];
  const isSwept = (name: ParameterName): boolean => name === x.name || name === y.name;
  const say = (name: ParameterName): string[] => {
    const value = base[name];
    return value === null || isSwept(name) ? [] : [phrase(name, value)];
  };
  const struck = base['restart-delay'] !== null || base.step > 0;
  return [
    ...(profile === undefined ? [] : [`policy ${profile}`]),
    ...(persistence === 'none' ? [] : [`persistence ${persistence}`]),
    ...shown.flatMap(say),
    ...rest.filter((name) => base[name] !== 0).flatMap(say),
    ...(struck ? say('faulty-voters') : []),
  ].join(', ');
}
