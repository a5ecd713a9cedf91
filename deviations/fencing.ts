import type { FencingRules, NodeScripts } from '../core/index.js';
import { type Deviation, wraps } from './deviation.js';

const PLAIN_WRITE = `
redis.call('set', KEYS[1], ARGV[2] .. ' ' .. life)
return tonumber(ARGV[2])`;

const fencing = (says: string, change: Partial<FencingRules>): Deviation =>
  wraps('fencing', says, (below) => ({ ...below.fencing, ...change }));

const counter = (says: string, change: Partial<NodeScripts['counter']>): Deviation =>
  wraps('scripts', says, (below) => ({ ...below.scripts, counter: { ...below.scripts.counter, ...change } }));

/** Takes one number made of the counters that came with the votes for a fencing token. */
const made = (says: string, fromVotes: FencingRules['fromVotes']): Deviation =>
  fencing(says, { first: () => null, fromVotes, token: (_settings, it) => ({ counter: it, attempt: null }) });

/** Where fencing tokens come from, and what nodes make of their counters. */
export const FENCING: Readonly<Record<string, Deviation>> = {
  'fence-without-token': fencing('a fencing token is a counter alone, without the token of the attempt', {
    token: ({ fencing: isFenced }, it) => (isFenced ? { counter: it, attempt: null } : null),
  }),
  'fence-from-votes': fencing('the counters that came with the votes are taken for read', {
    first: ({ fencing: isFenced }) => (isFenced ? 'raise' : null),
    fromVotes: Math.max,
  }),
  // Counters count from 1 where a node increments them, so that 0 is none yet.
  'fence-max': made('the highest counter of the voters is the fencing token', Math.max),
  'fence-sum': made('the sum of the counters of the voters is the fencing token', (sofar, it) => sofar + it),
  'fence-min': made('the lowest counter of the voters is the fencing token', (sofar, it) =>
    sofar === 0 ? it : Math.min(sofar, it),
  ),

  'grants-count': counter('a node raises its counter by one when it grants', { countsGrants: true }),
  'counter-plainly-written': counter('a counter is set whatever it is', { raises: 'any', raise: PLAIN_WRITE }),
  'counter-kept': counter('a node that comes back goes by what is left of its counter', {
    rejoin: 'copy-if-missing',
    counts: '',
  }),
  'counter-from-zero': counter('a node that has lost its counter begins again at 0', {
    rejoin: 'at-once',
    counts: "\ncounter = counter or '0'",
  }),
};
