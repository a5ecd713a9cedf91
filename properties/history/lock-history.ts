import type { FencingToken } from '../../core/index.js';
import type { CrashedLine, LockLine } from '../../scenarios/history-line.js';
import { InputError } from '../../scenarios/input-error.js';
import type { Rules } from './rules.js';
import { shownName, shownResource } from './shown.js';

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
interface Remark {
  readonly line: number;
  readonly detail: string;
}

/** A fencing token, with the times by which others can be certain of their order; µs, clock errors included. */
export interface Issue {
  readonly lock: string;
  readonly token: FencingToken;
  /** Of the line that tells it. */
  readonly line: number;
  /** The lock was asked for then at the earliest. */
  readonly calledUs: number;
  /** It was acquired between these. */
  readonly acquiredUs: { readonly earliest: number; readonly latest: number };
  /** Its owner counts on it until then at the latest. */
  readonly overUs: number;
}

type Of<T extends LockLine['type']> = Extract<LockLine, { readonly type: T }>;

/** A crash of a client, with its line. */
export interface Death {
  readonly event: CrashedLine;
  readonly line: number;
}

/** One acquisition and what became of it: takes its lines in order, and refuses an end that belongs to no call. */
export class LockHistory {
  readonly lock: string;
  readonly client: string;
  readonly resources: readonly string[];
  /** In order, and none overlaps another. */
  readonly holds: Hold[] = [];
  /** Claims of nothing, or of more validity than the TTL. */
  readonly wrongClaims: (Remark & { readonly operation: 'acquire' | 'extend' })[] = [];
  private readonly rules: Rules;
  private readonly acquired: Call;
  /** Calls whose end is not known yet. */
  private acquiring = true;
  private extending = 0;
  private releasing = 0;
  /** Extensions that may have been carried out: in flight, or of unknown outcome. */
  private uncertain: Call[] = [];
  private lastRelease: Call | null = null;
  private lastClaim: Claim | null = null;
  private issued: Omit<Issue, 'overUs'> | null = null;
  /** The end of the last belief at the latest, by the clock of the observer. */
  private overUs = 0;
  private readonly writes: { readonly event: Of<'write'>; readonly line: number }[] = [];
  private crash: { readonly atUs: number; readonly errorUs: number } | null = null;
  /** The last line that its client itself wrote. */
  private last: { readonly atUs: number; readonly errorUs: number; readonly line: number };
  private mostErrorUs: number;
  private lastUs: number;
  private lastLine: number;

  constructor(rules: Rules, call: Of<'acquire'>, line: number) {
    this.rules = rules;
    this.lock = call.lock;
    this.client = call.client;
    this.resources = call.resources;
    this.acquired = callOf(call, line);
    this.last = this.acquired;
    this.mostErrorUs = this.acquired.errorUs;
    this.lastUs = call.atUs;
    this.lastLine = line;
  }

  add(event: LockLine, line: number): void {
    if (event.atUs < this.lastUs)
      throw new InputError(
        `line ${line}: it is at ${event.atUs} µs, but line ${this.lastLine} of the same lock is at ${this.lastUs} µs; one observer writes all lines of a lock, in order`,
      );
    this.lastUs = event.atUs;
    this.lastLine = line;
    this.mostErrorUs = Math.max(this.mostErrorUs, event.errorUs ?? 0);
    if (event.type !== 'write') this.last = { atUs: event.atUs, errorUs: event.errorUs ?? 0, line };
    switch (event.type) {
      case 'acquire':
        throw new InputError(
          `line ${line}: lock ${shownName(this.lock)} was acquired in line ${this.acquired.line} already`,
        );
      case 'write':
        this.onWrite(event, line);
        break;
      case 'extend':
        this.onExtend(callOf(event, line));
        break;
      case 'release':
        this.onRelease(event, line);
        break;
      default:
        if (!this.isAwaited(event.type)) throw this.unexpected(event, line);
        this.onEnd(event, line);
    }
  }

  /** Nothing else follows. `crashes` are those of its client, in the order of their times. */
  finish(crashes: readonly Death[]): void {
    if (this.acquiring && this.rules.unknownHolds) this.holdUnknown();
    const crash = this.rules.heedsCrashes ? crashes.find((it) => this.isItsOwn(it)) : undefined;
    if (crash !== undefined) this.dies(crash);
  }

  /** Whether a crash may be that of the process which asked for this lock, and not of an earlier one with its name. */
  private isItsOwn({ event: { atUs, errorUs = 0 }, line }: Death): boolean {
    const { acquired, last } = this;
    if (acquired.atUs - acquired.errorUs > atUs + errorUs) return false;
    if (last.atUs - last.errorUs <= atUs + errorUs) return true;
    // It lived on, so it was asked for after the crash, if it can have been.
    if (acquired.atUs + acquired.errorUs >= atUs - errorUs) return false;
    throw new InputError(
      `line ${last.line}: client ${shownName(this.client)} had crashed by then, as line ${line} says; only a write may come later`,
    );
  }

