import { parseArgs } from 'node:util';
import { textTable } from '../cli/text-table.js';
import { type Longest, measureStyle } from './measure-style.js';

/** Prints the figures by which the house is kept (`--json`: those alone; `--undocumented`: exports without a docstring). */
const { values } = parseArgs({ options: { json: { type: 'boolean' }, undocumented: { type: 'boolean' } } });
const { style, longestFiles, longestFunctions, undocumented } = measureStyle();

if (values.json) process.stdout.write(`${JSON.stringify(style, null, 2)}\n`);
else if (values.undocumented) process.stdout.write(undocumented.map((it) => `${it}\n`).join(''));
else {
  const { files, functions } = style;
  const rows = [
    ['lines of a source file, median', `${files.median}`, ''],
    ['… 90th percentile', `${files.p90}`, ''],
    ['… longest', `${files.max}`, place(longestFiles[0])],
    ['lines of a function, 99th percentile', `${functions.p99}`, ''],
    ['… longest', `${functions.max}`, place(longestFunctions[0])],
    ['any', `${style.any}`, ''],
    ['non-null assertions', `${style.nonNull}`, ''],
    ['cycles of imports', `${style.cycles}`, ''],
    ['exports with a docstring', `${(style.tsdoc * 100).toFixed(1)} %`, `without: ${undocumented.length}`],
    ['lines of test per line of source', style.testToSource.toFixed(2), ''],
    ...Object.entries(style.rooms).map(([room, lines]) => [`lines of source in ${room}`, `${lines}`, '']),
  ];
  process.stdout.write(`${textTable(['figure', 'value', 'where'], rows, 1)}\n`);
}

function place(longest: Longest | undefined): string {
  return longest === undefined ? '' : `${longest.path}:${longest.line}`;
}
