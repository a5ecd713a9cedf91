import type { Suite } from '../outcome.js';

/** What each form has to escape. */
const NASTY = 'a < b & "c" > d\u0000\u001b[31m ]]> \ud800 %0A é\nsecond: line, 100%';

/** One case of each result. */
export const SUITE: Suite = {
  name: 'lockstep check',
  seconds: 1.25,
  summary: 'violated',
  cases: [
    { name: 'mutual exclusion', result: 'failed', message: NASTY, text: NASTY, file: 'a:b,c.json' },
    { name: 'quorum-backed', result: 'skipped', message: 'ended' },
    { name: 'fencing', result: 'undecided', message: 'too little' },
    { name: 'cleanup', result: 'passed' },
  ],
};
