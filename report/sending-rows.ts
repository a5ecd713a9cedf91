import { deviates, hasFencingTokens, lockPolicyOf } from '../deviations/index.js';
import type { TraceEvent } from '../sim/index.js';
import { numberOf, saidOf, textOf } from './details.js';
import type { Row, RowContext } from './row.js';
import { nodeList, nodesDo } from './words.js';

/** What became of one request. */
interface Course {
  readonly node: string;
  readonly sent: TraceEvent;
  /** Each time it was carried out: more than once if it was copied. */
  readonly executions: readonly TraceEvent[];
  readonly dropped: boolean;
}

/** How late something may be where no time-out says so, µs. */
const LATE_US = 50_000;

/** Rows on commands that clients send: one line for all nodes, with what went differently on some. */
export class SendingRows {
  private readonly context: RowContext;
  private readonly lateUs: number;
  private doneUntil = -1;
  /** Commands that were sent to a node. */
  private readonly sent = new Set<string>();

  constructor(context: RowContext) {
    this.context = context;
    this.lateUs = context.policy.settings.nodeTimeoutUs ?? LATE_US;
  }

  /** The rows that begin with this event. */
  of(event: TraceEvent): Row[] {
    if (!isRequest(event) || event.seq <= this.doneUntil || this.isIdle(event)) return [];
    const courses: Course[] = [];
    for (let seq = event.seq; ; seq++) {
      const next = this.context.eventOf(seq);
      // One after the other, the answers of nodes that do not know a script are heard at once.
      if (next?.kind === 'no-script') continue;
      if (next === undefined || !isRequest(next) || !sameCommand(event, next)) break;
      courses.push(this.courseOf(next));
      this.doneUntil = seq;
    }
    return [this.broadcast(event, courses), ...this.lateRows(event, courses)];
  }

  /** Where nobody has counters, what is read changes nothing: a library loads its scripts. Who reads a key may act on it. */
  private isIdle(event: TraceEvent): boolean {
    const isRead = textOf(event, 'operation') === 'read-counter';
    return isRead && !hasFencingTokens(this.context.policy) && !readsKey(event);
  }

  private courseOf(sent: TraceEvent): Course {
    const effects = sent.kind === 'lost' ? [] : this.context.effectsOf(sent);
    return {
      node: textOf(sent, 'node'),
      sent,
      executions: effects.filter((it) => it.kind === 'execute'),
      dropped: effects.some((it) => it.kind === 'dropped'),
    };
  }

  private broadcast(event: TraceEvent, courses: readonly Course[]): Row {
    const { nodes } = this.context.schedule.cluster;
    const names = courses.map((course) => course.node);
    const notes = this.notes(event, courses);
    const again = this.isAgain(event, names) ? (this.isText(event) ? ' with its text' : ' again') : '';
    const to = names.length === nodes && new Set(names).size === nodes ? '*' : nodeList(names);
    return {
      seq: event.seq,
      atUs: event.atUs,
      kind: 'send',
      who: `${event.process} → ${to}`,
      what: `${this.command(event)}${again}${notes.length === 0 ? '' : `   (${notes.join('; ')})`}`,
      processes: [event.process, ...names],
      tokens: [numberOf(event, 'token')],
    };
  }

  /** Whether all of these nodes were sent this very command before: the client's library does that by itself. */
  private isAgain(event: TraceEvent, names: readonly string[]): boolean {
    const { operation, lock, attempt, round } = event.detail;
    const keys = names.map((node) => `${event.process} ${lock} ${attempt} ${operation} ${round} ${node}`);
    const again = operation !== 'release' && !readsKey(event) && keys.every((key) => this.sent.has(key));
    for (const key of keys) this.sent.add(key);
    return again;
  }

  /** Whether a command brings the text of its script, because a node did not know it by its hash. */
  private isText(event: TraceEvent): boolean {
    return this.context.eventOf(event.cause)?.kind === 'no-script';
  }

  /** The command as Redis would have it. */
  private command(event: TraceEvent): string {
    const { policy, tokenName, schedule } = this.context;
    const token = tokenName(numberOf(event, 'token'));
    const said = saidOf(event, token);
    if (said !== '') return said;
    const client = schedule.clients.find((it) => it.id === event.process);
    const resources = client?.locks[numberOf(event, 'lock')]?.resources ?? [];
    const keys = resources.map((resource) => `${client?.keyPrefix ?? ''}${resource}`).join(' ');
    const { acquire, counter, extend } = lockPolicyOf(policy).rules.scripts;
    const own = acquire.onto === 'missing-or-own' ? ' (or own)' : '';
    switch (textOf(event, 'operation')) {
      case 'acquire':
        return `SET ${keys} ${token}${acquire.onto === 'any' ? '' : ' NX'} PX ${numberOf(event, 'ttlMs')}${own}`;
      case 'extend':
        if (extend.onto === 'present') return `PEXPIRE ${keys} ${numberOf(event, 'ttlMs')}`;
        if (extend.onto === 'any') return `SET ${keys} ${token} PX ${numberOf(event, 'ttlMs')}`;
        return `PEXPIRE ${keys} ${numberOf(event, 'ttlMs')} if ${token}${extend.onto === 'own' ? '' : ' or missing'}`;
      case 'read-counter':
        return 'GET counter';
      case 'raise-counter':
        return `SET counter ${numberOf(event, 'counter')}${counter.raises === 'any' ? '' : ' if lower'}`;
      case 'join-counter':
        return `SET counter ${numberOf(event, 'counter')} if missing`;
      default:
        return deviates(policy, 'deletes-any') ? `DEL ${keys}` : `DEL ${keys} if ${token}`;
    }
  }

