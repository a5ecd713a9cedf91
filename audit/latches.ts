import { part, parts, type SyntaxNode, syntaxOf, visit } from './syntax.js';

/* A check of a lock may set a flag when the time is over. The audit asks such checks at hypothetical later times, so it undoes the
 * flags that its own questions have set. */

/** The function that instrumented code calls before it sets a flag. */
export const LATCH = '__lockstepLatch';

const LITERALS = ['BooleanLiteral', 'NumericLiteral', 'StringLiteral', 'NullLiteral'];

let undo: (() => void)[] | null = null;

/** Records how to restore a flag. Does nothing outside of {@link asking}. */
export function noteLatch(set: (value: unknown) => void, before: unknown): void {
  undo?.push(() => set(before));
}

/** Calls `ask`, and restores the flags that it has set. */
export function asking<T>(ask: () => T): T {
  const outer = undo;
  const own: (() => void)[] = [];
  undo = own;
  try {
    return ask();
  } finally {
    undo = outer;
    for (const back of own.reverse()) back();
  }
}

/** What a check does besides where a lock is over, which must not happen at a hypothetical time. */
const ENDS = ['clearTimeout', 'clearInterval'] as const;

/** Calls a check that may abort the work and stop its timers: it throws in place of the first, and does nothing of the other. */
export function withoutAborts<T>(check: () => T): T {
  const { abort } = AbortController.prototype;
  const before = ENDS.map((name) => globalThis[name]);
  AbortController.prototype.abort = () => {
    throw new Error('it is over');
  };
  for (const name of ENDS) globalThis[name] = () => {};
  try {
    return check();
  } finally {
    AbortController.prototype.abort = abort;
    for (const [i, name] of ENDS.entries()) globalThis[name] = before[i] as typeof clearTimeout;
  }
}

/** Instruments the flags that a file sets on a condition. The lines stay the same. */
export function withLatches(text: string, name: string): string {
  let told = text;
  const places = latchesIn(syntaxOf(text, name)).sort((a, b) => b.start - a.start);
  for (const { start, end } of places) {
    const flag = text.slice(start, end);
    told = `${told.slice(0, start)}${LATCH}(it=>{${flag}=it},${flag}),${told.slice(start)}`;
  }
  return told;
}

/** Removes instrumented assignments from the text of a function. */
export function withoutLatches(text: string): string {
  return text.replace(TOLD, ' ');
}

const TOLD = new RegExp(
  `${LATCH}\\(\\s*\\(?it\\)?\\s*=>\\s*\\{[^{}]*\\},[^;]*?\\),\\s*[\\w.#$]+\\s*(?:\\|\\|=|=\\s*(?:[\\w.#$]+\\s*\\|\\||["'\\w.]+))`,
  'g',
);

/** The left sides of statements that set a flag. */
function latchesIn(program: SyntaxNode): SyntaxNode[] {
  const found = new Set<SyntaxNode>();
  visit(program, (node) => {
    const consequent = node.type === 'IfStatement' ? part(node, 'consequent') : null;
    const statements = consequent === null ? [] : [consequent, ...parts(consequent, 'body')];
    for (const it of [...statements, node]) {
      const set = it.type === 'ExpressionStatement' ? part(it, 'expression') : null;
      const left = set?.type === 'AssignmentExpression' ? part(set, 'left') : null;
      if (set == null || left === null || !isPlain(left)) continue;
      const right = part(set, 'right');
      const isOnCondition = it !== node && set.operator === '=' && LITERALS.includes(right?.type ?? '');
      if (isOnCondition || set.operator === '||=' || isKept(left, right)) found.add(left);
    }
  });
  return [...found];
}

/** A name, or a field of `this`. */
function isPlain(node: SyntaxNode): boolean {
  if (node.type === 'Identifier') return true;
  return node.type === 'MemberExpression' && node.computed !== true && part(node, 'object')?.type === 'ThisExpression';
}

/** Whether an assignment keeps a true value: `lost = lost || late`. */
function isKept(left: SyntaxNode, right: SyntaxNode | null): boolean {
  const first = right?.type === 'LogicalExpression' && right.operator === '||' ? part(right, 'left') : null;
  return left.type === 'Identifier' && first?.type === 'Identifier' && first.name === left.name;
}
