import { ScheduleError } from '../../scenarios/input-error.js';
import type { System } from '../system.js';
import type { RiskModel } from './model.js';
import type { SystemRates } from './rates.js';

/**
 * The model of a described system.
 *
 * @throws {@link ScheduleError} where a rate is about something that the system does not have.
 */
export function modelOf(system: System, { rates, ...locks }: Omit<SystemRates, 'typical'>): RiskModel {
  const { client, network, work, resource } = system;
  if (rates.failover !== undefined && system.nodes.some(({ failoverLagUs }) => failoverLagUs === null))
    throw new ScheduleError(
      '/rates/failovers',
      'not every node has a replica; say how far it is behind, as in "failover": "1s" of the nodes',
    );
  return {
    ...locks,
    rates,
    nodes: system.nodes.map(({ persistence, diskKept, restartUs, failoverLagUs }) => {
      return { persistence, diskKept, restartUs, lagUs: failoverLagUs ?? 0 };
    }),
    policy: client.policy,
    ttlMs: client.ttlMs,
    delayUs: [network.leastUs, network.mostUs],
    driftPpm: system.clocks.driftPpm,
    guardUs: client.guardUs,
    writeUs: [Math.min(network.leastUs, network.writeUs), network.writeUs],
    writes: work.writes,
    fenced: resource.checksToken && client.policy.settings.fencing,
    extends: work.extends,
    rivals: Math.max(1, client.clients - 1),
  };
}
