import { parseDuration } from '../scenarios/duration.js';
import { InputError, show } from '../scenarios/input-error.js';
import { integer, percent } from '../scenarios/mitigation-values.js';
import { named } from '../scenarios/named.js';
import { meant } from '../scenarios/nearest.js';
import { type BoundId, type FaultModel, NO_FAULTS, NO_STRETCH } from './fault-model.js';

/** What a search has a limit of: the numbers of a fault model. */
type Limit = {
  [Field in keyof FaultModel]-?: FaultModel[Field] extends number | null ? Field : never;
}[keyof FaultModel];

/** A kind of faults, as `--faults` names it. */
type FaultKind =
  | 'crash'
  | 'power-loss'
  | 'pause'
  | 'suspend'
  | 'client-crash'
  | 'partition'
  | 'failover'
  | 'data-loss'
  | 'error-replies'
  | 'wall-step'
  | 'replica-lag'
  | 'clock-step'
  | 'clock-drift'
  | 'late'
  | 'loss'
  | 'duplicate'
  | 'delay';

interface Kind {
  readonly parse: (text: string) => number;
  /** The amount where only the name is given. */
  readonly usual: string;
  readonly limit: Limit | null;
  /** The assumption that it stresses. */
  readonly bound: BoundId | null;
}

const MOST_FAULTS = 100;
const count = (text: string): number => integer(text, 0, MOST_FAULTS);

function counted(limit: Limit, bound: BoundId | null = null): Kind {
  return { parse: count, usual: '1', limit, bound };
}

function share(limit: Limit): Kind {
  return { parse: percent, usual: '2%', limit, bound: null };
}

/** Kinds of faults that `--faults` knows. */
const KINDS: Readonly<Record<FaultKind, Kind>> = {
  crash: counted('crashes', 'restart-delay'),
  'power-loss': counted('powerLosses', 'restart-delay'),
  pause: counted('pauses'),
  suspend: counted('suspends'),
  'client-crash': counted('clientCrashes'),
  partition: counted('partitions'),
  failover: counted('failovers'),
  'data-loss': counted('flushes', 'data-loss'),
  'error-replies': counted('refusals'),
  'wall-step': counted('wallSteps'),
  'replica-lag': { parse: parseDuration, usual: '100ms', limit: 'replicaLagUs', bound: null },
  'clock-step': { parse: parseDuration, usual: '50ms', limit: 'stepUs', bound: 'clock-step' },
  'clock-drift': { parse: percent, usual: '1%', limit: 'ratePpm', bound: 'clock-drift' },
  late: { parse: percent, usual: '100%', limit: null, bound: 'write-delay' },
  loss: share('lossPpm'),
  duplicate: share('duplicatePpm'),
  delay: share('spikePpm'),
};

const NAMES = Object.keys(KINDS) as FaultKind[];

/** Amounts of faults: how many a run, µs, or parts per million. */
export type FaultAmounts = Readonly<Partial<Record<FaultKind, number>>>;

/** Which faults there are to be: only these, or what a search has by default with more of some and without others. */
export type FaultChoice =
  | { readonly only: FaultAmounts }
  | { readonly more: FaultAmounts; readonly less: readonly FaultKind[] };

/**
 * Reads `crash=1,clock-step=50ms`: only these; `none`: none at all; `+crash=1,-suspend`: what there is by default, changed.
 *
 * @throws InputError if a fault is unknown, is named twice or has a wrong amount, or if both forms are mixed.
 */
