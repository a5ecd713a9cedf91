import { PROPERTIES } from '../../properties/property-info.js';
import type { Case, Suite } from './outcome.js';

/** A suite as a log in SARIF 2.1.0, the form in which code scanning takes results: one rule for each property. */
export function sarifLog({ name, cases }: Suite, version: string): string {
  const bad = cases.filter(({ result, isAccepted }) => result === 'failed' || result === 'undecided' || isAccepted);
  const rules = [...new Set(bad.map(ruleOf))];
  const log = {
    $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'lockstep',
            version,
            rules: rules.map((id) => ({ id, shortDescription: { text: definitionOf(id) } })),
          },
        },
        automationDetails: { id: `${name}/` },
        results: bad.map((it) => resultOf(it, rules)),
      },
    ],
  };
  return `${JSON.stringify(log, null, 2)}\n`;
}

/** What a case is about: its property where it has no rule of its own. */
function ruleOf({ rule, name }: Case): string {
  return rule ?? name.toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, '-');
}

const DEFINITIONS: ReadonlyMap<string, string> = new Map([
  ...Object.entries(PROPERTIES).map(([id, { definition }]): [string, string] => [id, definition]),
  ['not-audited', 'Of the lock in a file, something can be said.'],
]);

function definitionOf(rule: string): string {
  return DEFINITIONS.get(rule) ?? rule;
}

function resultOf(it: Case, rules: readonly string[]): object {
  const { name, result, message = name, file, line, replay, isAccepted } = it;
  const ruleId = ruleOf(it);
  return {
    ruleId,
    ruleIndex: rules.indexOf(ruleId),
    level: result === 'undecided' ? 'warning' : 'error',
    message: { text: [message, ...(replay === undefined ? [] : [`To see it again: ${replay}`])].join('\n') },
    ...(file === undefined ? {} : { locations: [{ physicalLocation: placeOf(file, line) }] }),
    partialFingerprints: { 'lockstepFinding/v1': name },
    ...(isAccepted ? { suppressions: [{ kind: 'external', justification: 'It is in the baseline.' }] } : {}),
  };
}

function placeOf(file: string, line: number | undefined): object {
  const uri = file.split('/').map(encodeURIComponent).join('/');
  return { artifactLocation: { uri }, ...(line === undefined ? {} : { region: { startLine: line } }) };
}
