import { type PairsReport, pairsText } from '../cli/pairs-text.js';

/** `docs/pairs.md` of what `libraries --pairs --json` printed. */
export function pairsPage(report: PairsReport): string {
  const { libraries, pairs, schedules, runs, seed } = report;
  const unsafe = pairs.filter(({ verdict }) => verdict === 'unsafe');
  const calm = unsafe.filter(({ fault }) => fault === 'calm');
  const events = Math.max(...unsafe.map((it) => it.events));
  return `# The matrix of pairs

\`npm run -s docs:pairs\` writes this page (seed \`${seed}\`, ${runs} schedules of each class of faults). [What a pair is, and when it is
unsafe](libraries.md#two-libraries-beside-each-other). ${libraries.length} libraries make ${libraries.length ** 2} ordered pairs. They are put beside each other on one node and on three, with
one name and with one key, wherever that is another case: ${pairs.length} cases. ${unsafe.length} of them are unsafe, ${calm.length} without any fault. Between
them they need ${Object.keys(schedules).length} schedules. None has more than ${events} events: locks asked for, extended and released, faults, messages that are
lost or late, wrong clocks. A test replays each of them: the pair fails, and neither library fails on it by itself.

## What to do with it

1. **Compare the keys first.** Two libraries that make different keys of one name do not exclude each other. Give one of the two the key
   of the other for a name (*one key* below) while both run.
2. **Do not change the number of nodes and the library in one step.** A lock that is made for one node asks the first of three only. A
   majority of the other two does not meet it.
3. **With one key and the same nodes, most pairs are safe.** Where such a pair is unsafe, one of the two has a
   [defect of its own](findings/README.md) that the other one brings to light.
4. **No finding is no proof.** The search is the one above, and classes of faults that one of the two does not withstand by itself are left
   out. Leave more than a TTL between the last lock of the old library and the first of the new one if you can.

One pair, with a page of its run: \`lockstep libraries --pair redlock4,redis-semaphore\`.

\`\`\`text
${pairsText(report).trimEnd()}
\`\`\`
`;
}
