import { type EventClass, eventClasses, prolongs } from './event-classes.js';
import { type Contention, retryUs } from './hold.js';
import type { RiskModel } from './model.js';

/** Events that are more frequent than this for one hold are drawn in every run; rarer ones are asked for by their number. */
const FREQUENT = 0.2;

/** Holds that are alike: of one length, wanted by others or not, with the events that may happen to them. */
export interface Part {
  readonly key: string;
  readonly holdUs: number;
  readonly contention: Contention;
  /** Holds a year. */
  readonly perYear: number;
  /** Rare events, the most frequent first. */
  readonly rare: readonly EventClass[];
  readonly frequent: readonly EventClass[];
}

/** Holds of a part to which exactly these rare events happen. */
export interface Stratum {
  readonly key: string;
  readonly part: Part;
  readonly events: readonly EventClass[];
  /** How many such holds there are a year. */
  readonly perYear: number;
}

/** All parts of a model; their holds add up to those of a year. */
export function partsOf(model: RiskModel): Part[] {
  return model.holds.flatMap(({ us, share }, i) => {
    const classes = eventClasses(model, us);
    const rare = classes.filter(({ mean }) => mean <= FREQUENT).sort((a, b) => b.mean - a.mean);
    const frequent = classes.filter(({ mean }) => mean > FREQUENT);
    return contentions(model).flatMap(([contention, of]): Part[] => {
      const perYear = model.locksPerYear * share * of;
      return perYear === 0 ? [] : [{ key: `${i}.${contention}`, holdUs: us, contention, perYear, rare, frequent }];
    });
  });
}

/** How often others want the lock, and so closely that they share the votes. */
function contentions(model: RiskModel): [Contention, number][] {
  const { contended, rivals, delayUs } = model;
  const close = Math.min(1, (2 * delayUs[1] * rivals) / retryUs(model));
  return [
    ['alone', 1 - contended],
    ['apart', contended * (1 - close)],
    ['close', contended * close],
  ];
}

function sum(classes: readonly EventClass[]): number {
  return classes.reduce((total, { mean }) => total + mean, 0);
}

/** What is planned to be over cannot be broken: an event after the end of a hold needs one that makes it late. */
function matters(events: readonly EventClass[], { frequent }: Part): boolean {
  return events.every(({ window }) => window !== 'after') || [...events, ...frequent].some(prolongs);
}

/** Holds a year with events after their end, and nothing that makes them late: they need no run. */
export function overPerYear(parts: readonly Part[]): number {
  return parts.reduce((total, part) => {
    if (part.frequent.some(prolongs)) return total;
    const late = sum(part.rare.filter(prolongs));
    const after = sum(part.rare.filter(({ window }) => window === 'after'));
    return total + part.perYear * Math.exp(-late) * -Math.expm1(-after);
  }, 0);
}

/** All strata with at least `least` holds a year, those without any rare event in any case. */
export function strataFrom(parts: readonly Part[], least: number): Stratum[] {
  const found: Stratum[] = [];
  for (const part of parts) {
    const { rare } = part;
    const extend = (events: readonly EventClass[], from: number, perYear: number, again: number): void => {
      if (matters(events, part)) found.push({ key: keyOf(part, events), part, events, perYear });
      for (let i = from; i < rare.length; i++) {
        const next = rare[i];
        if (next === undefined) continue;
        const count = i === from ? again + 1 : 1;
        const weight = (perYear * next.mean) / count;
        // Later ones are rarer still; only the one that is there already is divided by its number.
        if (weight < least) {
          if (count === 1) break;
          continue;
        }
        extend([...events, next], i, weight, count);
      }
    };
    extend([], 0, part.perYear * Math.exp(-sum(rare)), 0);
  }
  return found;
}

function keyOf(part: Part, events: readonly EventClass[]): string {
  return [part.key, ...events.map(({ key }) => key)].join(' ');
}
