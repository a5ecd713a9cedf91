import { PROPERTIES } from '../../properties/property-info.js';
import type { Case, Suite } from './outcome.js';

/** A suite as a log in SARIF 2.1.0, the form in which code scanning takes results: one rule for each name of a finding. */
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
            rules: rules.map((id) =>
              ruleFor(
                id,
                bad.find((it) => ruleOf(it) === id),
              ),
            ),
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

/** What code scanning shows of a rule: what it is about, and what mends it. */
function ruleFor(id: string, first: Case | undefined): object {
  const { title = definitionOf(id), property, help } = first ?? {};
  return {
    id,
    shortDescription: { text: title },
    ...(property === undefined ? {} : { fullDescription: { text: definitionOf(property) } }),
    ...(help === undefined ? {} : { help: { text: `To mend it: ${help}` } }),
    ...(property === undefined ? {} : { properties: { tags: [property] } }),
  };
}

function definitionOf(rule: string): string {
  return DEFINITIONS.get(rule) ?? rule;
}

function resultOf(it: Case, rules: readonly string[]): object {
  const { name, result, message = name, file, replay, isAccepted } = it;
  const ruleId = ruleOf(it);
  return {
    ruleId,
    ruleIndex: rules.indexOf(ruleId),
    level: result === 'undecided' ? 'warning' : 'error',
    message: { text: [message, ...(replay === undefined ? [] : [`To see it again: ${replay}`])].join('\n') },
    ...(file === undefined ? {} : { locations: [{ physicalLocation: placeOf(file, it) }] }),
    partialFingerprints: { 'lockstepFinding/v1': name },
    ...(isAccepted ? { suppressions: [{ kind: 'external', justification: 'It is in the baseline.' }] } : {}),
  };
}

function placeOf(file: string, { line, column }: Case): object {
  const uri = file.split('/').map(encodeURIComponent).join('/');
  return {
    artifactLocation: { uri },
    ...(line === undefined
      ? {}
      : { region: { startLine: line, ...(column === undefined ? {} : { startColumn: column }) } }),
  };
}
