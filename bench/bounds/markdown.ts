import type { Row } from './row.js';

/** Every boundary as Markdown: a table for each quantity, folded. */
export function boundsMarkdown(rows: readonly Row[]): string {
  const quantities = [...new Set(rows.map((row) => row.quantity))];
  return quantities
    .map((quantity) =>
      folded(
        quantity,
        rows.filter((row) => row.quantity === quantity),
      ),
    )
    .join('\n\n');
}

function folded(quantity: string, rows: readonly Row[]): string {
  const lines = rows.map(({ parameters, unit, measured, computed, limit, agrees }) => {
    const cells = [parameters, unit, `${measured}`, decimals(computed), limit === null ? '' : decimals(limit)];
    return `| ${[...cells, agrees ? '' : 'differs'].join(' | ')} |`;
  });
  const head = ['| parameters | unit | measured | computed | limit | |', '|---|---|---:|---:|---:|---|'];
  return [`<details><summary>${quantity}: ${rows.length}</summary>`, '', ...head, ...lines, '', '</details>'].join(
    '\n',
  );
}

/** Two decimals, where there are any. */
export function decimals(value: number): string {
  const rounded = Math.round(value * 100) / 100;
  return `${rounded === 0 ? 0 : rounded}`;
}
