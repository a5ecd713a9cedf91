import { describe, expect, it } from 'vitest';
import { deviates, deviationNumber, type Policy, PROFILES, policyWith, REFERENCE } from '../deviations/index.js';
import { observeRun } from '../search/safety-map/watch.js';
import type { Stress } from './attacks.js';
import { agrees, leastTtl } from './figures.js';
import { withItsTimeout } from './libraries.js';
import { acquiringUs, silenceOf } from './silence.js';
import { isHad, writeSchedule } from './writes.js';

/*
 * What silent nodes cost: for each client, the time to its lock and the least TTL are those of the formula.
 */

const TTL_MS = 8_000;

function stressWith(policy: Policy, nodes: number, latencyUs: number, driftPpm: number): Stress {
  const timed = withItsTimeout(policy, TTL_MS);
  return {
    policy: timed,
    ttlMs: TTL_MS,
    nodes,
    votes: nodes,
    struck: 0,
    driftPpm,
    latencyUs,
    nodeStepUs: 0,
    clientStepUs: 0,
    suspendUs: 0,
    vmUs: 0,
    loss: { kind: 'none' },
    silent: silenceOf(timed, nodes).nodes,
  };
}

const NO_WAY = { processUs: 0, sleepUs: 0, writeUs: 0 };

/** When the holder has its lock, true time; `Infinity` if it does not get it. */
function hadUs(stress: Stress): number {
  const schedule = writeSchedule(stress, { kind: 'unguarded', workUs: 0, way: NO_WAY });
  const [claim] = schedule === null ? [] : observeRun(schedule).claims;
  return claim?.atUs ?? Number.POSITIVE_INFINITY;
}

const CLIENTS = Object.values({ ...PROFILES, reference: REFERENCE });

/** Clients that believe in their lock for longer than it is worth: by the formula, their TTL would have to be longer. */
function overrates(policy: Policy): boolean {
  return (
    deviates(policy, 'validity-unsigned', 'deadline-whole-ttl') || (deviationNumber(policy, 'stamps-us') ?? 1) > 1_000
  );
}

describe('a client with a minority of its nodes silent', () => {
  it.each(CLIENTS.map((policy) => [policy.profile, policy] as const))('%s', (_, policy) => {
    for (const nodes of [1, 3, 4, 5]) {
      for (const latencyUs of [1_000, 15_000]) {
        const stress = stressWith(policy, nodes, latencyUs, 0);
        const { silent = 0 } = stress;
        if (isHad(stress)) expect(hadUs(stress)).toBe(acquiringUs(stress.policy, nodes, silent, 2 * latencyUs));
        for (const driftPpm of [0, 500]) {
          const way = { processUs: 500_000, sleepUs: 0, writeUs: latencyUs };
          const figure = leastTtl(stressWith(policy, nodes, latencyUs, driftPpm), 3_000_000, way);
          const figureAgrees = figure === null || agrees(figure) || overrates(policy);
          expect(figureAgrees, `${nodes} nodes: ${figure?.least} is not ${figure?.computed}`).toBe(true);
        }
      }
    }
  });

  it('waits for its time-out if it waits for all, one after the other if it asks in turn, and else not at all', () => {
    const waits = (policy: Policy, nodes: number): number => hadUs(stressWith(policy, nodes, 1_000, 0));
    const { 'redsync-4': redsync = REFERENCE, 'redlock-rb': inTurn = REFERENCE } = PROFILES;
    expect([waits(REFERENCE, 5), waits(redsync, 5), waits(inTurn, 5)]).toEqual([
      2_000,
      400_000,
      2 * 100_000 + 3 * 2_000,
    ]);
    expect(waits(policyWith({ settings: { votesWanted: 'all' } }), 5)).toBe(50_000);
  });

  it('has no time that is known without a time-out, and no lock where an error ends the call', () => {
    const lacking = (profile: string): unknown => silenceOf(PROFILES[profile] ?? REFERENCE, 5);
    expect(lacking('node-redlock-4')).toEqual({ nodes: 0, lacks: 'time-out', waits: true });
    expect(lacking('redlock-py')).toEqual({ nodes: 0, lacks: 'lock', waits: true });
    expect(lacking('node-redlock-5')).toEqual({ nodes: 2, lacks: null, waits: false });
  });

  it('needs a TTL of which the share is enough for votes', () => {
    const { 'redsync-4': redsync = REFERENCE } = PROFILES;
    const slow = stressWith(redsync, 3, 250_000, 0);
    const figure = leastTtl(slow, 100_000, NO_WAY);
    // 500 ms are 5 % of it.
    expect(figure?.least).toBe(10_000_000);
  });
});
