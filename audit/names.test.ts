import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { VIOLATION_KINDS } from '../libraries/search/kinds.js';
import { FINDING_TITLES } from './names.js';

const HERE = new URL('.', import.meta.url);

/** The names that findings have in the source. */
function namesInSource(): string[] {
  const files = readdirSync(HERE).filter((it) => it.endsWith('.ts') && !it.endsWith('.test.ts'));
  const texts = files.map((it) => readFileSync(new URL(it, HERE), 'utf8')).filter((it) => /\bsentence\b/.test(it));
  const named = texts.flatMap((text) => [...text.matchAll(/\bid: ([^\n]*)/g)].map(([, rest = '']) => rest));
  return named.flatMap((it) => [...it.matchAll(/'([a-z]+(?:-[a-z]+)*)'/g)].map(([, name = '']) => name));
}

it('has a title for each name of a finding, and for no other', () => {
  const names = new Set([...namesInSource(), 'two-holders', ...VIOLATION_KINDS]);
  for (const without of ['belief', 'effect']) names.delete(without);
  expect(Object.keys(FINDING_TITLES)).toEqual([...names].sort());
});

it('lists them in docs/audit-findings.md (vitest -u writes it)', async () => {
  const rows = Object.entries(FINDING_TITLES).map(([name, title]) => `| \`${name}\` | ${title} |`);
  const page = `# Names of findings of \`audit\`

A finding of [\`lockstep audit\`](guide-audit.md) has one name: in its text, as \`id\` in \`--json\` and in baselines, and as the rule in
SARIF. What is wrong in one file, and what mends it there, is said by the finding.

| name | what it says of a lock |
|---|---|
${rows.join('\n')}
`;
  await expect(page).toMatchFileSnapshot('../docs/audit-findings.md');
});
