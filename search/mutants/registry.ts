import { type PolicyChange, policyPlus, policyWith } from '../../deviations/index.js';
import { type FaultModel, NO_STRETCH, WITHIN_ASSUMPTIONS } from '../fault-model.js';
import type { Mutant } from './mutant.js';
import { PROTOCOL_BUGS } from './protocol-bugs.js';

export type { Mutant } from './mutant.js';

/** The fault model in which a planted bug is hunted; without its change, the one that the reference policy withstands. */
export function faultModelFor({ change, faultModel = {}, base = {} }: Mutant, changed = true): FaultModel {
  const sound: FaultModel = { ...WITHIN_ASSUMPTIONS, policy: policyWith(base), ...faultModel };
  if (!changed) return sound;
  return { ...sound, policy: policyPlus(change, sound.policy), ...change.world };
}

const CLAIMS: readonly Mutant[] = [
  {
    id: 'M01',
    story: 'The validity is not looked at once the votes are in: a lock is claimed that has expired on the way.',
    instance: 'node-redlock up to 5 beta (pull request 369)',
    change: { deviations: ['validity-unchecked'] },
    // As long as the node time-out, so that a slow attempt can outlast it.
    faultModel: { ttlsMs: [20, 50] },
    expect: 'acquisition',
  },
  {
    id: 'M02',
    story: 'The validity counts from the last answer instead of from before the first request.',
    instance: 'clients that time-stamp the result; the API of redlock-php and redlock-py invites it',
    change: { deviations: ['counts-from-reply'] },
    expect: 'acquisition',
  },
  {
    id: 'M03',
    story: 'Nothing is given up for clock drift, so that keys are gone on fast nodes while a slow client believes.',
    instance: 'the blog post and its translations, which leave the term out of the code',
    change: { settings: { driftPpm: 0, driftUs: 0 } },
    // A tenth of what the allowance is made for: it covers 0.5 % on both sides.
    faultModel: { stretch: { ...NO_STRETCH, 'clock-drift': 1 }, ratePpm: 1_000 },
    expect: 'quorum-backed',
  },
  {
    id: 'M04',
    story: 'The drift allowance is added instead of subtracted: every claim outlives its keys.',
    instance: 'redlock-py pull request 3; redsync issue 37 (its 2 ms)',
    change: { deviations: ['drift-added'] },
    faultModel: { stretch: NO_STRETCH },
    expect: 'acquisition',
  },
  {
    id: 'M06',
    story: 'A validity of exactly nothing is taken for a lock.',
    instance: 'node-redlock issue 296',
    change: { deviations: ['zero-is-valid'] },
    // 53 ms less the allowance is the node time-out: a claim that waits for a lost vote has nothing left.
    faultModel: { ttlsMs: [53] },
    expect: 'acquisition',
  },
  {
    id: 'M07',
    story: 'The quorum is half of the nodes, so that two clients can have one each.',
    instance: 'clients that round N / 2 down, or up for odd numbers only',
    change: { deviations: ['half-quorum'] },
    faultModel: { nodes: 4 },
    expect: 'acquisition',
  },
  {
    id: 'M13',
    story: 'The token is kept over attempts: the late release of one deletes the key of the next.',
    instance: 'redsync, redlock-php, node-redlock',
    change: { deviations: ['token-per-call'] },
    expect: 'unique-token',
  },
  {
    id: 'M17',
    story: 'The key is set whether or not it is there: the last client takes the lock from its holder.',
    instance: 'SET without NX, in many home-made locks',
    change: { deviations: ['sets-any'] },
    expect: 'owner-only-release',
  },
];

const CLOCKS: readonly Mutant[] = [
  {
    id: 'M20',
    story: 'The client measures by the wall clock: somebody sets it back, and the claim outlives its keys.',
    instance: 'node-redlock, redlock-php, redlock-py, Redisson; redlock-rb issue 50',
    change: { habits: { clock: 'wall' } },
    expect: 'quorum-backed',
  },
  {
    id: 'M21',
    story: 'The client measures by a clock that stops while its machine is suspended, and its keys expire.',
    instance: 'CLOCK_MONOTONIC on Linux: redsync, pottery, aioredlock, rslock',
    change: { habits: { clock: 'monotonic' } },
    expect: 'quorum-backed',
  },
  {
    id: 'M22',
    story: 'The client says for how long the lock is valid, and its caller starts to count when it gets round to it.',
    instance: 'the interfaces of redlock-rb, redlock-py and redlock-php',
    change: { deviations: ['deadline-counted-after-us:200000'] },
    expect: 'acquisition',
  },
];

