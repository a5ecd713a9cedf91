import { describe, expect, it } from 'vitest';
import { type PolicyChange, policyWith } from '../deviations/index.js';
import { check } from '../search/check.js';
import { type FaultModel, WITHIN_ASSUMPTIONS } from '../search/fault-model.js';
import { DEFAULT_SCOPE, type ExploredProperty, type ExploreScope } from './bounds.js';
import { explore } from './explore.js';

/** The same question to both: a small world to exhaust, and a fault model to draw large ones from. */
interface Question {
  readonly bounds?: Partial<ExploreScope>;
  readonly faultModel?: Partial<FaultModel>;
  /** What differs from the sound policy in both. */
  readonly policy?: PolicyChange;
  readonly property?: Exclude<ExploredProperty, 'none'>;
  readonly verdict: 'safe' | 'violated';
}

const CALM: Partial<FaultModel> = {
  nodes: 3,
  clients: 2,
  ttlsMs: [1_000],
  stretch: { 'clock-drift': 0, 'clock-step': 0, 'restart-delay': 0, 'data-loss': 0, 'write-delay': 0 },
  crashes: 0,
};
const ONE_CRASH: Partial<FaultModel> = {
  crashes: 1,
  stretch: { 'clock-drift': 0, 'clock-step': 0, 'restart-delay': 1, 'data-loss': 0, 'write-delay': 0 },
};

const QUESTIONS: Readonly<Record<string, Question>> = {
  'nothing but messages': { verdict: 'safe' },
  'nothing but messages, one node': { bounds: { nodes: 1 }, faultModel: { nodes: 1 }, verdict: 'safe' },
  'nothing but messages, two nodes': { bounds: { nodes: 2 }, faultModel: { nodes: 2 }, verdict: 'safe' },
  'nothing but messages, a quorum behind every belief': { property: 'quorum-backed', verdict: 'safe' },
  'a crash, back at once': {
    bounds: { crashes: 1, restartDelay: 0 },
    faultModel: { ...ONE_CRASH, restartDelayUs: 0 },
    verdict: 'violated',
  },
  'a crash of the only node, back at once': {
    bounds: { nodes: 1, crashes: 1, restartDelay: 0 },
    faultModel: { ...ONE_CRASH, nodes: 1, restartDelayUs: 0 },
    verdict: 'violated',
  },
  'a crash, back after a TTL': { bounds: { crashes: 1, restartDelay: 3 }, faultModel: ONE_CRASH, verdict: 'safe' },
  'a crash, back much later': {
    bounds: { crashes: 1, restartDelay: null },
    faultModel: { ...ONE_CRASH, restartDelayUs: 60_000_000 },
    verdict: 'safe',
  },
  'a crash, back at once, with a quorum of all': {
    bounds: { crashes: 1, restartDelay: 0 },
    faultModel: { ...ONE_CRASH, restartDelayUs: 0 },
    policy: { deviations: ['quorum:3'] },
    verdict: 'safe',
  },
  'a clock that is off, and no allowance': {
    bounds: { drift: 1 },
    faultModel: {
      stretch: { 'clock-drift': 1, 'clock-step': 0, 'restart-delay': 0, 'data-loss': 0, 'write-delay': 0 },
      ratePpm: 5_000,
    },
    policy: { settings: { driftPpm: 0, driftUs: 0 } },
    property: 'quorum-backed',
    verdict: 'violated',
  },
  'a clock that is off by what is allowed for': {
    bounds: { drift: 1, allowance: 1, ttl: 2 },
    faultModel: {
      stretch: { 'clock-drift': 1, 'clock-step': 0, 'restart-delay': 0, 'data-loss': 0, 'write-delay': 0 },
    },
    verdict: 'safe',
  },
  'a quorum of one': { policy: { deviations: ['quorum:1'] }, verdict: 'violated' },
  'a quorum of half of the nodes': {
    bounds: { nodes: 2 },
    faultModel: { nodes: 2 },
    policy: { deviations: ['half-quorum'] },
    verdict: 'violated',
  },
  'validity from the answers': {
    policy: { deviations: ['counts-from-reply'] },
    property: 'quorum-backed',
    verdict: 'violated',
  },
  'validity that is not checked': {
    faultModel: { ttlsMs: [20, 50] },
    policy: { deviations: ['validity-unchecked'] },
    property: 'acquisition',
    verdict: 'violated',
  },
  'keys that are overwritten': { policy: { deviations: ['sets-any'] }, verdict: 'violated' },
  'a delete of whatever is there': {
    bounds: { nodes: 1, clients: 3, releases: true },
    faultModel: { clients: 3 },
    policy: { deviations: ['deletes-any'] },
    property: 'quorum-backed',
    verdict: 'violated',
  },
  'releases at any time': { bounds: { releases: true }, verdict: 'safe' },
  'failed attempts that leave their keys': { policy: { deviations: ['cleans-nothing'] }, verdict: 'safe' },
  'an extension': { bounds: { extensions: 1, nodes: 1, timeout: 1 }, faultModel: { nodes: 1 }, verdict: 'safe' },
  'an extension by a minority': {
    bounds: { extensions: 1 },
    policy: { deviations: ['extension-votes:-1'] },
    property: 'quorum-backed',
    verdict: 'violated',
  },
  'an extension of whatever is there': {
    bounds: { extensions: 1, nodes: 1 },
    faultModel: { nodes: 1 },
    policy: { deviations: ['extends-late', 'extends-any'] },
    verdict: 'violated',
  },
  'one token for all tries': {
    bounds: { retries: 1, timeout: 1, link: 'reordering', ttl: 2 },
    policy: { deviations: ['token-per-call'] },
    property: 'quorum-backed',
    verdict: 'violated',
  },
  'a token for each try': {
    bounds: { retries: 1, timeout: 1, nodes: 2, ttl: 2 },
    faultModel: { nodes: 2 },
    verdict: 'safe',
  },
  'frozen clients': { bounds: { pauses: 1, ttl: 2 }, faultModel: { pauses: 2 }, verdict: 'safe' },
};

describe('the explorer and the random search', () => {
  it.each(Object.entries(QUESTIONS))('agree on %s', async (_, question) => {
    const { bounds, faultModel, policy = {}, property = 'mutual-exclusion', verdict } = question;
    const explored = explore({ bounds: { ...DEFAULT_SCOPE, ...bounds, policy }, property });
    expect(explored.verdict).toBe(verdict);
    const searched = await check({
      faultModel: { ...WITHIN_ASSUMPTIONS, ...CALM, ...faultModel, policy: policyWith(policy) },
      seed: 'agreement',
      runs: verdict === 'violated' ? 20_000 : 5_000,
      properties: [property],
      shrink: false,
    });
    expect(searched.counterexample === null ? 'safe' : 'violated').toBe(verdict);
  });

  it('are asked more than twenty questions', () => {
    expect(Object.keys(QUESTIONS).length).toBeGreaterThan(20);
  });
});
