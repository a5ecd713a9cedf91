import { type Cluster, type Fault, formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent } from '../sim/index.js';
import { formatList, formatPercent } from '../text/format.js';
import { listOf, numberOf, textOf } from './details.js';
import type { RowContext } from './row.js';
import { nodeList } from './words.js';

/** What a row says about a fault. */
export interface FaultWords {
  readonly who: string;
  readonly what: string;
  readonly processes: readonly string[];
  readonly tokens: readonly number[];
}

/** Which keys each node holds, as the trace goes by. */
export class NodeKeys {
  private readonly tokens = new Map<string, Map<string, number>>();

  follow(event: TraceEvent): void {
    if (event.kind !== 'key-set' && event.kind !== 'key-gone') return;
    let keys = this.tokens.get(event.process);
    if (keys === undefined) {
      keys = new Map();
      this.tokens.set(event.process, keys);
    }
    if (event.kind === 'key-set') keys.set(textOf(event, 'resource'), numberOf(event, 'token'));
    else keys.delete(textOf(event, 'resource'));
  }

  of(node: string): number[] {
    return [...new Set(this.tokens.get(node)?.values())];
  }
}

type FaultEventKind = Fault['kind'] | 'restart';

const FAULT_EVENTS: Readonly<Record<FaultEventKind, true>> = {
  crash: true,
  restart: true,
  failover: true,
  'client-crash': true,
  pause: true,
  suspend: true,
  'clock-step': true,
  'clock-drift': true,
  partition: true,
  'data-loss': true,
  'error-replies': true,
  reconfigure: true,
};

/** Whether an event is a fault, or the end of one. */
export function isFault(kind: string): kind is FaultEventKind {
  return Object.hasOwn(FAULT_EVENTS, kind);
}

/** What a fault does, or `null` for an event that is none. */
export function describeFault(event: TraceEvent, context: RowContext, keys: NodeKeys): FaultWords | null {
  const one = (what: string, tokens: readonly number[] = []): FaultWords => ({
    who: event.process,
    what,
    processes: [event.process],
    tokens,
  });
  const { kind } = event;
  if (!isFault(kind)) return null;
  switch (kind) {
    case 'crash': {
      const held = keys.of(event.process);
      return one(crashWords(event, context, held), held);
    }
    case 'restart': {
      if (event.process.startsWith('c')) return one('is there again, as a new process that knows of no lock');
      const crash = context.eventOf(event.cause);
      if (crash !== undefined && crash.atUs === event.atUs) return null;
      const held = keys.of(event.process);
      return one(`restarts${keptWords(event, context, held)}`, held);
    }
    case 'failover': {
      const held = keys.of(event.process);
      const of = textOf(event, 'of');
      const what = of === '' ? 'its replica takes over' : `takes over as the replica of ${of}`;
      return one(`${what}${keptWords(event, context, held)}`, held);
    }
    case 'reconfigure':
      return one(`is told of ${nodeListOrNames(listOf(event, 'nodes'))} from now on`);
    case 'data-loss': {
      const { resource } = event.detail;
      const held = keys.of(event.process);
      return one(
        typeof resource === 'string' ? `loses ${resource} (DEL or eviction)` : 'loses all keys (FLUSHALL)',
        held,
      );
    }
    case 'error-replies': {
      const { operations } = event.detail;
      const refused = Array.isArray(operations) ? operations.join(' and ') : 'everything';
      return one(
        `answers ${refused} with ${textOf(event, 'error') || 'an error'} until ${formatDurationMs(numberOf(event, 'untilUs'))}`,
      );
    }
    case 'client-crash':
      return one('dies');
    case 'pause':
      return one(`is frozen until ${formatDurationMs(numberOf(event, 'untilUs'))}`);
    case 'suspend': {
      const until = formatDurationMs(numberOf(event, 'untilUs'));
      if (textOf(event, 'stops') === 'all') return one(`its virtual machine is paused until ${until}, unawares`);
      return one(`its machine is suspended until ${until}`);
    }
    case 'clock-step': {
      const byUs = numberOf(event, 'byUs');
      const which = event.process.startsWith('c') ? 'wall clock' : 'clock';
      return one(`${which} jumps ${byUs < 0 ? 'back' : 'forward'} by ${formatDurationMs(Math.abs(byUs))} ms`);
    }
    case 'clock-drift': {
      const ppm = numberOf(event, 'ratePpm');
      const rate = ppm === 0 ? 'right' : `${formatPercent(Math.abs(ppm))} ${ppm > 0 ? 'fast' : 'slow'}`;
      return one(`clock runs ${rate} from now on`);
    }
    case 'partition':
      return partitionWords(event);
  }
}

function crashWords(event: TraceEvent, context: RowContext, held: readonly number[]): string {
  const verb =
    numberOf(event, 'clean') === 1 ? 'is shut down' : numberOf(event, 'power') === 1 ? 'loses power' : 'crashes';
  const restart = context.effectsOf(event).find((it) => it.kind === 'restart');
  if (restart?.atUs === event.atUs) return `${verb}, restarts at once${keptWords(restart, context, held)}`;
  const onDisk = ON_DISK[context.schedule.cluster.persistence];
  const fate = held.length === 0 || onDisk === null ? '' : `; ${formatList(held.map(context.tokenName))} ${onDisk}`;
  return `${verb}${restart === undefined ? ' for good' : ''}${fate}`;
}

/** What is known of keys when their node ends; of disks that are written every second, when it is back. */
const ON_DISK: Readonly<Record<Cluster['persistence'], string | null>> = {
  none: 'not on disk',
  rdb: null,
  everysec: null,
  always: 'on disk',
};

/** What became of the keys that the node held before. */
function keptWords(event: TraceEvent, context: RowContext, held: readonly number[]): string {
  const gone = context.effectsOf(event).filter((it) => it.kind === 'key-gone' && textOf(it, 'how') === 'forgotten');
  const lost = [...new Set(gone.map((it) => numberOf(it, 'token')))];
  if (lost.length > 0) return `; ${formatList(lost.map(context.tokenName))} forgotten`;
  return held.length > 0 && event.kind === 'restart' ? ` with ${formatList(held.map(context.tokenName))}` : '';
}

function partitionWords(event: TraceEvent): FaultWords {
  const from = listOf(event, 'from');
  const to = listOf(event, 'to');
  const until = formatDurationMs(numberOf(event, 'untilUs'));
  const verb = numberOf(event, 'oneWay') === 1 ? 'cannot reach' : 'cut off from';
  const who = nodeListOrNames(from);
  const held = numberOf(event, 'holds') === 1 ? ', messages held back' : '';
  return { who, what: `${verb} ${nodeListOrNames(to)} until ${until}${held}`, processes: [...from, ...to], tokens: [] };
}

function nodeListOrNames(names: readonly string[]): string {
  return names.every((name) => name.startsWith('n')) ? nodeList(names) : names.join(' ');
}
