import {
  type Answer,
  answered,
  type Electorate,
  MOST_NODES,
  NO_NODES,
  type NodeSet,
  type Round,
  type Rules,
  size,
  type Tally,
} from '../core/index.js';
import { type Deviation, numbered, replaces, wraps } from './deviation.js';

const pending = (votes: Tally, { nodes }: Electorate): number => nodes - size(answered(votes));

/** When everybody has answered. */
const counted = (votes: Tally, { needed }: Electorate): 'yes' | 'no' => (size(votes.yes) >= needed ? 'yes' : 'no');

/** Takes one answer to one command for another. */
function takes(round: Round, answer: Answer, as: Answer, says: string): Deviation {
  return wraps('read', says, (below) => (it, of) => (it === answer && of === round ? as : below.read(it, of)));
}

/** Ends the acquisition on what the others go on after. */
function quits(says: string, test: Rules['quits']): Deviation {
  return wraps('quits', says, (below) => (because, votes) => test(because, votes) || below.quits(because, votes));
}

/** One node after the other. */
export function inTurn(todo: NodeSet, open: NodeSet): NodeSet {
  return open === NO_NODES ? ((todo & -todo) as NodeSet) : NO_NODES;
}

/** Whose votes count, what an answer is taken for, and when a round is decided. */
export const VOTES: Readonly<Record<string, Deviation>> = {
  'half-quorum': replaces('quorum', 'half of the nodes make a lock', (nodes) => Math.max(1, Math.floor(nodes / 2))),
  // redlock-php: min(N, N/2 + 1), compared with >=, so 3 of 3 and 4 of 5.
  'float-majority': replaces('quorum', 'the quorum is computed in floating point', (nodes) =>
    Math.ceil(Math.min(nodes, nodes / 2 + 1)),
  ),
  quorum: numbered('quorum', 'a quorum of this size, whatever the number of nodes', [1, MOST_NODES], (n) => () => n),
  'extension-votes': {
    rule: 'quorum',
    place: 'quorum',
    says: 'an extension needs so many votes more than a lock, or fewer',
    wraps: true,
    range: [-MOST_NODES, MOST_NODES],
    apply: (below, n) => (nodes: number, round: Round) => below.quorum(nodes, round) + (round === 'extend' ? n : 0),
  },

  'error-is-vote': takes('acquire', 'error', 'yes', 'the absence of a refusal is a vote'),
  'grant-is-error': takes('acquire', 'yes', 'error', 'a success is taken for an error'),
  'refusal-extends': takes('extend', 'no', 'yes', 'each answer to an extension but an error is a yes'),

  'settles-with-all': replaces('settle', 'a round is decided when all have answered or timed out', (votes, of) =>
    pending(votes, of) > 0 ? 'open' : counted(votes, of),
  ),
  'settles-early-on-yes': replaces('settle', 'a round that cannot be won any more goes on', (votes, of) => {
    if (size(votes.yes) >= of.wanted) return 'yes';
    return pending(votes, of) > 0 ? 'open' : counted(votes, of);
  }),
  'settles-early-on-no': replaces('settle', 'a round that is won goes on', (votes, of) => {
    const left = pending(votes, of);
    if (size(votes.yes) + left < of.needed) return 'no';
    return left > 0 ? 'open' : counted(votes, of);
  }),
  'settles-by-quorum-only': replaces(
    'settle',
    'a round ends when one side has a quorum: a tie never does',
    (votes, of) => {
      const yes = size(votes.yes);
      if (yes >= of.needed) return 'yes';
      return of.nodes - yes - pending(votes, of) >= of.needed ? 'no' : 'open';
    },
  ),

  'error-aborts': quits(
    'the first error ends the acquisition, with nothing released',
    (because) => because === 'error',
  ),
  'error-forfeits': quits(
    'an error ends an acquisition that was won, with nothing released',
    (because, votes) => because === 'win' && votes.failed !== NO_NODES,
  ),
  'lateness-quits': quits(
    'votes that come too late end the acquisition, with nothing released',
    (because) => because === 'too-slow',
  ),
  'errors-quit': quits(
    'an error without any vote ends the acquisition, with nothing released',
    (because, votes) => because !== 'error' && votes.yes === NO_NODES && votes.failed !== NO_NODES,
  ),

  'asks-in-turn': wraps('next', 'one node is asked after the other', (below) => (todo, open, last, operation) => {
    return operation === 'acquire' ? inTurn(todo, open) : below.next(todo, open, last, operation);
  }),

  'token-per-call': replaces('token', 'all attempts of a call have one token', (sofar, drawn) => sofar ?? drawn),
};
