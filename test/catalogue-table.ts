import { playgroundLink } from '../report/playground/index.js';
import { formatDurationMs } from '../scenarios/duration.js';
import type { Expectation, ExpectedViolation, Scenario, Variant } from '../scenarios/scenario.js';

/** The catalogue as a table in Markdown: what happens, the outcome, and what changes that. */
export function catalogueTable(scenarios: readonly Scenario[]): string {
  const rows = scenarios.map(row);
  return [
    '| id | what happens | verdict | flips | neighbours | to try it |',
    '|---|---|---|---|---|---|',
    ...rows,
  ].join('\n');
}

function row(scenario: Scenario): string {
  const { id, slug = '', title, expect, flips, neighbours } = scenario;
  const outcome = outcomeOf(expect, expect.verdict === 'safe');
  const cells = [
    `${id}<br>${slug}`,
    title,
    outcome,
    variantsOf(scenario, flips, scenario.noFlips),
    variantsOf(scenario, neighbours, scenario.noNeighbours),
    playgroundLink({ scenario: id }),
  ];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function variantsOf(scenario: Scenario, variants: readonly Variant[], whyNone?: string): string {
  if (variants.length === 0) return whyNone ?? '–';
  return variants
    .map(({ title, with: mitigation, expect }) => {
      // Where the word stays the same, what differs is who acquires and when.
      const sameWord = expect.verdict === scenario.expect.verdict && expect.verdict !== 'violated';
      const name = mitigation === undefined ? '' : ` (\`${mitigation}\`)`;
      return `${title}${name} → ${outcomeOf(expect, sameWord)}`;
    })
    .join('<br>');
}

function outcomeOf({ verdict, violations = [], unavailable = [], claims }: Expectation, tellClaims: boolean): string {
  const parts = violations.map(violationWords);
  if (verdict === 'unavailable') {
    const times = unavailable.map(({ fromUs, toUs }) => `${formatDurationMs(fromUs)}–${formatDurationMs(toUs)}`);
    parts.push(['**unavailable**', times.join(', ')].join(' ').trim());
  }
  if (parts.length === 0) parts.push(verdict);
  if (tellClaims && claims !== undefined) parts.push(claimWords(claims));
  return parts.join('; ');
}

function violationWords({ property, atUs, untilUs }: ExpectedViolation): string {
  if (atUs === undefined) return `**${property}**`;
  if (untilUs === undefined) return `**${property}** from ${formatDurationMs(atUs)}`;
  const times =
    atUs === untilUs ? `at ${formatDurationMs(atUs)}` : `${formatDurationMs(atUs)}–${formatDurationMs(untilUs)}`;
  return `**${property}** ${times}`;
}

/** More claims than this are cut in the middle. */
const MOST_CLAIMS = 4;

function claimWords(claims: readonly string[]): string {
  if (claims.length === 0) return 'nobody acquires';
  const words = claims.map((claim) => {
    const [client = '', us = '0'] = claim.split('@');
    return `${client} at ${formatDurationMs(Number(us))}`;
  });
  if (words.length <= MOST_CLAIMS) return words.join(', ');
  return [...words.slice(0, 2), `… ${words[words.length - 1]}`].join(', ');
}