export function faultChoice(text: string): FaultChoice {
  if (text.trim() === 'none') return { only: {} };
  const parts = text.split(',').map(partOf);
  const twice = parts.find(({ kind }, i) => parts.findIndex((other) => other.kind === kind) !== i);
  if (twice !== undefined) throw new InputError(`${show(twice.kind)} is named twice; name each fault once`);
  const of = (sign: Part['sign']): readonly Part[] => parts.filter((part) => part.sign === sign);
  const amounts = (some: readonly Part[]): FaultAmounts =>
    Object.fromEntries(some.map(({ kind, amount }) => [kind, amount]));
  const [only, more, less] = [of(''), of('+'), of('-')];
  if (only.length === 0) return { more: amounts(more), less: less.map(({ kind }) => kind) };
  const [changed] = [...more, ...less];
  if (changed === undefined) return { only: amounts(only) };
  throw new InputError(
    `"${changed.sign}${changed.kind}" changes the default, which others here replace; write + or - before all of them, or before none`,
  );
}

interface Part {
  readonly sign: '' | '+' | '-';
  readonly kind: FaultKind;
  readonly amount: number;
}

function partOf(text: string): Part {
  const [, sign = '', name = '', amount] = /^\s*([+-]?)\s*([^=]*?)\s*(?:=\s*(.*?)\s*)?$/.exec(text) ?? [];
  if (name === 'none') throw new InputError('"none" leaves no other fault; leave it out, or the others');
  const kind = NAMES.find((it) => it === name);
  if (kind === undefined) throw new InputError(`${show(name)} is not a fault; ${meant(name, NAMES, 'there are')}`);
  if (sign === '-') {
    if (amount === undefined) return { sign, kind, amount: 0 };
    throw new InputError(`"-${kind}" takes all of it; leave out the amount`);
  }
  const { parse, usual } = KINDS[kind];
  return { sign: sign === '+' ? '+' : '', kind, amount: named(kind, parse)(amount ?? usual) };
}

/** A search with these faults. */
export function withFaults(faultModel: FaultModel, choice: FaultChoice): FaultModel {
  if ('only' in choice) {
    const { distances } = faultModel;
    const bare = { ...faultModel, ...NO_FAULTS, distances, stretch: NO_STRETCH };
    return added({ ...bare, restartDelayUs: null, stepUs: null, ratePpm: null }, choice.only);
  }
  return choice.less.reduce(without, added(faultModel, choice.more));
}

function added(faultModel: FaultModel, amounts: FaultAmounts): FaultModel {
  let with_ = faultModel;
  for (const kind of NAMES) {
    const amount = amounts[kind] ?? 0;
    if (amount > 0) with_ = more(with_, kind, amount);
  }
  return with_;
}

const MILLION = 1_000_000;

function more(faultModel: FaultModel, kind: FaultKind, amount: number): FaultModel {
  const { limit, bound, parse } = KINDS[kind];
  if (limit === null) return stretchedBy(faultModel, bound, amount / MILLION);
  const sum = (faultModel[limit] ?? 0) + amount;
  if (parse === percent && sum > MILLION)
    throw new InputError(`--faults: "+${kind}" and what there is by default are more than 100 %; add less`);
  const isDown = kind === 'crash' || kind === 'power-loss';
  const mostDown = isDown && faultModel.mostDown !== null ? faultModel.mostDown + amount : faultModel.mostDown;
  // Flushed nodes forget whatever a claim has votes to spare.
  return stretchedBy({ ...faultModel, [limit]: sum, mostDown }, kind === 'data-loss' ? null : bound, 1);
}

function without(faultModel: FaultModel, kind: FaultKind): FaultModel {
  const { limit, bound } = KINDS[kind];
  const isOwnBound = limit === 'stepUs' || limit === 'ratePpm';
  const rest: FaultModel = limit === null ? faultModel : { ...faultModel, [limit]: isOwnBound ? null : 0 };
  // Nodes restart as long as they go down in any way.
  return bound === 'restart-delay' && rest.crashes + rest.powerLosses > 0 ? rest : stretchedBy(rest, bound, 0);
}

function stretchedBy(faultModel: FaultModel, bound: BoundId | null, factor: number): FaultModel {
  return bound === null ? faultModel : { ...faultModel, stretch: { ...faultModel.stretch, [bound]: factor } };
}
