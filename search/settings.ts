import { hasFencingTokens, type Policy, PROFILES, policyWith } from '../deviations/index.js';
import { notAProfile } from '../scenarios/checks.js';
import { InputError } from '../scenarios/input-error.js';
import type { PropertyId } from '../scenarios/scenario.js';
import { keepsBounds } from './bounds.js';
import { type FaultChoice, withFaults } from './fault-choice.js';
import { type FaultModel, mostDownOf } from './fault-model.js';

/** What somebody says of a search; all else is as in the fault model that it begins with. */
export interface SearchSettings {
  readonly nodes?: number;
  readonly clients?: number;
  /** ms. */
  readonly ttl?: readonly [number, ...number[]];
  /** What clients keep back of the TTL for clock errors, ppm. */
  readonly driftAllowance?: number;
  readonly faults?: FaultChoice;
  /** µs; `ttl` for longer than any key lives. */
  readonly restartDelay?: number | 'ttl';
  readonly persistence?: FaultModel['persistence'];
  readonly targetVotes?: number | 'all' | 'quorum';
  /** A client profile. */
  readonly profile?: string;
  readonly properties?: readonly PropertyId[];
}

/** What a search may do, and what it looks for. */
interface Search {
  readonly faultModel: FaultModel;
  readonly properties: readonly PropertyId[];
  /** Further properties, which count only in schedules that keep the assumptions of the lock. */
  readonly insideOnly: readonly PropertyId[];
}

/** What the demonstration searches: the failure that redis.io warns of, and the network that brings it about. */
export const DEMONSTRATION: SearchSettings = {
  nodes: 5,
  clients: 2,
  ttl: [10_000],
  faults: { only: { crash: 1, partition: 1, loss: 20_000 } },
  restartDelay: 0,
  persistence: 'none',
};

const ALWAYS: readonly PropertyId[] = ['mutual-exclusion'];
/**
 * A lost majority is a danger, and no harm yet; and no lock withstands a write that is later than it allowed for. They count
 * by default where the lock claims that they never happen: as long as its assumptions are kept.
 */
const WITHIN: readonly PropertyId[] = ['quorum-backed', 'no-stale-write'];

/**
 * Resolves settings.
 *
 * @throws {@link InputError} if two of them contradict each other.
 */
export function searchOf(settings: SearchSettings, base: FaultModel): Search {
  const faultModel = faultModelOf(settings, base);
  const { properties, insideOnly } = judged(settings, faultModel);
  return { faultModel: fencedFor(properties, faultModel), properties, insideOnly };
}

/** What counts: all that is named; else all that the lock claims of what can happen in this fault model. */
function judged({ properties }: SearchSettings, faultModel: FaultModel): Omit<Search, 'faultModel'> {
  if (properties !== undefined) return { properties, insideOnly: [] };
  const claimed = WITHIN.filter((it) => it !== 'no-stale-write' || faultModel.stretch['write-delay'] > 0);
  return keepsBounds(faultModel)
    ? { properties: [...ALWAYS, ...claimed], insideOnly: [] }
    : { properties: ALWAYS, insideOnly: claimed };
}

/** Who looks for broken fencing gets locks with fencing tokens, and a resource that looks at them. */
function fencedFor(properties: readonly PropertyId[], faultModel: FaultModel): FaultModel {
  if (!properties.includes('fencing') || hasFencingTokens(faultModel.policy)) return faultModel;
  return { ...faultModel, policy: policyWith({ settings: { fencing: true } }, faultModel.policy), resource: 'fencing' };
}

function faultModelOf(settings: SearchSettings, base: FaultModel): FaultModel {
  const { nodes = base.nodes, clients = base.clients, ttl = base.ttlsMs, faults, restartDelay } = settings;
  const faultModel: FaultModel = {
    ...(faults === undefined ? base : withFaults(base, faults)),
    nodes,
    clients,
    ttlsMs: ttl,
    policy: policyFor(settings, base.policy),
    persistence: settings.persistence ?? base.persistence,
  };
  if (typeof settings.targetVotes === 'number' && settings.targetVotes > nodes) {
    throw new InputError(
      `--target-votes: ${settings.targetVotes} is more than there are nodes; use ${nodes}, all or quorum`,
    );
  }
  // Data loss has a bound of its own, with votes beyond the quorum and nodes that are back at once.
  const stretch =
    restartDelay === undefined && settings.targetVotes === undefined
      ? faultModel.stretch
      : { ...faultModel.stretch, 'data-loss': 0 };
  if (restartDelay === undefined) return { ...faultModel, stretch };
  if (mostDownOf(faultModel) === 0) {
    throw new InputError(
      '--restart-delay: no node ever crashes in this search; add crash=1 or power-loss=1 to --faults',
    );
  }
  const restartDelayUs = restartDelay === 'ttl' ? (Math.max(...ttl) + 1) * 1000 : restartDelay;
  return { ...faultModel, stretch: { ...stretch, 'restart-delay': 1 }, restartDelayUs };
}

function policyFor(settings: SearchSettings, base: Policy): Policy {
  const { profile, driftAllowance, targetVotes } = settings;
  if (profile !== undefined && !Object.hasOwn(PROFILES, profile)) {
    throw new InputError(`--profile: ${notAProfile(profile)}`);
  }
  const changed = {
    ...(driftAllowance === undefined ? {} : { driftPpm: driftAllowance }),
    ...(targetVotes === undefined ? {} : { votesWanted: targetVotes }),
  };
  return policyWith({ settings: changed }, (profile === undefined ? undefined : PROFILES[profile]) ?? base);
}
