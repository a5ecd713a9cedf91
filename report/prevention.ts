import { deviates, policyOf } from '../deviations/index.js';
import { assumptions } from '../properties/assumptions.js';
import { judge } from '../properties/judge.js';
import { mitigate, type PropertyId, type Schedule, type Verdict } from '../scenarios/index.js';

/** A mitigation with which the same schedule breaks nothing. */
export interface Prevention {
  /** As `replay --with` takes it. */
  readonly mitigation: string;
  /** `safe`, or `unavailable` where safety has that price. */
  readonly verdict: Verdict;
}

/**
 * Tries the known mitigations on a failing schedule, each by itself, and returns those with which it breaks none of the
 * properties. They say what would have prevented this failure, not that nothing else can happen.
 */
export function preventions(schedule: Schedule, properties: readonly PropertyId[]): Prevention[] {
  const found = new Map<string, Prevention>();
  for (const mitigation of candidates(schedule)) {
    const [name = ''] = mitigation.split('=');
    // The least of several values will do, and the whole policy only where nothing smaller does.
    if (found.has(name) || (name === 'policy' && found.size > 0)) continue;
    const verdict = verdictWith(schedule, mitigation, properties);
    if (verdict !== null) found.set(name, { mitigation, verdict });
  }
  return [...found.values()];
}

/** What comes of the schedule with a mitigation; `null` if that prevents nothing, or says nothing. */
function verdictWith(schedule: Schedule, mitigation: string, properties: readonly PropertyId[]): Verdict | null {
  const mitigated = mitigate(schedule, mitigation);
  if (JSON.stringify(mitigated) === JSON.stringify(schedule)) return null;
  const { verdict, run } = judge(mitigated, properties, true);
  if (verdict === 'violated') return null;
  // A run in which nobody takes the lock, or nobody writes any more, shows nothing.
  const happens = (kind: string): boolean => run.trace.some((event) => event.kind === kind);
  return happens('claim') && (!hasWrites(schedule) || happens('write-arrived')) ? verdict : null;
}

function hasWrites(schedule: Schedule): boolean {
  return schedule.clients.some((client) => client.locks.some((lock) => lock.writes.length > 0));
}

/** Mitigations that have to do with what is in the schedule, the most to the point first. */
export function candidates(schedule: Schedule): string[] {
  const { cluster, faults } = schedule;
  const policy = policyOf(schedule.policy);
  const broken = assumptions(schedule, policy);
  const list: string[] = [];
  if (deviates(policy, 'deletes-any')) list.push('token-check=on');
  if (policy.habits.clock !== 'boot') list.push('clock=boot');
  if (deviates(policy, 'deadline-counted-after-us')) list.push('deadline=absolute');
  if (faults.some((fault) => fault.kind === 'crash')) list.push('persistence=always', 'restart-delay=ttl');
  if (broken.includes('clock-step') || broken.includes('clock-drift'))
    list.push('drift-allowance=2%', 'drift-allowance=5%', 'drift-allowance=20%');
  if (faults.some((fault) => fault.kind === 'crash' || fault.kind === 'failover')) list.push('votes-wanted=all');
  if (cluster.nodes < 3) list.push('nodes=5');
  if (hasWrites(schedule)) list.push('guard=100ms', 'guard=1s');
  const { settings: { tries: _tries, ...settings } = {}, deviations = [], habits = {} } = schedule.policy;
  if (deviations.length + Object.keys({ ...settings, ...habits }).length > 0) list.push('policy=reference');
  return list;
}
