import { logBetween, poisson, unit } from '../../advise/risk/draws.js';
import { CALL_US, consequence, type DrawnEvent, lasts, prolongs, windowsOf } from '../../advise/risk/event-classes.js';
import { drawHold, HoldRunner, retryUs } from '../../advise/risk/hold.js';
import { CAUSE_NAMES, type CauseName, type RiskModel, subjectsOf, YEAR_US } from '../../advise/risk/model.js';
import { type RandomStream, RandomStreams } from '../../sim/index.js';

/** What brute force saw. */
export interface BruteForce {
  readonly years: number;
  readonly holds: number;
  /** Holds that an event touched, which the engine ran. */
  readonly run: number;
  readonly violated: number;
}

/**
 * Lives through years, event by event: each cause strikes each process at times that are drawn over the whole length, and
 * each hold that one of them touches is run. Nothing is conditioned, weighed or sorted. Holds come at even distances; what
 * nothing touches is not run.
 */
export function bruteForce(model: RiskModel, years: number, seed: string): BruteForce {
  const streams = new RandomStreams(seed);
  const [hold] = model.holds;
  if (hold === undefined || model.holds.length > 1) throw new RangeError('one length of holds was expected');
  const windows = windowsOf(model, hold.us);
  const runner = new HoldRunner(model);
  const touched = new Map<number, Touch[]>();
  const everyUs = YEAR_US / model.locksPerYear;
  for (const [i, cause] of CAUSE_NAMES.entries())
    for (const touch of strikes({ model, cause, years, everyUs, heldUs: spanOf(cause, windows) }, streams.stream(0, i)))
      touched.set(touch.hold, [...(touched.get(touch.hold) ?? []), touch]);
  let violated = 0;
  for (const [number, touches] of touched) {
    const stream = streams.stream(number, 1_000);
    const events = touches.map((it) => eventOf(model, it, stream));
    const draw = drawHold(model, contention(model, stream), hold.us, stream);
    if (runner.run(draw, events).violated) violated++;
  }
  return { years, holds: years * model.locksPerYear, run: touched.size, violated };
}

/** The same in which every hold is run, touched or not: for few holds. */
export function bruteForceOfHolds(model: RiskModel, holds: number, seed: string): BruteForce {
  const streams = new RandomStreams(seed);
  const [hold] = model.holds;
  if (hold === undefined || model.holds.length > 1) throw new RangeError('one length of holds was expected');
  const windows = windowsOf(model, hold.us);
  const runner = new HoldRunner(model);
  let violated = 0;
  for (let number = 0; number < holds; number++) {
    const stream = streams.stream(number, 0);
    const events = CAUSE_NAMES.flatMap((cause) => {
      const spanUs = spanOf(cause, windows);
      const rate = model.rates[cause];
      if (rate === undefined) return [];
      const count = poisson((rate.perYear * subjectsOf(model, cause) * spanUs) / YEAR_US, stream);
      return Array.from({ length: count }, () => {
        const node = Math.floor(unit(stream) * subjectsOf(model, cause));
        return eventOf(
          model,
          { hold: number, cause, sinceUs: unit(stream) * spanUs, sizeUs: sizeOf(model, cause, stream), node },
          stream,
        );
      });
    });
    const draw = drawHold(model, contention(model, stream), hold.us, stream);
    if (runner.run(draw, events).violated) violated++;
  }
  return { years: holds / model.locksPerYear, holds, run: holds, violated };
}

/** For how long after its call a cause may touch a hold; a pause that begins after its end does not. */
function spanOf(cause: CauseName, { held, after }: ReturnType<typeof windowsOf>): number {
  return prolongs({ cause }) ? held : held + after;
}

interface Touch {
  readonly hold: number;
  readonly cause: CauseName;
  /** From the call of the hold to the event; below 0 if it began before. */
  readonly sinceUs: number;
  readonly sizeUs: number;
  readonly node: number;
}

interface Life {
  readonly model: RiskModel;
  readonly cause: CauseName;
  readonly years: number;
  readonly everyUs: number;
  readonly heldUs: number;
}

/** All events of a cause that touch a hold. */
function strikes({ model, cause, years, everyUs, heldUs }: Life, stream: RandomStream): Touch[] {
  const rate = model.rates[cause];
  if (rate === undefined) return [];
  const found: Touch[] = [];
  for (let node = 0; node < subjectsOf(model, cause); node++) {
    let at = 0;
    for (;;) {
      at -= (Math.log(unit(stream)) * YEAR_US) / rate.perYear;
      if (at >= years * YEAR_US) break;
      const sizeUs = sizeOf(model, cause, stream);
      const hold = Math.floor(at / everyUs);
      const sinceUs = at - hold * everyUs;
      if (sinceUs < heldUs) found.push({ hold, cause, sinceUs, sizeUs, node });
      // It goes on into the next hold.
      if (lasts(cause) && sinceUs + sizeUs >= everyUs)
        found.push({ hold: hold + 1, cause, sinceUs: sinceUs - everyUs, sizeUs, node });
    }
  }
  return found;
}

function sizeOf(model: RiskModel, cause: CauseName, stream: RandomStream): number {
  const bins = model.rates[cause]?.bins ?? [];
  let left = unit(stream);
  const bin = bins.find(({ share }) => {
    left -= share;
    return left <= 0;
  });
  return logBetween(bin ?? bins.at(-1) ?? { from: 1, to: 1, share: 1 }, stream);
}

function eventOf(model: RiskModel, { cause, sinceUs, sizeUs, node }: Touch, stream: RandomStream): DrawnEvent {
  const isUnderWay = sinceUs < 0;
  const atUs = isUnderWay ? 0 : Math.floor(CALL_US + sinceUs);
  const size = isUnderWay ? Math.max(1, Math.round(CALL_US + sinceUs + sizeUs)) : sizeUs;
  return {
    cause,
    window: isUnderWay ? 'before' : 'held',
    ...consequence({ model, cause, atUs, size, isUnderWay, node, stream }),
  };
}

function contention(model: RiskModel, stream: RandomStream): 'alone' | 'apart' | 'close' {
  if (unit(stream) >= model.contended) return 'alone';
  return unit(stream) * retryUs(model) < 2 * model.delayUs[1] * model.rivals ? 'close' : 'apart';
}
