import { setTimeout as sleep } from 'node:timers/promises';
import { type Policy, policyOf, policyWithTiming, quorumOf, REFERENCE } from '../../deviations/index.js';
import type { Schedule } from '../../scenarios/index.js';
import { longestTtlUs } from '../../scenarios/ttls.js';

import { type Persistence, provision } from '../provisioner/index.js';
import { ScriptedFaultInjector } from './fault-injector.js';
import { NodePoller } from './node-poller.js';
import type { Observation, Waiting } from './observation.js';
import { ObservationRecorder } from './observation-recorder.js';
import { ProxiedLink } from './proxied-link.js';
import { ReplayClient } from './replay-client.js';
import { ReplayClock } from './replay-clock.js';

const MS = 1000;
const LOOK_MS = 20;
/** What is still to be seen once everybody is done: late messages, a probe. */
const AFTERMATH_MS = 150;

/** How a schedule is played on real nodes. */
interface PlayOptions {
  /** Ends the run early. */
  readonly signal?: AbortSignal;
}

/**
 * Plays a schedule on real nodes, own server processes: its clients run the driver of the production lock under its policy,
 * its messages go through proxies that give each of them its fate, and its faults strike the processes. Times are taken as
 * they are written, so they should leave room for what a machine adds to them.
 *
 * @throws ProvisionError if there are no own server processes to be had, or a fault cannot be carried out.
 */
export async function playOnRedis(schedule: Schedule, { signal }: PlayOptions = {}): Promise<Observation> {
  const policy = policyOf(schedule.policy);
  const { cluster } = schedule;
  const persistence: Persistence = cluster.persistence;
  await using provided = await provision({
    nodes: cluster.nodes,
    sources: ['processes', 'package'],
    persistence,
    clocks: setsClocks(schedule),
  });
  const ways = await Promise.all(
    schedule.clients.map(({ id }) =>
      Promise.all(provided.nodes.map((node) => ProxiedLink.open(id, node.name, node.url, schedule))),
    ),
  );
  try {
    const clockwork = new ReplayClock();
    const script = new ObservationRecorder(clockwork);
    const actors = schedule.clients.map(
      (plan, i) => new ReplayClient(plan, policyWithTiming(policy, plan.timing), ways[i] ?? [], clockwork, script),
    );
    const injector = new ScriptedFaultInjector(schedule, provided, actors, clockwork);
    const watcher = new NodePoller(injector.watched, actors, clockwork, {
      quorum: Math.min(...schedule.clients.map(({ nodes }) => quorumOf(policy, nodes?.length ?? cluster.nodes))),
      graceUs: policy.settings.nodeTimeoutUs ?? REFERENCE.settings.nodeTimeoutUs ?? 0,
    });
    await injector.prepare();
    clockwork.start();
    injector.begin();
    watcher.begin();
    for (const actor of actors) actor.begin();
    while (!isOver(schedule, clockwork, actors, injector) && !signal?.aborted) await sleep(LOOK_MS);
    if (!signal?.aborted) await sleep(AFTERMATH_MS);
    clockwork.stop();
    watcher.end();
    if (injector.failure !== undefined) throw injector.failure;
    for (const actor of actors) actor.dismiss();
    const endUs = clockwork.nowUs();
    return {
      history: script.history,
      faults: injector.done,
      claims: script.claims,
      down: watcher.down,
      blocked: watcher.blocked,
      unsupported: [...watcher.unsupported],
      unfounded: script.unfounded,
      waiting: actors.flatMap((actor): Waiting[] =>
        actor.waiting.map(({ plan, sinceUs }) => ({
          client: actor.plan.id,
          resources: plan.resources,
          sinceUs,
        })),
      ),
      patienceUs: patienceOf(schedule, policy),
      endUs,
      lateness: {
        eventUs: clockwork.latestUs,
        answerUs: watcher.slowestUs,
        startUs: injector.slowestStartUs,
      },
      nodes: provided.description,
    };
  } finally {
    await Promise.all(ways.flat().map((way) => way.close()));
  }
}

/** Whether nodes need clocks of their own. */
function setsClocks({ cluster, clients, faults }: Schedule): boolean {
  const isNode = (name: string): boolean => clients.every(({ id }) => id !== name);
  return (
    cluster.clocks.length > 0 ||
    faults.some((fault) => (fault.kind === 'clock-step' || fault.kind === 'clock-drift') && isNode(fault.process))
  );
}

/** Whether nothing can happen any more, or the time is up. */
function isOver(
  schedule: Schedule,
  clockwork: ReplayClock,
  actors: readonly ReplayClient[],
  injector: ScriptedFaultInjector,
): boolean {
  if (injector.failure !== undefined || clockwork.nowUs() >= schedule.untilUs) return true;
  return injector.open === 0 && actors.every((actor) => actor.done);
}

/** The longest that somebody can have to wait for a free lock: the life of a key, a pause between two attempts, time-outs. */
function patienceOf(schedule: Schedule, policy: Policy): number {
  const { retryDelayUs, retryJitterUs, nodeTimeoutUs } = policy.settings;
  return longestTtlUs(schedule) + MS + retryDelayUs + retryJitterUs + 2 * (nodeTimeoutUs ?? 0);
}
