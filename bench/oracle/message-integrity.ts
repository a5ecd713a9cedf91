import { deviates, lockPolicyOf } from '../../deviations/index.js';
import type { TraceEvent } from '../../sim/index.js';
import type { Finding } from './finding.js';
import type { TraceIndex } from './trace-index.js';

/**
 * What no world can do, whatever its locks are like: carry out what was never sent, answer what was not carried out,
 * wake somebody early, expire a key early, show another time than its clocks do, or go back in time. Never violated;
 * if it is, the simulator is wrong, and nothing else that it says can be relied on.
 */
export function messageIntegrity(record: TraceIndex): Finding[] {
  const books = new Books(record);
  return record.events.flatMap((event) => {
    const wrong = books.whatIsWrong(event);
    if (!wrong) return [];
    const { process, atUs } = event;
    return [{ property: 'message-integrity' as const, atUs, untilUs: atUs, resource: '?', clients: [process] }];
  });
}

/** At most so many copies of one message arrive. */
const MOST_COPIES = 2;

class Books {
  private readonly record: TraceIndex;
  private readonly bySeq = new Map<number, TraceEvent>();
  private readonly arrivals = new Map<number, number>();
  /** By client and lock: the deadline it was told last. */
  private readonly deadlines = new Map<string, number>();
  /** By client and lock: when an extension failed last. */
  private readonly refusals = new Map<string, number>();
  /** By node, resource and token: the last tick at which the key may be there. */
  private readonly lastTicks = new Map<string, number>();
  private lastUs = 0;
  private lastSeq = -1;

  constructor(record: TraceIndex) {
    this.record = record;
  }

  whatIsWrong(event: TraceEvent): boolean {
    const { seq, atUs } = event;
    const runsBack = atUs < this.lastUs || seq <= this.lastSeq || atUs > this.record.endUs;
    this.lastUs = atUs;
    this.lastSeq = seq;
    this.bySeq.set(seq, event);
    return runsBack || this.misreads(event) || this.isWrong(event);
  }

  private misreads({ kind, process, atUs, seq, localUs }: TraceEvent): boolean {
    // A clock that changes is noted when it has.
    const changed = kind === 'clock-step' || kind === 'clock-drift' ? 1 : 0;
    return this.record.clock(process).shownAt(atUs, seq + changed) !== localUs;
  }

  private isWrong(event: TraceEvent): boolean {
    const { kind, process, atUs, detail } = event;
    switch (kind) {
      case 'send':
      case 'lost':
        if ('answer' in detail) this.noteRenewal(event);
        return 'answer' in detail && !this.answersAtOnce(event);
      case 'execute':
        return !this.comesOf(event, false);
      case 'reply':
      case 'no-script':
        return !this.comesOf(event, true);
      case 'claim':
      case 'extended':
        this.deadlines.set(`${process} ${detail.lock}`, Number(detail.deadlineUs));
        return false;
      case 'not-extended':
        this.refusals.set(`${process} ${detail.lock}`, atUs);
        return false;
      case 'expired':
        return this.isEarly(event);
      case 'key-set':
      case 'key-lengthened':
        this.noteLife(event);
        return false;
      case 'restart':
        this.forgetLives(process);
        return false;
      case 'key-gone':
        return detail.how === 'expired' && this.ticks(event) < (this.lastTicks.get(keyOf(event)) ?? 0);
      default:
        return false;
    }
  }

  /** Nobody hears of the end of a claim before it, except who gives up where an extension fails. */
  private isEarly({ process, atUs, localUs, detail }: TraceEvent): boolean {
    const lock = `${process} ${detail.lock}`;
    const givesUp = deviates(this.record.setup.policy, 'failure-gives-up') && this.refusals.get(lock) === atUs;
    return !givesUp && localUs < (this.deadlines.get(lock) ?? Number.POSITIVE_INFINITY);
  }

