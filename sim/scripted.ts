import { MIDDLE_JITTER_PPM } from '../core/index.js';
import type { Fate, Fault, LockPlan, MessageAddress, Schedule } from '../scenarios/index.js';
import type { Adversary, DecisionPoint } from './adversary.js';
import type { Direction, FateSlot, Message } from './message.js';
import { nodeName } from './node-name.js';

/** An adversary that does what is written: the one behind every replay. */
export class ScriptedAdversary implements Adversary {
  private readonly schedule: Schedule;
  private readonly fates: ReadonlyMap<string, Fate>;
  private readonly used = new Set<Fate>();
  private readonly asked: number[];
  private faultsPlanned = 0;

  constructor(schedule: Schedule) {
    this.schedule = schedule;
    this.asked = schedule.clients.map(() => 0);
    this.fates = byAddress(schedule.fates);
  }

  /** Fates that have matched no message so far, in the order of the schedule. */
  get unusedFates(): Fate[] {
    return this.schedule.fates.filter((fate) => !this.used.has(fate));
  }

  nextLock(client: number): LockPlan | null {
    const number = this.asked[client] ?? 0;
    this.asked[client] = number + 1;
    return this.schedule.clients[client]?.locks[number] ?? null;
  }

  jitterPpm(client: number, lock: number, attempt: number): number {
    return this.schedule.clients[client]?.locks[lock]?.jitterPpm[attempt] ?? MIDDLE_JITTER_PPM;
  }

  fate(message: Message, direction: Direction, send: number, slot: FateSlot): void {
    if (this.fates.size === 0) return;
    const client = this.schedule.clients[message.client]?.id ?? '';
    const fate = this.fates.get(addressKey(addressOf(client, message, direction, send)));
    if (fate === undefined) return;
    this.used.add(fate);
    slot.lost = fate.lost ?? false;
    if (fate.delayUs !== undefined) slot.delayUs = fate.delayUs;
    if (fate.duplicateDelayUs !== undefined) slot.duplicateDelayUs = fate.duplicateDelayUs;
    if (fate.resendAfterUs !== undefined) slot.resendAfterUs = fate.resendAfterUs;
  }

  nextFault(moment: DecisionPoint): Fault | null {
    return moment === 'start' ? (this.schedule.faults[this.faultsPlanned++] ?? null) : null;
  }
}

const indices = new WeakMap<readonly Fate[], ReadonlyMap<string, Fate>>();

/** Fates by the messages that they are of. Made once for a list, whose schedule is often run thousands of times. */
function byAddress(fates: readonly Fate[]): ReadonlyMap<string, Fate> {
  const known = indices.get(fates);
  if (known?.size === fates.length) return known;
  const made = new Map(fates.map((fate) => [addressKey(fate), fate]));
  indices.set(fates, made);
  return made;
}

/** The address by which a schedule names a message. */
export function addressOf(
  client: string,
  message: Message,
  direction: Direction,
  send: number,
): Required<MessageAddress> {
  const { operation, attempt, round } = message.command;
  return { client, lock: message.lock, attempt, operation, round, node: nodeName(message.node), direction, send };
}

function addressKey(a: MessageAddress): string {
  const { lock = 0, attempt = 0, round = 0, send = 0 } = a;
  return `${a.client} ${lock} ${attempt} ${a.operation} ${round} ${a.node} ${a.direction} ${send}`;
}