const RELEASES: readonly Mutant[] = [
  {
    id: 'M09',
    story: 'A plain DEL on release removes the key of the client that holds the lock by then.',
    instance: 'the blog post that most home-made locks are copied from',
    change: { deviations: ['deletes-any'] },
    expect: 'owner-only-release',
  },
  {
    id: 'M11',
    story: 'A lock is released only where its SET was granted: where the answer was lost, the key stays.',
    instance: 'redlock-rb before pull request 5',
    change: { deviations: ['releases-granted'] },
    expect: 'release-to-all',
  },
  {
    id: 'M11b',
    story: 'A failed attempt is cleaned up only where its SET was granted: where the answer was lost, the key stays.',
    instance: 'redlock-rb before pull request 5',
    change: { deviations: ['cleans-granted'] },
    expect: 'cleanup',
  },
  {
    id: 'M12',
    story: 'A failed attempt is not cleaned up: its keys keep everybody out until they expire.',
    instance: 'node-redlock',
    change: { deviations: ['cleans-nothing'] },
    expect: 'cleanup',
  },
  {
    id: 'M12b',
    story: 'Only the last of the attempts is cleaned up: the keys of the others keep everybody out, their owner too.',
    instance: 'node-redlock',
    change: { deviations: ['cleans-last-only'] },
    expect: 'cleanup',
  },
];

/** The sound lock with extensions that heal. */
const HEALING: PolicyChange = { deviations: ['extension-heals'] };

const EXTENSIONS: readonly Mutant[] = [
  {
    id: 'M34',
    story: 'An extension sets the key without a look at its owner.',
    instance: 'PEXPIRE or SET XX without a look at the token',
    change: { deviations: ['extends-any'] },
    expect: 'owner-only-release',
  },
  {
    id: 'M35',
    story: 'One vote too few is enough for an extension.',
    instance: 'clients that extend where they can and call it done',
    change: { deviations: ['extension-votes:-1'] },
    expect: 'extension',
  },
  {
    id: 'M36',
    story: 'The new validity counts from the answers instead of from before the round.',
    instance: 'clients that time-stamp the result',
    change: { deviations: ['extension-counts-from-reply'] },
    expect: 'extension',
  },
  {
    id: 'M37',
    story: 'Nobody looks at what an extension leaves: a lock is taken for extended that is over.',
    instance: 'redsync issue 71',
    change: { deviations: ['extension-unchecked'] },
    expect: 'extension',
  },
  {
    id: 'M38',
    story: 'A late extension sets keys again that were gone, and does not notice that another client had the lock.',
    instance: 'redlock-rb issue 36, redis-semaphore issue 175, RedLock.net pull request 49',
    change: { deviations: ['extends-missing', 'extends-late'] },
    // One that is refused may have shortened its keys, which shows sooner.
    by: ['continuity'],
    expect: 'continuity',
  },
  {
    id: 'M38b',
    story: 'A healing extension that comes late wins back the keys of a lock that is over.',
    instance: 'M38 in the lock for production: what healing must not be',
    base: HEALING,
    change: { deviations: ['extends-late'] },
    by: ['continuity'],
    expect: 'continuity',
  },
  {
    id: 'M38c',
    story:
      'A healing extension counts one vote too few, as if the keys it set were votes of the nodes that have yet to answer.',
    instance: 'M35 in the lock for production: what healing must not be',
    base: HEALING,
    change: { deviations: ['extension-votes:-1'] },
    expect: 'extension',
  },
  {
    id: 'M38d',
    story: 'A healing extension sets keys whatever TTL they have, so that one that is late undercuts a longer one.',
    instance: 'redlock-cpp, antirez/redlock-rb: SET in place of PEXPIRE',
    base: HEALING,
    change: { deviations: ['extends-missing'] },
    by: ['quorum-backed'],
    expect: 'quorum-backed',
  },
  {
    id: 'M38e',
    story: 'What a healing extension set after its release was sent stays, and keeps others out.',
    instance: 'a late SET of an acquisition, which is known, and one of an extension, which is forgotten',
    base: HEALING,
    change: { deviations: ['late-grants-stay'] },
    by: ['cleanup', 'release-to-all'],
    expect: 'cleanup',
  },
];