  /** The fencing token that its owner was told of. */
  get issue(): Issue | null {
    const { issued, crash } = this;
    if (issued === null) return null;
    const overUs = this.overUs + this.mostErrorUs;
    const endUs = crash === null ? overUs : Math.min(overUs, crash.atUs + crash.errorUs);
    return { ...issued, overUs: Math.max(endUs, issued.acquiredUs.latest) };
  }

  /** Writes outside the holds. */
  get strayWrites(): (Remark & { readonly resource: string })[] {
    const stray = this.writes.filter(
      ({ event }) => !this.holds.some(({ fromUs, untilUs }) => fromUs <= event.atUs && event.atUs < untilUs),
    );
    return stray.map(({ event: { resource, atUs }, line }) => {
      const detail = `lock ${shownName(this.lock)} writes to ${shownResource(resource)} at ${atUs} µs, when nobody can say that it is held`;
      return { resource, line, detail };
    });
  }

  /** Whether a call waits for an end of this type. */
  private isAwaited(type: LockLine['type']): boolean {
    switch (type) {
      case 'acquired':
      case 'failed':
        return this.acquiring;
      case 'extended':
      case 'not-extended':
        return this.extending > 0;
      case 'released':
        return this.releasing > 0;
      default:
        return this.acquiring || this.extending + this.releasing > 0;
    }
  }

  private onExtend(call: Call): void {
    this.extending++;
    this.uncertain.push(call);
    this.overUs = Math.max(this.overUs, call.atUs + call.ttlMs * 1000);
    this.capBy(call);
  }

  private onRelease(event: Of<'release'>, line: number): void {
    this.releasing++;
    this.lastRelease = { line, atUs: event.atUs, errorUs: event.errorUs ?? 0, ttlMs: 0 };
    this.overUs = Math.min(this.overUs, event.atUs);
    if (this.rules.endsAt === 'call') this.shorten(event.atUs, event, line);
    if (this.rules.endsAt === 'call') this.lastClaim = null;
  }

  private onEnd(event: LockLine, line: number): void {
    switch (event.type) {
      case 'acquired':
        this.acquiring = false;
        this.onAcquired(event, line);
        break;
      case 'failed':
        this.acquiring = false;
        break;
      case 'extended':
      case 'not-extended':
        this.onExtensionEnd(event, line);
        break;
      case 'released':
        this.releasing--;
        if (this.rules.endsAt === 'answer') this.shorten(event.atUs, event, line);
        break;
      default:
        // What was asked for last is what nobody knows the end of; what an extension has done stays uncertain.
        if (this.extending > 0) this.extending--;
        else if (this.releasing > 0) this.releasing--;
    }
  }

  private onAcquired(event: Of<'acquired'>, line: number): void {
    const { atUs, errorUs = 0, fencingToken } = event;
    const acquiredUs = { earliest: atUs - errorUs, latest: atUs + errorUs };
    const calledUs = this.acquired.atUs - this.acquired.errorUs;
    if (fencingToken !== undefined) this.issued = { lock: this.lock, token: fencingToken, line, calledUs, acquiredUs };
    // Else its owner has given it back meanwhile.
    if (this.isWrong('acquire', event, this.acquired.ttlMs, line) || this.lastRelease !== null) return;
    this.claim({ event, line, ttlMs: this.acquired.ttlMs }, this.rules.beginsAt === 'call' ? this.acquired : null);
  }

  private onExtensionEnd(event: Of<'extended'> | Of<'not-extended'>, line: number): void {
    const calls = this.uncertain;
    this.extending--;
    // Ends do not say whose they are: as long as others are in flight, each may be that of any call.
    if (this.extending === 0) this.uncertain = [];
    if (event.type === 'not-extended') {
      this.keep(event, line);
    } else {
      const ttlMs = Math.max(...calls.map((call) => call.ttlMs));
      const isBack = calls.some((call) => this.lastRelease !== null && call.line < this.lastRelease.line);
      if (!this.isWrong('extend', event, ttlMs, line) && !isBack) this.claim({ event, line, ttlMs }, null);
    }
    for (const call of this.uncertain) this.capBy(call);
  }

  /** A lock is claimed of which nothing is left, or more than there can be. */
  private isWrong(operation: 'acquire' | 'extend', { validUs }: Claimed, ttlMs: number, line: number): boolean {
    // Validity counts from an attempt, which may have begun long after the call.
    const mostUs = ttlMs * 1000;
    if (validUs > mostUs) {
      const detail = `lock ${shownName(this.lock)} claims ${validUs} µs of validity from a TTL of ${mostUs} µs`;
      this.wrongClaims.push({ operation, line, detail });
    }
    if (validUs > 0 || !this.rules.nothingIsWrong) return false;
    const what = operation === 'acquire' ? 'acquired' : 'extended';
    const detail = `lock ${shownName(this.lock)} is taken for ${what} with nothing left of its validity`;
    this.wrongClaims.push({ operation, line, detail });
    return true;
  }

