import { type PairsReport, pairsText } from '../cli/pairs-text.js';

/** `docs/pairs.md` of what `libraries --pairs --json` printed. */
export function pairsPage(report: PairsReport): string {
  const { libraries, pairs, schedules, runs, seed } = report;
  const unsafe = pairs.filter(({ verdict }) => verdict === 'unsafe');
  const calm = unsafe.filter(({ fault }) => fault === 'calm');
  const events = Math.max(...unsafe.map((it) => it.events));
  return `# The matrix of pairs

\`npm run -s docs:pairs\` writes this page (seed \`${seed}\`, ${runs} schedules per fault class). [What a pair is, and when it is
unsafe](libraries.md#two-libraries-beside-each-other).

* ${libraries.length} libraries make ${libraries.length ** 2} ordered pairs. Each runs on one node and on three, with one name and with one key if that differs:
  ${pairs.length} cases.
* ${unsafe.length} cases are unsafe, ${calm.length} of them without any fault. ${Object.keys(schedules).length} schedules show all of these.
* No schedule has more than ${events} events: locks acquired, extended and released, faults, lost or late messages, clock errors.
* A test replays each of them: the pair fails, and neither library fails on it alone.

## What to do with it

1. **Compare the keys first.** Two libraries that make different keys of one name do not exclude each other. Make both use one key
   (*one key* below) while both run.
2. **Do not change the number of nodes and the library in one step.** A lock for one node uses only the first of three nodes. It does not
   exclude a majority of the other two.
3. **With one key and the same nodes, most pairs are safe.** If such a pair is unsafe, one of the two libraries has a
   [defect of its own](findings/README.md) that the other one reveals.
4. **A safe pair is not a proof.** The search is limited as above, and omits fault classes that one of the two libraries does not tolerate
   alone. If you can, wait for more than a TTL between the last lock of the old library and the first lock of the new one.

One pair, with a page of its run: \`lockstep libraries --pair redlock4,redis-semaphore\`.

\`\`\`text
${pairsText(report).trimEnd()}
\`\`\`
`;
}
