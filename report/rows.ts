import { LONGEST_US } from '../core/index.js';
import { policyOf } from '../deviations/index.js';
import { formatDurationMs, type Schedule } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { formatList, formatPercent } from '../text/format.js';
import { nodesOf, numberOf, textOf } from './details.js';
import { describeFault, type FaultWords, NodeKeys } from './fault-words.js';
import type { Hold } from './holds.js';
import type { Row, RowContext, RowKind } from './row.js';
import { SendingRows } from './sending-rows.js';
import { nodeList } from './words.js';

/** `until 9 898`; of a lock that is held until its client says otherwise, `without end`. */
function endWords(endUs: number): string {
  return endUs > LONGEST_US / 2 ? 'without end' : `until ${formatDurationMs(endUs)}`;
}

/** All lines of a run, in order of time: messages to many nodes are one line, and so are their answers. */
export function rowsOf(
  schedule: Schedule,
  trace: readonly TraceEvent[],
  claims: readonly Hold[],
  tokenName: (token: number) => string,
): Row[] {
  const effects = new Map<number, TraceEvent[]>();
  for (const event of trace) {
    const list = effects.get(event.cause);
    if (list === undefined) effects.set(event.cause, [event]);
    else list.push(event);
  }
  const context: RowContext = {
    schedule,
    policy: policyOf(schedule.policy),
    trace,
    eventOf: (seq) => trace[seq],
    effectsOf: (event) => effects.get(event.seq) ?? [],
    tokenName,
  };
  const rows = [...clockRows(schedule), ...new Rows(context, claims).all()];
  rows.sort((a, b) => a.atUs - b.atUs || a.seq - b.seq);
  return merged(rows);
}

/** Clocks that are wrong from the beginning. */
function clockRows(schedule: Schedule): Row[] {
  return schedule.cluster.clocks
    .filter((clock) => clock.ratePpm !== 0)
    .map((clock) => ({
      seq: -1,
      atUs: 0,
      kind: 'fault',
      who: clock.process,
      what: `clock ${formatPercent(Math.abs(clock.ratePpm))} ${clock.ratePpm > 0 ? 'fast' : 'slow'}`,
      processes: [clock.process],
      tokens: [],
    }));
}

class Rows {
  private readonly context: RowContext;
  private readonly claims: readonly Hold[];
  private readonly rows: Row[] = [];
  private readonly keys = new NodeKeys();
  private readonly sendings: SendingRows;

  constructor(context: RowContext, claims: readonly Hold[]) {
    this.context = context;
    this.claims = claims;
    this.sendings = new SendingRows(context);
  }

  all(): Row[] {
    for (const event of this.context.trace) {
      this.rows.push(...this.sendings.of(event));
      this.tell(event);
      this.keys.follow(event);
    }
    return this.rows;
  }

  private add(event: TraceEvent, kind: RowKind, what: string, words: Partial<FaultWords> = {}): void {
    const token = numberOf(event, 'token');
    this.rows.push({
      seq: event.seq,
      atUs: event.atUs,
      kind,
      who: words.who ?? event.process,
      what,
      processes: words.processes ?? [event.process],
      tokens: words.tokens ?? (token === 0 ? [] : [token]),
    });
  }

  private tell(event: TraceEvent): void {
    switch (event.kind) {
      case 'claim':
        this.add(event, 'outcome', `${votes(event)} granted, ${this.untilWords(event)}`);
        break;
      case 'extended':
        this.add(event, 'outcome', `extended by ${votes(event)}, ${this.untilWords(event)}`);
        break;
      case 'not-extended':
        this.add(event, 'outcome', `not extended: ${reasonWords(event)}`);
        break;
      case 'acquire-failed':
        this.add(event, 'outcome', `gives up: ${reasonWords(event)}`);
        break;
      case 'expired':
        this.expired(event);
        break;
      case 'release-call':
        if (!this.context.effectsOf(event).some((it) => it.kind === 'send' || it.kind === 'lost'))
          this.add(event, 'end', 'releases');
        break;
      case 'key-gone':
        if (textOf(event, 'how') === 'expired')
          this.add(event, 'key', `${this.context.tokenName(numberOf(event, 'token'))} expires`);
        break;
      case 'write-checked':
        this.add(event, 'check', checkWords(event));
        break;
      case 'write-sent':
      case 'write-arrived':
      case 'write-refused':
      case 'write-skipped':
        this.add(event, 'write', writeWords(event, (this.context.schedule.resource ?? 'none') !== 'none'));
        break;
      default: {
        const words = describeFault(event, this.context, this.keys);
        if (words !== null) this.add(event, 'fault', words.what, words);
      }
    }
  }

