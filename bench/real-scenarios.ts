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

\`npm run -s docs:real\` wrote this page in ${minutes} minutes. \`npm run -s lockstep -- replay S03 --real\` runs one scenario.

The schedules of the catalogue run against Lockstep's own redis-server processes.

* Clients use the driver of the lock for production, under the scenario's policy.
* Each message goes through a proxy, which gives it the fate of the schedule.
* Faults hit the processes: SIGKILL and SIGSTOP, restarts with and without data, a truncated append-only file, flushes, ACLs for errors,
  libfaketime for the clocks of nodes.
* Clients share a process. Their clocks derive from its clock, and can be set back or stopped.
* Verdicts come from what is visible from outside: the recorded history, writes as they reach the resource, and the keys of all nodes, read
  every 20 ms.

The timing differs from that of the schedule: keys live shorter, and busy moments are stretched. The time scale is the fastest at which
the simulated verdict survives all of 300 samples with noise: everything up to 20 ms late, messages up to 12 ms, servers that take up to
200 ms to start, clocks up to 5 ms off. If there is none, the margin is below the noise, and the scenario is not played. The order of the
acquisitions is compared too, unless noise changes it. A difference is attributed to the machine only if the machine was measured to be
slower than that, and if that delay changes the simulated outcome too.

${summary(outcomes)} (${nodes.replace(/^\d+ × /, '')}).

| id | scenario | simulated | real | key's life, ms | |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
writeWhole(DOCUMENT, text, process.cwd());
stdout.write(`${DOCUMENT} written: ${summary(outcomes)}, in ${minutes} minutes\n`);
const has = (status: RealOutcome['status']): boolean => outcomes.some((outcome) => outcome.status === status);
process.exitCode = has('differed') ? 3 : has('noisy') ? 2 : 0;
