/** Where a text stops being JSON, line and column from 1, and whether it merely ends too early. */
interface JsonFault {
  readonly line: number;
  readonly column: number;
  readonly ended: boolean;
}

const SPACE = /[ \t\n\r]*/y;
/** A string, or the beginning of one that nothing follows: all characters from the space on, but " and \ alone. */
const STRING = /"(?:[ !#-[\]-\u{10ffff}]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*(?:"|(?:\\(?:u[0-9a-fA-F]{0,3})?)?$)/uy;
const SCALAR = /(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y;

/** What may come next. */
type Expected = 'value' | 'value or ]' | 'key' | 'key or }' | ':' | 'separator';

/**
 * The first fault of a text that `JSON.parse` refuses. Its own messages name a position in one engine and none in the
 * next, and never say that a file was cut off.
 */
export function jsonFault(text: string): JsonFault {
  const { at, depth } = scan(text);
  // A word that nothing follows may be the beginning of one.
  const ended = at === text.length || (depth > 0 && /^[\w.+-]+$/.test(text.slice(at)));
  const before = ended ? text : text.slice(0, at);
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n'), ended };
}

/** How far the text is JSON, and how many brackets are open there. */
function scan(text: string): { at: number; depth: number } {
  const open: string[] = [];
  let expected: Expected = 'value';
  let at = 0;
  const take = (form: RegExp): boolean => {
    form.lastIndex = at;
    const found = form.test(text);
    if (found) at = form.lastIndex;
    return found;
  };
  for (;;) {
    take(SPACE);
    const next = text[at];
    const inObject = open.at(-1) === '{';
    if (expected.startsWith('value') && (next === '{' || next === '[')) {
      open.push(next);
      expected = next === '{' ? 'key or }' : 'value or ]';
      at++;
    } else if (isClose(next, expected, inObject, open.length)) {
      open.pop();
      expected = 'separator';
      at++;
    } else if (expected === 'separator' && next === ',' && open.length > 0) {
      expected = inObject ? 'key' : 'value';
      at++;
    } else if (expected === ':' && next === ':') {
      expected = 'value';
      at++;
    } else if (expected.startsWith('key') && take(STRING)) {
      expected = ':';
    } else if (expected.startsWith('value') && (take(STRING) || take(SCALAR))) {
      expected = 'separator';
    } else {
      return { at, depth: open.length };
    }
  }
}

function isClose(next: string | undefined, expected: Expected, inObject: boolean, depth: number): boolean {
  if (depth === 0 || next !== (inObject ? '}' : ']')) return false;
  return expected === 'separator' || expected === (inObject ? 'key or }' : 'value or ]');
}
