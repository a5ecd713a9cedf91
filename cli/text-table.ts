import Table from 'cli-table3';

/** A table without lines, for a terminal; columns from `numbersFrom` on are aligned to the right. */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  numbersFrom: number = head.length,
): string {
  const none = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '' };
  const table = new Table({
    head: [...head],
    colAligns: head.map((_, column) => (column < numbersFrom ? 'left' : 'right')),
    chars: {
      ...none,
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '  ',
    },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) table.push([...row]);
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}
