import { MIDDLE_JITTER_PPM } from '../core/index.js';
import type { PolicyChoice } from '../deviations/index.js';
import type { ClientPlan, Cluster, Fate, Fault, LockPlan, Schedule } from '../scenarios/index.js';

import type { Adversary, DecisionPoint } from './adversary.js';
import type { ClusterSetup } from './cluster-setup.js';
import type { Direction, FateSlot, Message } from './message.js';
import { addressOf } from './scripted.js';
import type { SimLock } from './sim-lock.js';
import type { Setup, WorldView } from './view.js';

/** Lets another adversary choose and writes down what it chose, as a schedule that replays to the same trace. */
export class RecordingAdversary implements Adversary {
  private readonly inner: Adversary;
  private readonly plans: LockPlan[][];
  private readonly jitters: number[][][];
  private readonly faults: Fault[] = [];
  private readonly fates: Fate[] = [];

  constructor(inner: Adversary, clients: number) {
    this.inner = inner;
    this.plans = Array.from({ length: clients }, () => []);
    this.jitters = Array.from({ length: clients }, () => []);
  }

  nextLock(client: number, view: WorldView): LockPlan | null {
    const plan = this.inner.nextLock(client, view);
    if (plan !== null) {
      this.plans[client]?.push(plan);
      this.jitters[client]?.push([]);
    }
    return plan;
  }

  jitterPpm(client: number, lock: number, attempt: number): number {
    const jitter = this.inner.jitterPpm(client, lock, attempt);
    const list = this.jitters[client]?.[lock];
    if (list !== undefined) list[attempt] = jitter;
    return jitter;
  }

  fate(message: Message, direction: Direction, send: number, slot: FateSlot, view: WorldView): void {
    const { delayUs: usual } = slot;
    this.inner.fate(message, direction, send, slot, view);
    const { lost, delayUs, duplicateDelayUs, resendAfterUs } = slot;
    if (!lost && delayUs === usual && duplicateDelayUs < 0 && resendAfterUs < 0) return;
    const address = addressOf(view.setup.clients[message.client] ?? '', message, direction, send);
    this.fates.push({
      ...brief(address),
      ...(lost ? { lost } : delayUs === usual ? {} : { delayUs }),
      ...(duplicateDelayUs < 0 ? {} : { duplicateDelayUs }),
      ...(resendAfterUs < 0 ? {} : { resendAfterUs }),
    });
  }

  nextFault(moment: DecisionPoint, lock: SimLock | null, view: WorldView): Fault | null {
    const fault = this.inner.nextFault(moment, lock, view);
    if (fault !== null) this.faults.push(fault);
    return fault;
  }

  /** The schedule of the run that this adversary has just been through. */
  schedule(setup: Setup, policy: PolicyChoice): Schedule {
    const clients: ClientPlan[] = setup.clients.map((id, client) => ({
      id,
      ...setup.views?.[client],
      locks: (this.plans[client] ?? []).map((plan, lock) => ({
        ...plan,
        jitterPpm: trimmed(this.jitters[client]?.[lock] ?? []),
      })),
    }));
    return {
      schema: 'lockstep.schedule/2',
      cluster: written(setup.cluster),
      policy,
      clients,
      faults: this.faults,
      fates: this.fates,
      ...(setup.resource === 'none' ? {} : { resource: setup.resource }),
      untilUs: setup.untilUs,
    };
  }
}

/** Leaves out what is 0 and may be. */
function brief(
  address: ReturnType<typeof addressOf>,
): Omit<Fate, 'delayUs' | 'lost' | 'duplicateDelayUs' | 'resendAfterUs'> {
  const { client, lock, attempt, operation, round, node, direction, send } = address;
  return {
    client,
    ...(lock === 0 ? {} : { lock }),
    ...(attempt === 0 ? {} : { attempt }),
    operation,
    ...(round === 0 ? {} : { round }),
    node,
    direction,
    ...(send === 0 ? {} : { send }),
  };
}

function trimmed(jitters: readonly number[]): number[] {
  const list = Array.from(jitters, (jitter) => jitter ?? MIDDLE_JITTER_PPM);
  while (list.length > 0 && list[list.length - 1] === MIDDLE_JITTER_PPM) list.pop();
  return list;
}

/** As it is in a schedule, which leaves out what has no value. */
function written(cluster: ClusterSetup): Cluster {
  return Object.fromEntries(Object.entries(cluster).filter(([, value]) => value !== undefined)) as unknown as Cluster;
}