  /** An answer leaves in the instant of an execution of the same command, unless the node waits for others with it. */
  private answersAtOnce(event: TraceEvent): boolean {
    const cause = this.bySeq.get(event.cause);
    return cause?.kind === 'execute' && (cause.atUs === event.atUs || this.waits(event)) && sameCommand(cause, event);
  }

  private waits({ detail }: TraceEvent): boolean {
    const { answers } = this.record.setup.cluster;
    return detail.answer === 'yes' && (answers === 'replicated' || answers === 'durable');
  }

  /** A message that arrives was sent, not after its arrival, and not more copies of it arrive than there can be. */
  private comesOf(event: TraceEvent, answer: boolean): boolean {
    const { cause, atUs } = event;
    const sent = this.bySeq.get(cause);
    const copies = (this.arrivals.get(cause) ?? 0) + 1;
    this.arrivals.set(cause, copies);
    if (sent?.kind !== 'send' || sent.atUs > atUs || copies > MOST_COPIES || !sameCommand(sent, event)) return false;
    return 'answer' in sent.detail === answer && sent.detail.answer === event.detail.answer;
  }

  /** A key that a command has just set or lengthened lives for the TTL of that command, on the clock of its node. */
  private noteLife(event: TraceEvent): void {
    const command = this.bySeq.get(event.cause);
    const key = keyOf(event);
    if (command?.kind !== 'execute') this.lastTicks.delete(key);
    else this.lastTicks.set(key, this.lastTick(event.process, event.atUs, event.seq, command.detail));
  }

  /** A node that lost what was not on its disk has keys as they were before they were lengthened. */
  private forgetLives(process: string): void {
    const { persistence, answers } = this.record.setup.cluster;
    if (persistence === 'always' && answers !== 'executed') return;
    for (const key of this.lastTicks.keys()) if (key.startsWith(`${process} `)) this.lastTicks.delete(key);
  }

  /** A command that sets keys which are its own already gives them a new life, and the trace has no event for it. */
  private noteRenewal({ process, cause, detail }: TraceEvent): void {
    const { client, lock, operation, token, answer } = detail;
    const { policy } = this.record.setup;
    const sets =
      operation === 'acquire'
        ? !deviates(policy, 'own-key-grants')
        : operation === 'extend' && deviates(policy, 'extends-missing', 'extends-present', 'extends-any');
    // The answer may have waited; the life of the keys began when the command was carried out.
    const executed = this.bySeq.get(cause);
    if (!sets || answer !== 'yes' || executed === undefined) return;
    const { atUs, seq } = executed;
    for (const resource of this.record.lockOf(String(client), Number(lock))?.resources ?? []) {
      const key = `${process} ${resource} ${token}`;
      if (this.lastTicks.has(key)) this.lastTicks.set(key, this.lastTick(process, atUs, seq, detail));
    }
  }

  private lastTick(process: string, atUs: number, seq: number, detail: TraceEvent['detail']): number {
    const { cluster, policy } = this.record.setup;
    const { resolutionUs, expiry } = cluster;
    return (
      this.ticks({ process, atUs, seq }) +
      lockPolicyOf(policy).rules.keyLife(Number(detail.ttlMs), Number(detail.attempt)) * (1000 / resolutionUs) +
      (expiry === 'at' ? 0 : 1)
    );
  }

  private ticks({ process, atUs, seq }: Pick<TraceEvent, 'process' | 'atUs' | 'seq'>): number {
    return Math.floor(this.record.clock(process).shownAt(atUs, seq) / this.record.setup.cluster.resolutionUs);
  }
}

function keyOf({ process, detail }: TraceEvent): string {
  return `${process} ${detail.resource} ${detail.token}`;
}

function sameCommand(a: TraceEvent, b: TraceEvent): boolean {
  const fields = ['client', 'lock', 'operation', 'attempt', 'round', 'node', 'token', 'ttlMs'];
  return fields.every((field) => a.detail[field] === b.detail[field]);
}
