import type { HistoryLine } from '../../scenarios/history-line.js';
import { InputError } from '../../scenarios/input-error.js';
import type { Rules } from './rules.js';

/** A time during which a lock says it is held, by the clock of the observer that wrote its lines, µs. */
export interface Hold {
  readonly lock: string;
  readonly resources: readonly string[];
  readonly fromUs: number;
  readonly fromErrorUs: number;
  readonly fromLine: number;
  /** What the same lock held before, if its validity had ended when it was extended. */
  readonly previous: Hold | null;
  /** Not included. */
  untilUs: number;
  untilErrorUs: number;
  untilLine: number;
}

/** Something that a line tells about the lock, and the sentence for it. */
export interface Remark {
  readonly line: number;
  readonly detail: string;
}

type Of<T extends HistoryLine['type']> = Extract<HistoryLine, { readonly type: T }>;

/** One acquisition and what became of it: takes its lines in order, and refuses an order that cannot be. */
export class LockHistory {
  readonly lock: string;
  readonly resources: readonly string[];
  /** In order, and none overlaps another. */
  readonly holds: Hold[] = [];
  /** Claims of more validity than the TTL. */
  readonly overclaims: (Remark & { readonly operation: 'acquire' | 'extend' })[] = [];
  /** Writes outside the holds. */
  readonly strayWrites: (Remark & { readonly resource: string })[] = [];
  private readonly rules: Rules;
  private readonly acquired: Call;
  private phase: 'acquiring' | 'held' | 'releasing' | 'over' = 'acquiring';
  private extension: Call | null = null;
  private lastUs: number;
  private lastLine: number;

  constructor(rules: Rules, call: Of<'acquire'>, line: number) {
    this.rules = rules;
    this.lock = call.lock;
    this.resources = call.resources;
    this.acquired = callOf(call, line);
    this.lastUs = call.atUs;
    this.lastLine = line;
  }

  add(event: HistoryLine, line: number): void {
    if (event.atUs < this.lastUs)
      throw new InputError(
        `line ${line}: it is at ${event.atUs} µs, but line ${this.lastLine} of the same lock is at ${this.lastUs} µs; one observer writes all lines of a lock, in order`,
      );
    this.lastUs = event.atUs;
    this.lastLine = line;
    switch (event.type) {
      case 'acquire':
        throw new InputError(`line ${line}: lock "${this.lock}" was acquired in line ${this.acquired.line} already`);
      case 'write':
        this.onWrite(event, line);
        break;
      case 'extend':
      case 'release':
        this.onCall(event, line);
        break;
      default:
        this.onEnd(event, line);
    }
  }

  /** Nothing else follows. */
  finish(): void {
    if (this.phase === 'acquiring') this.neverKnown();
  }

  private onCall(event: Of<'extend' | 'release'>, line: number): void {
    if (this.phase !== 'held') throw this.unexpected(event, line);
    if (event.type === 'extend') {
      if (this.extension !== null) throw this.unexpected(event, line);
      this.extension = callOf(event, line);
      return;
    }
    this.phase = 'releasing';
    if (this.rules.endsAt === 'call') this.end(event, line);
  }

  private onEnd(event: HistoryLine, line: number): void {
    if (event.type === 'acquired' && this.phase === 'acquiring') {
      this.phase = 'held';
      this.claim('acquire', this.acquired, event, line);
    } else if (event.type === 'failed' && this.phase === 'acquiring') {
      this.phase = 'over';
    } else if (event.type === 'unknown' && this.phase === 'acquiring') {
      this.neverKnown();
    } else if (event.type === 'released' && this.phase === 'releasing') {
      if (this.rules.endsAt === 'answer') this.end(event, line);
      this.phase = 'over';
    } else if (this.extension !== null && (this.phase === 'held' || this.phase === 'releasing')) {
      this.onExtensionEnd(this.extension, event, line);
    } else if (event.type === 'unknown' && this.phase === 'releasing') {
      this.phase = 'over';
    } else {
      throw this.unexpected(event, line);
    }
  }

  private onExtensionEnd(call: Call, event: HistoryLine, line: number): void {
    this.extension = null;
    if (event.type === 'extended') this.claim('extend', call, event, line);
    // What a failed extension leaves is never more than there was.
    else if (event.type === 'not-extended') this.end(event, line, event.validUs);
    else if (event.type !== 'unknown') throw this.unexpected(event, line);
  }

  private claim(operation: 'acquire' | 'extend', call: Call, event: Of<'acquired' | 'extended'>, line: number): void {
    const { atUs, errorUs = 0, validUs } = event;
    // Validity counts from an attempt, which may have begun long after the call.
    const mostUs = call.ttlMs * 1000;
    if (validUs > mostUs) {
      const detail = `lock "${this.lock}" claims ${validUs} µs of validity from a TTL of ${mostUs} µs`;
      this.overclaims.push({ operation, line, detail });
    }
    // The caller gave it back meanwhile.
    if (this.phase === 'releasing') return;
    const last = this.holds.at(-1);
    const end = { untilUs: atUs + validUs, untilErrorUs: errorUs, untilLine: line };
    if (last !== undefined && atUs <= last.untilUs) {
      Object.assign(last, end);
      return;
    }
    const first = this.rules.beginsAt === 'call' && operation === 'acquire' ? call : { atUs, errorUs, line };
    const { lock, resources } = this;
    this.holds.push({
      lock,
      resources,
      fromUs: first.atUs,
      fromErrorUs: first.errorUs,
      fromLine: first.line,
      previous: last ?? null,
      ...end,
    });
  }

  /** The hold ends `inUs` after this line, if it lasts so long. */
  private end({ atUs, errorUs = 0 }: HistoryLine, line: number, inUs = 0): void {
    const last = this.holds.at(-1);
    if (last === undefined || atUs + inUs >= last.untilUs) return;
    last.untilUs = atUs + inUs;
    last.untilErrorUs = errorUs;
    last.untilLine = line;
  }

  private neverKnown(): void {
    this.phase = 'over';
    if (!this.rules.unknownHolds) return;
    const { lock, resources } = this;
    const { atUs, errorUs, line, ttlMs } = this.acquired;
    const from = { fromUs: atUs, fromErrorUs: errorUs, fromLine: line, previous: null };
    const until = { untilUs: atUs + ttlMs * 1000, untilErrorUs: errorUs, untilLine: line };
    this.holds.push({ lock, resources, ...from, ...until });
  }

  private onWrite({ resource, atUs }: Of<'write'>, line: number): void {
    if (!this.resources.includes(resource))
      throw new InputError(`line ${line}: lock "${this.lock}" is not on ${JSON.stringify(resource)}`);
    const hold = this.holds.at(-1);
    if (hold !== undefined && atUs >= hold.fromUs && atUs < hold.untilUs) return;
    const detail = `lock "${this.lock}" writes to ${resource} at ${atUs} µs, when nobody can say that it is held`;
    this.strayWrites.push({ resource, line, detail });
  }

  private unexpected({ type }: HistoryLine, line: number): InputError {
    const phase = { acquiring: 'being acquired', held: 'held', releasing: 'being released', over: 'over' }[this.phase];
    return new InputError(`line ${line}: "${type}" makes no sense for lock "${this.lock}", which is ${phase}`);
  }
}

/** A call that waits for its end. */
interface Call {
  readonly line: number;
  readonly atUs: number;
  readonly errorUs: number;
  readonly ttlMs: number;
}

function callOf({ atUs, errorUs = 0, ttlMs }: Of<'acquire'> | Of<'extend'>, line: number): Call {
  return { line, atUs, errorUs, ttlMs };
}