  private notes(event: TraceEvent, courses: readonly Course[]): string[] {
    const { nodes } = this.context.schedule.cluster;
    const which = (test: (course: Course) => boolean): string[] => courses.filter(test).map(({ node }) => node);
    const notes: string[] = [];
    const note = (names: readonly string[], one: string, many: string = one): void => {
      if (names.length > 0) notes.push(nodesDo(names, nodes, one, many));
    };
    note(
      which((it) => it.sent.kind === 'lost'),
      'lost',
    );
    note(
      which((it) => it.dropped),
      'down',
    );
    note(
      which((it) => this.arrivesLate(it)),
      'late',
    );
    if (textOf(event, 'operation') !== 'release') {
      note(
        which((it) => this.answerOf(it) === 'no'),
        readsKey(event) ? 'has none' : 'refuses',
        readsKey(event) ? 'have none' : 'refuse',
      );
    }
    for (const error of new Set(courses.map((it) => this.errorOf(it)))) {
      if (error !== '')
        note(
          which((it) => this.errorOf(it) === error),
          error,
        );
    }
    note(
      which((it) => this.answerIsLost(it)),
      'answer lost',
    );
    return [...notes, ...this.damage(courses)];
  }

  private isLate(course: Course, execution: TraceEvent): boolean {
    return execution.atUs - course.sent.atUs > this.lateUs;
  }

  private arrivesLate(course: Course): boolean {
    const first = course.executions[0];
    if (first !== undefined) return this.isLate(course, first);
    return course.sent.kind === 'send' && !course.dropped;
  }

  /** The answer that was given in time. */
  private answerOf(course: Course): string {
    const first = course.executions[0];
    if (first === undefined || this.isLate(course, first)) return '';
    return this.answersTo(first).map((it) => textOf(it, 'answer'))[0] ?? '';
  }

  /** The error that came for an answer, by its name if it has one. */
  private errorOf(course: Course): string {
    const first = course.executions[0];
    if (first === undefined || this.answerOf(course) !== 'error') return '';
    const refusal = this.context.trace.findLast(
      (it) =>
        it.kind === 'error-replies' &&
        it.process === course.node &&
        it.seq < first.seq &&
        numberOf(it, 'untilUs') > first.atUs,
    );
    if (refusal === undefined) return this.context.schedule.cluster.scripts === 'by-hash' ? 'NOSCRIPT' : 'error';
    return textOf(refusal, 'error') || 'error';
  }

  private answersTo(execution: TraceEvent): TraceEvent[] {
    return this.context.effectsOf(execution).filter((it) => it.kind === 'send' || it.kind === 'lost');
  }

  private answerIsLost(course: Course): boolean {
    const answers = course.executions.flatMap((execution) => this.answersTo(execution));
    return answers.length > 0 && answers.every((it) => it.kind === 'lost');
  }

  /** Keys of others that the command removes or replaces. */
  private damage(courses: readonly Course[]): string[] {
    const hit = new Map<string, string[]>();
    for (const { node, executions, sent } of courses) {
      for (const gone of executions.flatMap((it) => this.context.effectsOf(it))) {
        const token = numberOf(gone, 'token');
        const how = textOf(gone, 'how');
        if (gone.kind !== 'key-gone' || token === numberOf(sent, 'token') || how === 'expired') continue;
        const what = `${how === 'deleted' ? 'deletes' : 'replaces'} ${this.context.tokenName(token)}`;
        hit.set(what, [...(hit.get(what) ?? []), node]);
      }
    }
    return [...hit].map(([what, nodes]) => `${what} on ${nodeList(nodes)}`);
  }

  /** Commands that arrive long after they were sent, or a second time. */
  private lateRows(event: TraceEvent, courses: readonly Course[]): Row[] {
    return courses.flatMap((course) =>
      course.executions.flatMap((execution, index) => {
        const isCopy = index > 0;
        if (!isCopy && !this.isLate(course, execution)) return [];
        const answer = this.answersTo(execution).map((it) => textOf(it, 'answer'))[0] ?? '';
        const words = `${isCopy ? 'copy of ' : ''}${this.command(event)} arrives`;
        return {
          seq: execution.seq,
          atUs: execution.atUs,
          kind: 'late',
          who: course.node,
          what: `${words}: ${this.answerWords(event, answer)}`,
          processes: [course.node, event.process],
          tokens: [numberOf(event, 'token')],
        } satisfies Row;
      }),
    );
  }

  private answerWords(event: TraceEvent, answer: string): string {
    if (textOf(event, 'operation').endsWith('counter')) return answer === 'yes' ? 'done' : 'refused';
    const isRelease = textOf(event, 'operation') === 'release';
    if (answer === 'yes') return isRelease ? 'deleted' : 'granted';
    return isRelease ? 'nothing to delete' : 'refused';
  }
}

/** Whether a client sends a command; the answer of a node is an event of the node. */
function isRequest(event: TraceEvent): boolean {
  return (event.kind === 'send' || event.kind === 'lost') && event.process === textOf(event, 'client');
}

/** Whether somebody's own lock looks who has a key. */
function readsKey(event: TraceEvent): boolean {
  return textOf(event, 'said').startsWith('GET ');
}

function sameCommand(a: TraceEvent, b: TraceEvent): boolean {
  return (
    a.atUs === b.atUs &&
    a.process === b.process &&
    (['lock', 'attempt', 'round', 'token', 'operation', 'said'] as const).every(
      (name) => a.detail[name] === b.detail[name],
    )
  );
}
