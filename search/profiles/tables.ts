import type { Correction, Distinction } from './distinction.js';
import { expectedVerdict, isAbout, KNOWN_CLIENTS } from './verdicts.js';

/** Who passes which schedule, in Markdown. */
export function verdictTable(distinctions: readonly Distinction[]): string {
  const told = distinctions.filter(({ stated }) => stated !== 'all');
  const rows = KNOWN_CLIENTS.map((profile) => {
    const cells = told.map((it) =>
      !isAbout(it, profile) ? '' : expectedVerdict(it, profile) === 'bad' ? '**✗**' : '·',
    );
    return `| \`${profile}\` | ${cells.join(' | ')} |`;
  });
  const head = `| profile | ${told.map(({ id }) => id).join(' | ')} |`;
  return [head, `|---|${told.map(() => ':-:').join('|')}|`, ...rows].join('\n');
}

/** What was not as stated, in Markdown. */
export function correctionsText(distinctions: readonly Distinction[]): string {
  const lines = distinctions.flatMap(({ id, beyond, spared }) => [
    ...beyond.map((it) => `* ${id}: ${names(it)} fail${it[0].length === 1 ? 's' : ''} as well: ${it[1]}.`),
    ...spared.map((it) => `* ${id}: ${names(it)} pass${it[0].length === 1 ? 'es' : ''}: ${it[1]}.`),
  ]);
  return lines.join('\n');
}

function names([profiles]: Correction): string {
  return profiles.map((profile) => `\`${profile}\``).join(', ');
}