const WORLDS: readonly Mutant[] = [
  {
    id: 'M45',
    story: 'Nodes without persistence are back at once after a crash, and vote twice.',
    instance: 'a supervisor that restarts Redis, or any container platform',
    change: { world: { restartDelayUs: 0 } },
    expect: 'quorum-backed',
  },
  {
    id: 'M48',
    story: 'Nodes that promise to write before they answer do not: the power goes, and they vote twice.',
    instance: 'disks and virtual machines that acknowledge an fsync from their cache',
    change: { world: { answersEarly: true } },
    expect: 'quorum-backed',
  },
  {
    id: 'M50',
    story: 'Clocks that can be set are used: one jumps by a second, and a claim and its keys end apart.',
    instance: 'Redis, which expires keys by the wall clock; node-redlock and redlock-php, which count by it',
    change: { world: { stepUs: 1_000_000 } },
    expect: 'quorum-backed',
  },
];

const FENCED = { base: { settings: { fencing: true } }, faultModel: { nodes: 3 }, expect: 'fencing' } as const;

const FENCING: readonly Mutant[] = [
  {
    id: 'M54',
    story: 'Each node counts its grants, and the highest count of the voters is taken for a fencing token.',
    instance: 'INCR beside the SET, in home-made fencing',
    change: { settings: { fencing: false }, deviations: ['fence-max', 'grants-count'] },
    ...FENCED,
  },
  {
    id: 'M54c',
    story: 'Each node counts its grants, and the sum over the voters is taken for a fencing token.',
    instance: 'the same, by an author who has seen that the highest count does not rise',
    change: { settings: { fencing: false }, deviations: ['fence-sum', 'grants-count'] },
    ...FENCED,
  },
  {
    id: 'M54d',
    story: 'Each node counts its grants, and the lowest count of the voters is taken for a fencing token.',
    instance: 'the same, by an author who wants a number that all voters have reached',
    change: { settings: { fencing: false }, deviations: ['fence-min', 'grants-count'] },
    ...FENCED,
  },
  {
    id: 'M54e',
    story: 'The new counter is written as it comes: a write that is late lowers it, and tokens come twice.',
    instance: 'GET, then SET of one more',
    change: { settings: { fencing: true }, deviations: ['counter-plainly-written'] },
    ...FENCED,
  },
  {
    id: 'M54f',
    story:
      'The counters that came with the votes are taken for read, though earlier holders may have raised them since.',
    instance: 'one round trip saved',
    change: { settings: { fencing: true }, deviations: ['fence-from-votes'] },
    ...FENCED,
  },
  {
    id: 'M54h',
    story: 'A node that has lost its counter counts from 0, and a quorum with it knows less than it did.',
    instance: 'counters on nodes without persistence',
    change: { deviations: ['counter-from-zero'] },
    ...FENCED,
  },
  {
    id: 'M54i',
    story: 'A node that comes back with an old counter goes by it, and a quorum with it knows less than it did.',
    instance: 'only an empty node copies the counter of others: a restart from an RDB dump, appendfsync everysec',
    change: { deviations: ['counter-kept'] },
    ...FENCED,
    faultModel: { nodes: 3, persistence: 'rdb' },
  },
  {
    id: 'M54b',
    story: 'The resource takes each fencing token once, and refuses the second write of its holder.',
    instance: 'comparing with "not higher" instead of "lower"',
    change: { world: { resource: 'fencing-strict' } },
    ...FENCED,
    faultModel: { resource: 'fencing' },
  },
];

/** All planted bugs. */
export const MUTANTS: readonly Mutant[] = [
  ...CLAIMS,
  ...PROTOCOL_BUGS,
  ...CLOCKS,
  ...RELEASES,
  ...EXTENSIONS,
  ...WORLDS,
  ...FENCING,
];
