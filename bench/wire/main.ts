import { parseArgs } from 'node:util';
import seedrandom from 'seedrandom';
import { Comparison, type Difference, LIBRARY_SCRIPTS } from './compare.js';
import { real, simulated } from './servers.js';

/*
 * Random commands for the simulated server and for a redis-server of this machine, side by side, on one clock.
 * `npm run -s conformance:wire -- --runs 1000000`. Ends with 1 if they differ.
 */

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    show: { type: 'string', default: '20' },
  },
});

const SHOWN_BEFORE = 6;

function show({ command, real: expected, simulated: found, before }: Difference): string {
  const line = (argv: readonly string[]): string => argv.map((it) => JSON.stringify(it)).join(' ');
  const history = before.slice(-SHOWN_BEFORE).map((it) => `    ${line(it)}\n`);
  return `${history.join('')}  > ${line(command)}\n    redis      ${expected}\n    simulated  ${found}\n`;
}

await using redis = await real();
await using node = await simulated();
const wanted = Number(values.runs);
const comparison = new Comparison(redis, node, seedrandom(values.seed));
while (comparison.commands < wanted && comparison.differences.length < Number(values.show)) await comparison.sequence();
const { commands, differences } = comparison;
for (const difference of differences.slice(0, Number(values.show))) process.stdout.write(show(difference));
process.stdout.write(
  `${commands} commands, seed ${values.seed}, scripts of libraries: ${LIBRARY_SCRIPTS}, differences: ${differences.length}\n`,
);
process.exitCode = differences.length === 0 ? 0 : 1;
process.exit();
