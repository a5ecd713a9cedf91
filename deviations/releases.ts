import { NO_NODES, type NodeSet, type ReleaseCause, size, type Tally, union, without } from '../core/index.js';
import { type Deviation, replaces, wraps } from './deviation.js';
import { inTurn } from './votes.js';

/** Sends what a cause would send to all nodes to others. */
function sends(causes: readonly ReleaseCause[], says: string, to: (votes: Tally, all: NodeSet) => NodeSet): Deviation {
  return wraps('releaseTo', says, (below) => (cause, votes, nodes) => {
    const all = below.releaseTo(cause, votes, nodes);
    return causes.includes(cause) ? to(votes, all) : all;
  });
}

const CLEAN_UPS = ['clean-up', 'last clean-up'] as const;

/** A release is a success where a quorum gives these answers. */
function releaseNeeds(says: string, counts: (votes: Tally) => NodeSet): Deviation {
  return wraps('freed', says, (below) => (cause, votes, open, needed) => {
    if (cause === 'clean-up') return below.freed(cause, votes, open, needed);
    const freed = size(counts(votes));
    if (freed >= needed) return 'enough';
    return freed + size(open) < needed ? 'short' : 'open';
  });
}

/** What is released, on which nodes, and when that is done; the pauses between attempts. */
export const RELEASES: Readonly<Record<string, Deviation>> = {
  'releases-in-turn': wraps(
    'next',
    'releases go to one node after the other',
    (below) => (todo, open, last, operation) => {
      return operation === 'release' ? inTurn(todo, open) : below.next(todo, open, last, operation);
    },
  ),
  'releases-until-error': wraps(
    'next',
    'releases go to one node after the other, up to the first that fails',
    (below) => (todo, open, last, operation) => {
      if (operation === 'acquire') return below.next(todo, open, last, operation);
      return open === NO_NODES && last === 'error' ? null : inTurn(todo, open);
    },
  ),

  'no-pauses': replaces('pause', 'one attempt follows the other without a pause', () => 0),
  'pauses-after-last': replaces('pausesAfter', 'a failure is told of after one more pause', () => true),

  'cleans-unless-refused': sends(CLEAN_UPS, 'a failed attempt is not cleaned up on nodes that refused', (votes, all) =>
    without(all, votes.no),
  ),
  'cleans-granted': sends(CLEAN_UPS, 'a failed attempt is cleaned up on nodes that granted only', (votes) => votes.yes),
  'cleans-nothing': sends(CLEAN_UPS, 'a failed attempt is not cleaned up', () => NO_NODES),
  'cleans-last-only': sends(['clean-up'], 'only the last attempt is cleaned up', () => NO_NODES),
  'cleans-all-but-last': sends(['last clean-up'], 'the last attempt is not cleaned up', () => NO_NODES),
  'releases-granted': sends(['release'], 'a lock is released on nodes that granted only', (votes) => votes.yes),

  'release-must-delete': releaseNeeds('a release is a success if a quorum deleted the key', (votes) => votes.yes),
  'release-must-free': releaseNeeds('a release is a success if a quorum is free of the key', (votes) =>
    union(votes.yes, votes.no),
  ),
  'release-awaits-all': wraps(
    'freed',
    'a release returns when all have answered or timed out',
    (below) => (cause, votes, open, needed) =>
      cause === 'release' && open !== NO_NODES ? 'open' : below.freed(cause, votes, open, needed),
  ),
  'awaits-clean-up': wraps(
    'freed',
    'the pause begins when a quorum has answered the clean-up',
    (below) => (cause, votes, open, needed) => {
      if (cause === 'release') return below.freed(cause, votes, open, needed);
      return open === NO_NODES || size(union(votes.yes, votes.no)) >= needed ? 'enough' : 'open';
    },
  ),
  'awaits-whole-clean-up': wraps(
    'freed',
    'the pause begins when all have answered the clean-up or timed out',
    (below) => (cause, votes, open, needed) => {
      if (cause === 'release') return below.freed(cause, votes, open, needed);
      return open === NO_NODES ? 'enough' : 'open';
    },
  ),
  'late-grants-stay': replaces('releasesLate', 'what is granted after its release stays', () => false),
};
