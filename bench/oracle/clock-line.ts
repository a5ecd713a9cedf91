const MILLION = 1_000_000;
const EXACT = Number.MAX_SAFE_INTEGER;

/** From this instant and trace event on the clock shows `shown`, and runs at `ratePpm` once it goes on. */
interface Bend {
  readonly fromUs: number;
  /** It is stopped until then; in the past if it does not. */
  readonly restsUntilUs: number;
  readonly seq: number;
  readonly shown: number;
  readonly ratePpm: number;
}

/** A stretch of true time, its end not included, µs. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** What a clock showed over a whole run, as known afterwards. */
export class ClockLine {
  private readonly bends: Bend[];

  constructor(offsetUs: number, ratePpm: number) {
    this.bends = [{ fromUs: 0, restsUntilUs: 0, seq: -1, shown: offsetUs, ratePpm }];
  }

  /** The clock jumped at `atUs`, with trace event `seq`. */
  stepped(atUs: number, seq: number, byUs: number): void {
    const last = this.last();
    this.bends.push({ ...last, fromUs: atUs, seq, shown: reading(last, atUs) + byUs });
  }

  /** The clock runs at another rate from `atUs` on. */
  paced(atUs: number, seq: number, ratePpm: number): void {
    const last = this.last();
    this.bends.push({ ...last, fromUs: atUs, seq, shown: reading(last, atUs), ratePpm });
  }

  /** The clock stops from `atUs` to `untilUs`, or longer if it does so already. */
  stopped(atUs: number, seq: number, untilUs: number): void {
    const last = this.last();
    const restsUntilUs = Math.max(last.restsUntilUs, untilUs);
    this.bends.push({ ...last, fromUs: atUs, seq, shown: reading(last, atUs), restsUntilUs });
  }

  private last(): Bend {
    return this.bends[this.bends.length - 1] as Bend;
  }

  /** What it showed when trace event `seq` happened, at `atUs`. */
  shownAt(atUs: number, seq: number): number {
    const bend = this.bends.findLast((it) => it.seq < seq);
    return reading(bend as Bend, atUs);
  }

  /** The parts of a stretch in which it showed less than `limit`, in order; neighbours are joined. */
  showsLess(limit: number, { from, to }: Span): Span[] {
    const spans: Span[] = [];
    for (const [i, bend] of this.bends.entries()) {
      const begin = Math.max(from, bend.fromUs);
      const end = Math.min(to, this.bends[i + 1]?.fromUs ?? Number.POSITIVE_INFINITY);
      if (begin >= end) continue;
      const until = firstReaching(bend, limit, begin, end);
      if (until > begin) spans.push({ from: begin, to: until });
    }
    return joined(spans);
  }
}

/** Whole µs, rounded down. */
function reading({ fromUs, restsUntilUs, shown, ratePpm }: Bend, atUs: number): number {
  const passed = Math.max(0, atUs - Math.max(fromUs, restsUntilUs));
  const product = passed * ratePpm;
  if (Math.abs(product) < EXACT) return shown + passed + Math.floor(product / MILLION);
  const scaled = BigInt(passed) * BigInt(MILLION + ratePpm);
  const whole = scaled / BigInt(MILLION);
  return shown + Number(whole * BigInt(MILLION) > scaled ? whole - 1n : whole);
}

/** The first instant from `begin` on at which the clock shows `limit` or more, or `end`. By halves: it never runs back. */
function firstReaching(bend: Bend, limit: number, begin: number, end: number): number {
  let [low, high] = [begin, end];
  while (low < high) {
    const middle = low + Math.floor((high - low) / 2);
    if (reading(bend, middle) >= limit) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Spans in order, those that touch or overlap made one. */
export function joined(spans: readonly Span[]): Span[] {
  const all: Span[] = [];
  for (const span of [...spans].sort((a, b) => a.from - b.from)) {
    const last = all[all.length - 1];
    if (last !== undefined && span.from <= last.to) {
      all[all.length - 1] = { from: last.from, to: Math.max(last.to, span.to) };
    } else all.push(span);
  }
  return all;
}
