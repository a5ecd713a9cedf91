import { at, double, integer, option, positive } from '../arguments.js';
import { type Call, type Handler, KEY, type Row } from '../command.js';
import { NEVER } from '../keyspace.js';
import { fail, SYNTAX, WRONG_TYPE } from '../reply.js';
import { SortedSet } from '../sorted-set.js';
import { MemberSet } from '../values.js';
import { withScores } from './sorted-pops.js';

type Operation = 'union' | 'inter' | 'diff';

/** What a command on several sorted sets is by its name. */
interface Form {
  readonly name: string;
  readonly operation: Operation;
  readonly result: 'reply' | 'store' | 'count';
}

/** Members with their scores, and what scores are multiplied with. */
interface Source {
  readonly scores: ReadonlyMap<string, number>;
  weight: number;
}

interface Options {
  scores: boolean;
  limit: number;
  aggregate: 'sum' | 'min' | 'max';
}

function sourceOf(key: string, { keys }: Call): Source {
  const value = keys.find(key)?.value;
  if (value === undefined) return { scores: new Map(), weight: 1 };
  if (value instanceof SortedSet)
    return { scores: new Map(value.all().map(({ member, score }) => [member, score])), weight: 1 };
  if (value instanceof MemberSet) return { scores: new Map(value.list().map((member) => [member, 1])), weight: 1 };
  throw WRONG_TYPE;
}

function aggregateAt(argv: readonly string[], place: number): Options['aggregate'] {
  const word = option(argv, place);
  if (word === 'sum' || word === 'min' || word === 'max') return word;
  throw SYNTAX;
}

/** Reads the options from a place on; weights go to their sources. */
function optionsOf(argv: readonly string[], from: number, form: Form, sources: readonly Source[]): Options {
  const options: Options = { scores: false, limit: 0, aggregate: 'sum' };
  const weighs = form.operation !== 'diff' && form.result !== 'count';
  for (let i = from; i < argv.length; i++) {
    const word = option(argv, i);
    const left = argv.length - i;
    if (weighs && word === 'weights' && left > sources.length) {
      for (const source of sources) source.weight = double(at(argv, ++i), fail('weight value is not a float'));
    } else if (weighs && word === 'aggregate' && left >= 2) options.aggregate = aggregateAt(argv, ++i);
    else if (form.result === 'reply' && word === 'withscores') options.scores = true;
    else if (form.result === 'count' && word === 'limit' && left >= 2)
      options.limit = positive(at(argv, ++i), fail("LIMIT can't be negative"));
    else throw SYNTAX;
  }
  return options;
}

const numberOr0 = (value: number): number => (Number.isNaN(value) ? 0 : value);

const AGGREGATES: Readonly<Record<Options['aggregate'], (a: number, b: number) => number>> = {
  sum: (a, b) => numberOr0(a + b),
  min: (a, b) => (b < a ? b : a),
  max: (a, b) => (b > a ? b : a),
};

function combine(operation: Operation, sources: readonly Source[], aggregate: Options['aggregate']): SortedSet {
  const result = new SortedSet();
  result.large = true;
  const join = AGGREGATES[aggregate];
  if (operation === 'diff') {
    const [first, ...others] = sources;
    for (const [member, score] of first?.scores ?? [])
      if (!others.some(({ scores }) => scores.has(member))) result.set(member, score);
    return result;
  }
  const bySize = [...sources].sort((a, b) => a.scores.size - b.scores.size);
  const members = new Set(bySize.flatMap(({ scores }) => [...scores.keys()]));
  for (const member of members) {
    const values = bySize.flatMap(({ scores, weight }) => {
      const score = scores.get(member);
      return score === undefined ? [] : [numberOr0(score * weight)];
    });
    if (operation === 'inter' && values.length < sources.length) continue;
    result.set(
      member,
      values.reduce((a, b) => join(a, b)),
    );
  }
  return result;
}

const operate =
  (form: Form): Handler =>
  (argv, call) => {
    const { name, operation, result } = form;
    const from = result === 'store' ? 2 : 1;
    const count = integer(at(argv, from));
    if (count < 1) throw fail(`at least 1 input key is needed for '${name}' command`);
    if (count > argv.length - from - 1) throw SYNTAX;
    const sources = argv.slice(from + 1, from + 1 + count).map((key) => sourceOf(key, call));
    const { aggregate, scores, limit } = optionsOf(argv, from + 1 + count, form, sources);
    const combined = combine(operation, sources, aggregate);
    if (result === 'count') return limit === 0 ? combined.size : Math.min(limit, combined.size);
    if (result === 'reply') {
      const all = combined.all();
      return scores ? withScores(all, call.session.protocol === 3) : all.map(({ member }) => member);
    }
    const target = at(argv, 1);
    if (combined.size === 0) {
      if (call.keys.find(target) !== undefined) call.keys.remove(target);
      return 0;
    }
    const { limits } = call.instance;
    combined.settle(limits.zsetEntries, limits.zsetValue);
    call.keys.store(target, combined, NEVER);
    return combined.size;
  };

function row(name: string, operation: Operation, result: Form['result']): Row {
  const handler = operate({ name, operation, result });
  return result === 'store' ? [-4, 'wm', handler, KEY] : [-3, 'r', handler];
}

/** Commands on several sorted sets, or sets, at once. */
export const SORTED_STORE: Readonly<Record<string, Row>> = {
  zdiff: row('zdiff', 'diff', 'reply'),
  zdiffstore: row('zdiffstore', 'diff', 'store'),
  zinter: row('zinter', 'inter', 'reply'),
  zintercard: row('zintercard', 'inter', 'count'),
  zinterstore: row('zinterstore', 'inter', 'store'),
  zunion: row('zunion', 'union', 'reply'),
  zunionstore: row('zunionstore', 'union', 'store'),
};
