import { choiceOf, policyWith } from '../deviations/index.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import { attackOf, type Stress } from './attacks.js';
import { lateReleaseOf } from './late-release.js';
import { lossStressOf, stressOf, wayOf, workStressOf } from './stress-of.js';
import type { System } from './system.js';
import { isHad, isLate, type Write, writeSchedule } from './writes.js';

/** What can break the lock of a system: clocks, memory, late writes, no lock at all, or the client by itself. */
export type HazardId = 'clocks' | 'memory' | 'writes' | 'availability' | 'client';

/** One of them, judged. */
export interface Hazard {
  readonly id: HazardId;
  readonly holds: boolean;
  /** The run that shows it; `null` where there is nothing to show. */
  readonly schedule: Schedule | null;
  readonly breaks: PropertyId | null;
}

/** Judges a system as it is by its optimal adversaries. */
export function hazardsOf(system: System): Hazard[] {
  const stress = stressOf(system);
  const had = isHad({ ...workStressOf(system), silent: 0 });
  const availability: Hazard = { id: 'availability', holds: had, schedule: null, breaks: null };
  if (!had) return [availability];
  return [availability, shared('clocks', system, stress), memory(system), writes(system), client(system)];
}

function shared(id: HazardId, system: System, stress: Stress): Hazard {
  const { overlap, schedule } = attackOf(stress);
  return { id, holds: !overlap, schedule: named(system, schedule), breaks: 'mutual-exclusion' };
}

function memory(system: System): Hazard {
  const stress = lossStressOf(system);
  if (stress === null) return { id: 'memory', holds: true, schedule: null, breaks: null };
  return shared('memory', system, stress);
}

/** What the client does wrong by itself where connections reorder; a search may find more (`inside.ts`). */
function client(system: System): Hazard {
  const schedule = lateReleaseOf(system)?.schedule ?? null;
  return { id: 'client', holds: schedule === null, schedule, breaks: 'mutual-exclusion' };
}

/** Whether no write comes too late. */
export function writesHold(system: System): boolean {
  return writes(system).holds;
}

/** A write at the end of the longest work, or one that is checked. With tokens that are checked, none does harm. */
function writes(system: System): Hazard {
  const { client, work, resource } = system;
  const id = 'writes' as const;
  const fenced = resource.checksToken && client.policy.settings.fencing;
  if (!work.writes || fenced) return { id, holds: true, schedule: null, breaks: null };
  const way = wayOf(system);
  const write: Write =
    client.guardUs === null
      ? { kind: 'unguarded', workUs: work.longestUs, way }
      : { kind: 'guarded', guardUs: client.guardUs, way };
  // Who extends has the lock for as long as the work takes: what is left to chance is the pause before a write.
  if (work.extends && client.guardUs === null) {
    const atLast: Write = { kind: 'guarded', guardUs: 0, way };
    const schedule = writeSchedule(workStressOf(system), atLast);
    return { id, holds: !isLate(schedule), schedule: named(system, schedule), breaks: 'no-stale-write' };
  }
  const schedule = writeSchedule(workStressOf(system), write);
  return {
    id,
    holds: schedule !== null && !isLate(schedule),
    schedule: named(system, schedule),
    breaks: 'no-stale-write',
  };
}

/** The schedule with the client under its name, for readers: its policy is the same. */
export function named<S extends Schedule | null>({ client }: System, schedule: S): S {
  if (schedule === null) return schedule;
  const { settings, deviations = [], habits } = schedule.policy;
  const change = {
    ...(settings === undefined ? {} : { settings }),
    deviations,
    ...(habits === undefined ? {} : { habits }),
  };
  return { ...schedule, policy: choiceOf(policyWith(change, client.policy)) };
}