  private untilWords(event: TraceEvent): string {
    const votes = `${numberOf(event, 'votes')}/${numberOf(event, 'nodes')}`;
    const counter = numberOf(event, 'counter');
    const token = counter === 0 ? '' : `, fencing token ${counter}`;
    return `${votes}, valid ${endWords(numberOf(event, 'endUs'))}${token}`;
  }

  /** A client that was frozen learns later than it happened. */
  private expired(event: TraceEvent): void {
    const claim = this.claims.find(
      (it) => it.client === event.process && it.lock === numberOf(event, 'lock') && it.end === 'expired',
    );
    if (claim === undefined || claim.endUs >= event.atUs) {
      this.add(event, 'end', 'validity ends');
      return;
    }
    const { client, seq, token, endUs } = claim;
    const row = { kind: 'end', who: client, processes: [client], tokens: [token] } as const;
    this.rows.push({ ...row, seq, atUs: endUs, what: 'validity ends, unnoticed' });
    this.rows.push({ ...row, seq: event.seq, atUs: event.atUs, what: 'sees that its validity has ended' });
  }
}

function votes(event: TraceEvent): string {
  const granted = nodesOf(event, 'granted');
  return granted.length === 0 ? 'no node' : nodeList(granted);
}

const REASONS: Readonly<Record<string, string>> = {
  contended: 'others hold it',
  unreachable: 'too few nodes answer',
  'too-slow': 'no validity is left',
  'counters-lost': 'too few nodes know their counter',
  abandoned: 'the caller gave up',
  'not-held': 'the lock is not held',
  'in-progress': 'another extension is under way',
  limit: 'no more extensions are allowed',
  lost: 'the keys are gone',
  refused: 'its nodes would not',
  'too-late': 'the old validity had ended',
};

/** Why an acquisition or an extension failed. */
export function reasonWords(event: TraceEvent): string {
  const reason = textOf(event, 'reason');
  return REASONS[reason] ?? reason;
}

/** What a client sees when it looks at its lock, before it writes. */
export function checkWords(event: TraceEvent): string {
  const leftUs = numberOf(event, 'leftUs');
  return leftUs > LONGEST_US / 2 ? 'checks its lock: held' : `checks its lock: ${formatDurationMs(leftUs)} ms left`;
}

function writeWords(event: TraceEvent, guarded: boolean): string {
  const resources = event.detail.resources;
  const resource = formatList(typeof resources === 'object' ? resources : []);
  if (event.kind === 'write-sent') return `sends a write to ${resource}`;
  if (event.kind === 'write-skipped') return 'does not write: too little validity left';
  if (event.kind === 'write-refused') return `its write is refused by ${resource}`;
  return `its write reaches ${resource}${guarded && numberOf(event, 'stale') === 1 ? ', stale: its validity had ended' : ''}`;
}

/** Keys that expire within this of each other are told of together. */
const TOGETHER_US = 1_000;

/** Rows that say the same about different nodes at the same time become one. */
function merged(rows: readonly Row[]): Row[] {
  const result: Row[] = [];
  for (const row of rows) {
    const last = result.at(-1);
    const apart = row.kind === 'key' ? TOGETHER_US : 0;
    if (
      last !== undefined &&
      last.what === row.what &&
      last.kind === row.kind &&
      (row.kind === 'key' || row.kind === 'fault') &&
      row.atUs - last.atUs <= apart &&
      !row.processes.some((it) => last.processes.includes(it))
    ) {
      const processes = [...last.processes, ...row.processes].sort(byName);
      const tokens = [...new Set([...last.tokens, ...row.tokens])];
      result[result.length - 1] = { ...last, processes, tokens, who: nodeList(processes) };
    } else result.push(row);
  }
  return result;
}

const names = new Intl.Collator('en', { numeric: true });

function byName(a: string, b: string): number {
  return names.compare(a, b);
}
