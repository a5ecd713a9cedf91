const WIDTH = 120;

/**
 * JSON text for people, as the project's formatter would have it: whatever fits on a line is on one line (`value`
 * itself apart), and long lists of numbers fill theirs.
 */
export function layOut(value: object): string {
  return `${block(value, '')}\n`;
}

/** `used` is what else is on the first line: indentation, key and comma. */
function render(value: unknown, indent: string, used: number): string {
  const line = oneLine(value);
  return used + line.length <= WIDTH || typeof value !== 'object' || value === null ? line : block(value, indent);
}

/** The value on several lines. */
function block(value: object, indent: string): string {
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.every((item) => typeof item === 'number')) return `[\n${filled(value, inner)}\n${indent}]`;
    const items = value.map((item, index) => inner + render(item, inner, inner.length + comma(index, value.length)));
    return `[\n${items.join(',\n')}\n${indent}]`;
  }
  const fields = entries(value).map(([key, field], index, { length }) => {
    const name = `${inner}${JSON.stringify(key)}: `;
    return name + render(field, inner, name.length + comma(index, length));
  });
  return `{\n${fields.join(',\n')}\n${indent}}`;
}

/** Columns that the comma after item `index` takes. */
function comma(index: number, length: number): number {
  return index < length - 1 ? 1 : 0;
}

function filled(numbers: readonly number[], indent: string): string {
  const lines: string[] = [];
  let line = indent;
  for (const [index, number] of numbers.entries()) {
    const item = `${number}${','.repeat(comma(index, numbers.length))}`;
    if (line !== indent && line.length + 1 + item.length > WIDTH) {
      lines.push(line);
      line = indent;
    }
    line += line === indent ? item : ` ${item}`;
  }
  return [...lines, line].join('\n');
}

function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = entries(value).map(([key, field]) => `${JSON.stringify(key)}: ${oneLine(field)}`);
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

function entries(value: object): [string, unknown][] {
  return Object.entries(value).filter(([, field]) => field !== undefined);
}
