/** A node of the syntax tree, as far as it matters here. */
export interface Syntax {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/** One way to get a piece of code wrong. */
export interface Alternative {
  readonly operator: string;
  /** What takes its place; `null` leaves the statement out. */
  readonly text: string | null;
}

const SWAPPED: Readonly<Record<string, readonly string[]>> = {
  '<': ['<=', '>='],
  '<=': ['<', '>'],
  '>': ['>=', '<='],
  '>=': ['>', '<'],
  '===': ['!=='],
  '!==': ['==='],
  '+': ['-'],
  '-': ['+'],
  '*': ['/'],
  '/': ['*'],
  '%': ['*'],
  '&': ['|'],
  '|': ['&'],
  '<<': ['>>'],
  '>>': ['<<'],
  '&&': ['||'],
  '||': ['&&'],
  '++': ['--'],
  '--': ['++'],
  '+=': ['-='],
  '-=': ['+='],
};

/** All the ways to get one node of the tree wrong; `code` gives the text of a node, `parent` is the node around it. */
function alternativesTo(node: Syntax, parent: Syntax | null, code: (node: Syntax) => string): Alternative[] {
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression':
      return swapped(node, code);
    case 'UnaryExpression':
      return unary(node, code);
    case 'UpdateExpression':
      return update(node, code);
    case 'Literal':
      return literal(node, parent);
    case 'ExpressionStatement':
      return [{ operator: 'statement removed', text: null }];
    case 'BreakStatement':
      return [{ operator: 'break removed', text: null }];
    default:
      return isCondition(node, parent) ? conditions(parent) : [];
  }
}

function swapped(node: Syntax, code: (node: Syntax) => string): Alternative[] {
  const [left, right, operator] = [node.left as Syntax, node.right as Syntax, String(node.operator)];
  return (SWAPPED[operator] ?? []).map((other) => ({
    operator: `${operator} → ${other}`,
    text: `(${code(left)}) ${other} (${code(right)})`,
  }));
}

function unary(node: Syntax, code: (node: Syntax) => string): Alternative[] {
  const operator = String(node.operator);
  if (operator !== '!' && operator !== '-' && operator !== '~') return [];
  return [{ operator: `${operator} removed`, text: code(node.argument as Syntax) }];
}

function update(node: Syntax, code: (node: Syntax) => string): Alternative[] {
  const operator = String(node.operator);
  const argument = code(node.argument as Syntax);
  return (SWAPPED[operator] ?? []).map((other) => ({
    operator: `${operator} → ${other}`,
    text: node.prefix === true ? `${other}${argument}` : `${argument}${other}`,
  }));
}

function literal({ value }: Syntax, parent: Syntax | null): Alternative[] {
  // Of a comparison with a fixed word the other operators make the same.
  const compared = parent?.type === 'BinaryExpression' && typeof value === 'string';
  if (compared) return [];
  if (typeof value === 'boolean') return [{ operator: 'other boolean', text: String(!value) }];
  if (typeof value === 'number') return [{ operator: 'one more', text: String(value + 1) }];
  return typeof value === 'string' ? [{ operator: 'other word', text: "''" }] : [];
}

/** Whether a node decides which way to go, and is no comparison that has its own alternatives to that. */
function isCondition(node: Syntax, parent: Syntax | null): boolean {
  if (parent === null || parent.test !== node) return false;
  return ['IfStatement', 'ConditionalExpression', 'ForStatement', 'WhileStatement'].includes(parent.type);
}

function conditions(parent: Syntax | null): Alternative[] {
  const never = { operator: 'never', text: 'false' };
  const isLoop = parent?.type === 'ForStatement' || parent?.type === 'WhileStatement';
  return isLoop ? [never] : [{ operator: 'always', text: 'true' }, never];
}

/** As {@link alternativesTo}, with those of a condition, whatever it consists of. */
export function allAlternativesTo(node: Syntax, parent: Syntax | null, code: (node: Syntax) => string): Alternative[] {
  const own = alternativesTo(node, parent, code);
  const isExpression = node.type.endsWith('Expression');
  return isExpression && isCondition(node, parent) && own.every(({ operator }) => operator !== 'never')
    ? [...own, ...conditions(parent)]
    : own;
}
