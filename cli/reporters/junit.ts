import type { Case, Suite } from './outcome.js';

/** A suite as the XML that continuous integration reads: one `testsuite` with a `testcase` each. */
export function junitXml({ name, cases, seconds, summary }: Suite): string {
  const count = (result: Case['result']): number => cases.filter((it) => it.result === result).length;
  const counts = `tests="${cases.length}" failures="${count('failed')}" errors="${count('undecided')}" skipped="${count('skipped')}"`;
  const time = `time="${seconds.toFixed(3)}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites name="lockstep" ${counts} ${time}>`,
    `  <testsuite name="${attribute(name)}" ${counts} ${time}>`,
    ...cases.map((it) => testCase(it, name)),
    `    <system-out>${content(summary)}</system-out>`,
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

const ELEMENTS: Readonly<Record<Exclude<Case['result'], 'passed'>, string>> = {
  failed: 'failure',
  undecided: 'error',
  skipped: 'skipped',
};

function testCase({ name, result, message = '', text = '', file }: Case, suite: string): string {
  const place = file === undefined ? '' : ` file="${attribute(file)}"`;
  const head = `    <testcase classname="${attribute(suite)}" name="${attribute(name)}"${place}`;
  if (result === 'passed') return `${head}/>`;
  const element = ELEMENTS[result];
  const inside = text === '' ? '/>' : `>${content(text)}</${element}>`;
  return `${head}>\n      <${element} message="${attribute(message)}"${inside}\n    </testcase>`;
}

/** XML has no way to write most control characters and halves of pairs, not even escaped. */
const UNWRITABLE = /(?![\t\n\r])\p{Cc}|\p{Cs}|[\ufffe\uffff]/gu;

function content(text: string): string {
  return text.replaceAll(UNWRITABLE, '').replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function attribute(text: string): string {
  return content(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;');
}
