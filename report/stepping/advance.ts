import type { Fate, MessageAddress, Schedule } from '../../scenarios/index.js';
import {
  type Direction,
  type FateSlot,
  type Message,
  Observer,
  RecordingAdversary,
  ScriptedAdversary,
  setupOf,
  type TraceEvent,
  World,
  type WorldView,
} from '../../sim/index.js';
import { addressOf } from '../../sim/scripted.js';

/** How long a step takes, µs, unless it says otherwise: as long as the usual message. */
export const STEP_US = 1_000;

/** Later than any run, µs: of what has not been decided. */
export const UNDECIDED_US: number = 2 ** 45;

/** The address of one message. */
export type Address = Required<MessageAddress>;

/** Whether two addresses are of one message. */
export function isSameMessage(a: MessageAddress, b: MessageAddress): boolean {
  const of = (it: MessageAddress): unknown[] => [
    ...[it.client, it.lock ?? 0, it.attempt ?? 0, it.operation, it.round ?? 0],
    ...[it.node, it.direction, it.send ?? 0],
  ];
  return of(a).join() === of(b).join();
}

/**
 * Does what a schedule says up to now, and then lets nothing arrive: what is on its way stays there until somebody
 * decides, one message at a time.
 */
class HoldingAdversary extends ScriptedAdversary {
  /** In the order in which they were sent. */
  readonly sent: Address[] = [];
  private readonly nowUs: number;
  private readonly toUs: number;
  private readonly arriving: Address | null;

  constructor(schedule: Schedule, toUs: number, arriving: Address | null) {
    super(schedule);
    this.nowUs = schedule.untilUs;
    this.toUs = toUs;
    this.arriving = arriving;
  }

  override fate(message: Message, direction: Direction, send: number, slot: FateSlot, view?: WorldView): void {
    super.fate(message, direction, send, slot);
    if (view === undefined) return;
    const address = addressOf(view.setup.clients[message.client] ?? '', message, direction, send);
    this.sent.push(address);
    if (this.arriving !== null && isSameMessage(address, this.arriving)) {
      slot.delayUs = this.toUs - view.now;
      return;
    }
    // It would arrive in the next step, and is asked about again then.
    const heldUs = this.toUs + STEP_US - view.now;
    if (view.now + slot.delayUs > this.nowUs) slot.delayUs = Math.max(slot.delayUs, heldUs);
    if (slot.duplicateDelayUs >= 0 && view.now + slot.duplicateDelayUs > this.nowUs)
      slot.duplicateDelayUs = Math.max(slot.duplicateDelayUs, heldUs);
  }
}

/** A message that has been sent and has not arrived. */
export interface InFlight {
  readonly address: Address;
  /** Its sending, in the trace. */
  readonly event: TraceEvent;
}

/** A moment of a run: the world as it is, and how it came to that. */
export interface Moment {
  readonly world: World;
  readonly trace: readonly TraceEvent[];
  readonly inFlight: readonly InFlight[];
}

/** The world at the end of a schedule. */
export function momentOf(schedule: Schedule): Moment {
  const adversary = new HoldingAdversary(schedule, schedule.untilUs, null);
  const world = new World(setupOf(schedule), adversary, new Observer(), true);
  world.run();
  const trace = world.context.trace.events;
  const sendings = trace.filter(({ kind }) => kind === 'send' || kind === 'lost');
  const inFlight = sendings.flatMap((event, i) => {
    const address = adversary.sent[i];
    const isUnderWay = event.kind === 'send' && Number(event.detail.arrivesUs) > schedule.untilUs;
    return address !== undefined && isUnderWay ? [{ address, event }] : [];
  });
  return { world, trace, inFlight };
}

/**
 * Lets time go on from the end of a schedule to `toUs`, with what the schedule has planned until then. Messages stay on
 * their way, but for the one that is to arrive at `toUs`.
 *
 * @returns What has happened by then, as a schedule that ends there.
 */
export function advanced(schedule: Schedule, toUs: number, arriving: Address | null = null): Schedule {
  const setup = { ...setupOf(schedule), untilUs: toUs };
  const holding = new HoldingAdversary(schedule, toUs, arriving);
  const recording = new RecordingAdversary(holding, setup.clients.length);
  new World(setup, recording, new Observer(), false).run();
  return recording.schedule(setup, schedule.policy);
}

/** What happens next by itself, with all messages on their way: `null` if nothing does within the horizon. */
export function nextByItself(schedule: Schedule, horizonUs: number): TraceEvent | null {
  const nowUs = schedule.untilUs;
  const toUs = nowUs + horizonUs;
  const holding = new HoldingAdversary(schedule, toUs, null);
  const world = new World({ ...setupOf(schedule), untilUs: toUs }, holding, new Observer(), true);
  world.begin();
  const { trace } = world.context;
  for (;;) {
    const last = trace.events.at(-1);
    if (last !== undefined && last.atUs > nowUs) break;
    if (!world.advance()) return null;
  }
  return trace.events.find(({ atUs }) => atUs > nowUs) ?? null;
}

/** The same schedule with another fate of one message. */
export function withFate(schedule: Schedule, address: Address, fate: Pick<Fate, 'lost' | 'delayUs'>): Schedule {
  const others = schedule.fates.filter((it) => !isSameMessage(it, address));
  return { ...schedule, fates: [...others, { ...address, ...fate }] };
}

/**
 * What has happened so far as a run of its own. It ends a microsecond later than the last thing that happened: what two
 * clients believe at one instant alone violates nothing.
 */
export function runOfSteps(schedule: Schedule): Schedule {
  return { ...schedule, untilUs: schedule.untilUs + 1 };
}