  /** The lock is held from this line on, or from the call; what was held up to it goes on. */
  private claim(claim: Claim, call: Call | null): void {
    const { atUs, errorUs = 0, validUs } = claim.event;
    this.lastClaim = claim;
    this.overUs = Math.max(this.overUs, atUs + validUs);
    const end = { untilUs: atUs + validUs, untilErrorUs: errorUs, untilLine: claim.line };
    const last = this.holds.at(-1);
    if (last !== undefined && atUs <= last.untilUs) Object.assign(last, end);
    else this.begin(call ?? { atUs, errorUs, line: claim.line }, end, last ?? null);
  }

  private begin(
    { atUs, errorUs, line }: Pick<Call, 'atUs' | 'errorUs' | 'line'>,
    end: Pick<Hold, 'untilUs' | 'untilErrorUs' | 'untilLine'>,
    previous: Hold | null,
  ): void {
    const { lock, resources } = this;
    this.holds.push({ lock, resources, fromUs: atUs, fromErrorUs: errorUs, fromLine: line, previous, ...end });
  }

  /** An extension failed: the lock keeps what its client says is left, which is never more than there was. */
  private keep(event: Of<'not-extended'>, line: number): void {
    const { atUs, errorUs = 0, validUs } = event;
    const claimed = this.lastClaim;
    if (claimed === null) return;
    const untilUs = Math.min(atUs + validUs, claimed.event.atUs + claimed.event.validUs);
    const end = { untilUs, untilErrorUs: errorUs, untilLine: line };
    const last = this.holds.at(-1);
    if (last !== undefined && atUs <= last.untilUs) {
      if (untilUs !== last.untilUs) Object.assign(last, end);
    } else if (untilUs > atUs) this.begin({ atUs, errorUs, line }, end, null);
  }

  /**
   * Who asks for less than there is counts on less from the call on, whatever comes of it: on the new TTL, less what the
   * last claim had lost of its own. That is at least as much as a shorter TTL loses.
   */
  private capBy(call: Call): void {
    if (this.lastClaim === null || !this.rules.capsShorter) return;
    const { event, ttlMs } = this.lastClaim;
    const lostUs = Math.max(0, ttlMs * 1000 - event.validUs);
    this.shorten(call.atUs + Math.max(0, call.ttlMs * 1000 - lostUs), call, call.line);
  }

  /** The hold ends at `atUs`, by a line with this error, if it lasts so long. */
  private shorten(atUs: number, { errorUs = 0 }: { readonly errorUs?: number }, line: number): void {
    const last = this.holds.at(-1);
    if (last === undefined || atUs >= last.untilUs) return;
    last.untilUs = atUs;
    last.untilErrorUs = errorUs;
    last.untilLine = line;
  }

  /** Its client is dead, and holds nothing any more. */
  private dies({ event: { atUs, errorUs = 0 }, line }: Death): void {
    this.crash = { atUs, errorUs };
    for (const hold of this.holds) {
      if (hold.untilUs - hold.untilErrorUs <= atUs - errorUs) continue;
      hold.untilUs = atUs;
      hold.untilErrorUs = errorUs;
      hold.untilLine = line;
    }
  }

  private holdUnknown(): void {
    const { atUs, errorUs, line, ttlMs } = this.acquired;
    this.begin(this.acquired, { untilUs: atUs + ttlMs * 1000, untilErrorUs: errorUs, untilLine: line }, null);
  }

  private onWrite(event: Of<'write'>, line: number): void {
    if (!this.resources.includes(event.resource))
      throw new InputError(`line ${line}: lock ${shownName(this.lock)} is not on ${shownName(event.resource)}`);
    this.writes.push({ event, line });
  }

  private unexpected({ type }: LockLine, line: number): InputError {
    return new InputError(
      `line ${line}: "${type}" makes no sense for lock ${shownName(this.lock)}, of which no call waits for that end`,
    );
  }
}

type Claimed = Of<'acquired'> | Of<'extended'>;

/** What an owner was told last of what it holds. */
interface Claim {
  readonly event: Claimed;
  readonly line: number;
  readonly ttlMs: number;
}

/** A call that was made. */
interface Call {
  readonly line: number;
  readonly atUs: number;
  readonly errorUs: number;
  readonly ttlMs: number;
}

function callOf({ atUs, errorUs = 0, ttlMs }: Of<'acquire'> | Of<'extend'>, line: number): Call {
  return { line, atUs, errorUs, ttlMs };
}
