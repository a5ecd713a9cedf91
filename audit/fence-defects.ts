import type { Defect } from './defect.js';
import type { FoundLock } from './understand.js';

const DRAWN_LATE: Defect = {
  id: 'fencing-token',
  sentence:
    'its fencing token is drawn when the work is done, as it writes, and not with the lock: a holder whose lock has run out draws the newest number, and overwrites what a later holder has written',
  fix: 'draw the token in the script that sets the lock, keep it while the work goes on, and hand that to each write',
  brings: [],
  property: 'fencing',
  isShown: true,
};

/** What draws a fencing token after the work under a lock has ended, and never before. */
export function drawnLateDefects({ alone }: FoundLock['seen']): Defect[] {
  const draws = alone.trial?.sent.filter(({ verb, key }) => /^h?incr(?:by)?$/.test(verb) && /fenc/i.test(key)) ?? [];
  return draws.length > 0 && draws.every(({ atMs }) => atMs >= alone.releasedMs) ? [DRAWN_LATE] : [];
}

/** What is wrong with how tokens are compared. */
export function comparisonDefects({ comparesTokens }: FoundLock['seen']): Defect[] {
  if (!comparesTokens) return [];
  return [
    {
      id: 'fencing-token',
      sentence:
        'its script compares fencing tokens as texts, as Lua does with what HGET and ARGV are: "10" is less than "9", so that a token that is newer is refused, and a late write of an old holder is taken',
      fix: 'compare numbers: tonumber(ARGV[1]) < tonumber(seen)',
      brings: [],
      property: 'fencing',
      isShown: true,
    },
  ];
}
