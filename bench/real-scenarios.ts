import type { RealOutcome } from '../cli/real-outcome.js';
import { playCatalogue, summary } from '../cli/replay-real.js';
import { writeWhole } from '../cli/write-file.js';
import { loadCatalogue } from '../scenarios/catalogue.js';

/*
 * Writes docs/real-scenarios.md: what came of each scenario of the catalogue on real nodes. It is written when all of them
 * have been played, and not where the run was interrupted. Exit 2 if the machine was too slow to tell of some.
 */

const { stdout, stderr, env } = process;
const DOCUMENT = 'docs/real-scenarios.md';
const begunMs = performance.now();
const controller = new AbortController();
process.on('SIGINT', () => controller.abort());
const outcomes = await playCatalogue({
  stdout,
  stderr,
  env,
  cwd: process.cwd(),
  signal: controller.signal,
  command: 'lockstep',
});
if (controller.signal.aborted) {
  stderr.write(`interrupted: ${DOCUMENT} is as it was\n`);
  process.exit(130);
}
const titles = new Map(loadCatalogue().map(({ id, title }) => [id, title]));

/** What a person reads in the last column. */
function remark(outcome: RealOutcome): string {
  const { status, reason, play } = outcome;
  if (status === 'agreed') {
    const properties = play?.found.properties.join(', ') ?? '';
    return `agrees${properties === '' ? '' : `: ${properties}`}`;
  }
  if (status === 'noisy') return `the machine was too slow to tell: ${reason}`;
  return status === 'differed' ? `**differs**: ${reason}` : `not played: ${reason}`;
}

const rows = outcomes.map((outcome) => {
  const { id, simulated, play } = outcome;
  const pace = play === null ? '' : `${play.ttlMs.written} → ${play.ttlMs.real}`;
  return `| ${id} | ${titles.get(id)} | ${simulated} | ${play?.found.verdict ?? '–'} | ${pace} | ${remark(outcome)} |`;
});
const nodes = outcomes.find(({ play }) => play !== null)?.play?.observation.nodes ?? 'no nodes';
const minutes = Math.max(1, Math.round((performance.now() - begunMs) / 60_000));
const text = `# Scenarios on real nodes

Written by \`npm run -s docs:real\`, in ${minutes} minutes; one of them: \`npm run -s lockstep -- replay S03 --real\`.

The schedules of the catalogue, played against own redis-server processes: clients are driven as the lock for production is,
under the scenario's policy, each message goes through a proxy that gives it the fate which the schedule has for it, and the
faults strike the processes: SIGKILL and SIGSTOP, restarts with and without data, a cut tail of the append-only file, flushes,
ACLs for errors, libfaketime for the clocks of nodes. Clients share a process; their clocks are made of its own, and can be set
back and stand still. Verdicts come from what shows from outside: the recorded history, writes as they reach
the resource, and a look at the keys of all nodes every 20 ms.

Times are not those of the schedule: a life of a key is shorter, and moments within which much happens are stretched. The
pace is the quickest at which the simulated verdict stands in all of 300 samples with noise: everything up to 20 ms late,
messages up to 12 ms, servers that take up to 200 ms to start, clocks up to 5 ms off. Where there is none, the margin is below
the noise and the scenario is refused. The order of the claims is compared as well where noise leaves it alone. A difference
is put down to the machine only where it was measured to be slower than that, and where that much changes the simulated
outcome as well.

${summary(outcomes)} (${nodes.replace(/^\d+ × /, '')}).

| id | scenario | simulated | real | key's life, ms | |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
writeWhole(DOCUMENT, text, process.cwd());
stdout.write(`${DOCUMENT} written: ${summary(outcomes)}, in ${minutes} minutes\n`);
const has = (status: RealOutcome['status']): boolean => outcomes.some((outcome) => outcome.status === status);
process.exitCode = has('differed') ? 3 : has('noisy') ? 2 : 0;
