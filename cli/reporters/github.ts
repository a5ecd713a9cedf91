import type { Case, Suite } from './outcome.js';

/** Workflow commands for what is not passed: GitHub shows them as annotations. */
export function annotations({ cases }: Suite): string {
  return cases
    .filter(({ result }) => result === 'failed' || result === 'undecided')
    .map(({ name, result, message = '', text = '', file, line }) => {
      const properties = [
        `title=${property(name)}`,
        ...(file === undefined ? [] : [`file=${property(file)}`]),
        ...(line === undefined ? [] : [`line=${line}`]),
      ];
      const command = result === 'failed' ? 'error' : 'warning';
      return `::${command} ${properties.join(',')}::${data([message, text].filter((it) => it !== '').join('\n'))}\n`;
    })
    .join('');
}

/** Of a message; see "workflow commands" in GitHub's documentation. */
function data(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function property(text: string): string {
  return data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

const MARKS: Readonly<Record<Case['result'], string>> = {
  passed: '✓ passed',
  failed: '✗ failed',
  undecided: '? undecided',
  skipped: '– skipped',
};

/** GitHub cuts a summary at a megabyte; a table of thousands is not read either. */
const MOST_ROWS = 500;

/** Markdown for the page of a job. */
export function jobSummary({ name, cases, summary }: Suite): string {
  const rows = cases
    .slice(0, MOST_ROWS)
    .map((it) => `| ${cell(it.name)} | ${MARKS[it.result]} | ${cell(it.message ?? '')} |`);
  const more = cases.length > MOST_ROWS ? [`\n${cases.length - MOST_ROWS} more are left out.`] : [];
  const failures = cases.flatMap(({ text = '', result }) =>
    text === '' || result !== 'failed' ? [] : ['', fenced(text)],
  );
  return [
    `## ${name}`,
    '',
    summary,
    '',
    '| what | result | |',
    '|---|---|---|',
    ...rows,
    ...more,
    ...failures,
    '',
  ].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ');
}

/** A fence that is longer than any run of backticks inside. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}text\n${text.trimEnd()}\n${fence}`;
}
