import { withHandedOn } from './handed-on.js';
import type { Parameter } from './parameter.js';
import { isResponse } from './roles.js';
import { isNode, part, parts, type SyntaxNode, syntaxOf, visit } from './syntax.js';
import { parameterSaid, propertySaid } from './units.js';
import { calls, callsBack, fieldsRead, isTime, nameOf, opens, refusesAsSame } from './uses.js';

/** A function, a method or a class, as it is called. */
export interface Shape {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  /** `lock.ts:12`. */
  readonly where: string;
  /** The class that it is a method of. */
  readonly className: string | null;
  /** TypeScript lets nobody else call it. */
  readonly isPrivate?: boolean;
  readonly text: string;
  /** What it returns is written as a function. */
  readonly returnsFunction?: boolean;
}

/** What is written in a file. */
export interface SourceFile {
  readonly text: string;
  readonly shapes: readonly Shape[];
  /** Properties of the types of objects in it, by their names. */
  readonly types: ReadonlyMap<string, readonly Parameter[]>;
  /** Names of the top of the file that can be called. */
  readonly names: readonly string[];
  /** Packages and files that it imports, types included. */
  readonly imports: readonly string[];
  /** It awaits something outside of functions. */
  readonly awaits: boolean;
}

const FUNCTIONS = [
  'FunctionDeclaration',
  'FunctionExpression',
  'ArrowFunctionExpression',
  'ObjectMethod',
  'ClassMethod',
];

/** What makes a client of each part of a list takes addresses. */
const MAKES_CLIENTS = /\bnew (?:\w*Redis|Valkey|Client)\(|\bcreateClient\(/;

/** The type of a client, as it is got of what makes one. */
const OF_CLIENTS = /^ReturnType<typeof createClient>$/;

/** A package that has nothing to do with Redis by its name. */
const OF_OTHERS = /^(?![.#/@~]?\/|node:)(?!.*(?:redis|valkey|upstash|\bkv\b|dragonfly|keydb))/i;

/** Reads a file. @throws InputError for a syntax error. */
export function readSource(text: string, name: string): SourceFile {
  const program = syntaxOf(text, name);
  return new Reader(text, name).read(program);
}

/** What a function reads of `this`, by its text. */
export function selfIn(text: string): readonly Parameter[] {
  for (const form of [`(${text})`, `({ ${text} })`, `({ async ${text} })`])
    try {
      return fieldsRead('this', syntaxOf(form, 'code.js'));
    } catch {
      // Another form.
    }
  return [];
}

/** One of some texts, the first of which begins it. */
const TEXTS = /^[\s|]*(['"][^'"]*['"][\s\S]*)$/;

class Reader {
  private readonly text: string;
  private readonly file: string;
  private readonly objects = new Map<string, readonly SyntaxNode[]>();
  /** What is imported from packages that have nothing to do with Redis. */
  private readonly foreign = new Set<string>();
  /** Types of clients and of functions that have a name of the file's own. */
  private readonly named = new Map<string, string>();
  /** Types of texts that have a name of the file's own: `'low' | 'high'`. */
  private readonly texts = new Map<string, string>();
  private readonly shapes: Shape[] = [];

  constructor(text: string, file: string) {
    this.text = text;
    this.file = file;
  }

  read(program: SyntaxNode): SourceFile {
    const imports: string[] = [];
    visit(program, (node) => {
      if (node.type === 'TSInterfaceDeclaration') this.noteObject(node, parts(part(node, 'body') ?? node, 'body'));
      if (node.type === 'TSTypeAliasDeclaration') {
        this.noteObject(node, parts(part(node, 'typeAnnotation') ?? node, 'members'));
        const is = part(node, 'typeAnnotation');
        const text = this.textOf(is);
        const oneOf = TEXTS.exec(text)?.[1];
        if (oneOf !== undefined) this.texts.set(nameOf(part(node, 'id')), oneOf);
        if (OF_CLIENTS.test(text) || is?.type === 'TSFunctionType') this.named.set(nameOf(part(node, 'id')), text);
      }
      const from = part(node, 'source');
      if (node.type === 'ImportDeclaration' && OF_OTHERS.test(String(part(node, 'source')?.value)))
        for (const it of parts(node, 'specifiers')) this.foreign.add(nameOf(part(it, 'local')));
      if (node.type.startsWith('Import') || node.type.startsWith('Export')) imports.push(String(from?.value ?? ''));
      const callee = part(node, 'callee');
      if (callee?.name === 'require' || callee?.type === 'Import')
        imports.push(String(parts(node, 'arguments')[0]?.value ?? ''));
    });
    this.look(program, null, null);
    const names = parts(program, 'body').flatMap((it) => topNames(it));
    const types = new Map([...this.objects].map(([name, all]) => [name, all.map((it) => this.fieldOfType(it, 0))]));
    const shapes = withHandedOn(this.shapes);
    const isModule = program.sourceType === 'module';
    return {
      text: this.text,
      shapes,
      types,
      names,
      imports: imports.filter((it) => it !== ''),
      awaits: isModule && awaitsOutside(program),
    };
  }

  private noteObject(node: SyntaxNode, members: readonly SyntaxNode[]): void {
    this.objects.set(nameOf(part(node, 'id')), members);
  }

  private look(node: SyntaxNode, name: string | null, className: string | null): void {
    const own = nameOf(part(node, 'id')) || nameOf(part(node, 'key')) || name || '';
    if (
      node.type.startsWith('Class') &&
      node.type !== 'ClassMethod' &&
      node.type.endsWith('Body') === false &&
      part(node, 'body')?.type === 'ClassBody'
    ) {
      const members = parts(part(node, 'body') ?? node, 'body');
      const made = members.find(({ kind }) => kind === 'constructor');
      const shape = this.shapeOf(made ?? node, own, null);
      this.shapes.push({
        ...shape,
        parameters: shape.parameters.map((it) => withCalled(it, this.textOf(node))),
        name: own,
        where: this.where(node),
        text: this.textOf(node),
      });
      for (const it of members) this.look(it, null, own);
      return;
    }
    if (FUNCTIONS.includes(node.type) && node.kind !== 'constructor')
      this.shapes.push(this.shapeOf(node, own, className));
    for (const [field, value] of Object.entries(node)) {
      const inner = field === 'init' || field === 'value' || field === 'right' || field === 'declaration' ? own : null;
      const left = part(node, 'left');
      const given = field === 'right' && left !== null ? nameOf(part(left, 'property') ?? left) : inner;
      const of = node.type === 'ClassProperty' ? className : null;
      if (isNode(value)) this.look(value, given, of);
      else if (Array.isArray(value)) for (const it of value) if (isNode(it)) this.look(it, null, of);
    }
  }

  private where(node: SyntaxNode): string {
    return `${this.file}:${node.loc.start.line}`;
  }

  private textOf(node: SyntaxNode | null): string {
    return node === null ? '' : this.text.slice(node.start, node.end);
  }

  private shapeOf(node: SyntaxNode, name: string, className: string | null): Shape {
    const body = part(node, 'body');
    const parameters =
      node.type.startsWith('Class') && node.type !== 'ClassMethod'
        ? []
        : withoutCallbacks(
            withOthers(
              parts(node, 'params').map((it) => this.withUnit(this.parameterOf(it, body), node)),
              body,
            ),
          );
    const returnsFunction = isFunctionReturned(body);
    const isPrivate = node.accessibility === 'private' || node.accessibility === 'protected';
    return {
      name,
      parameters,
      where: this.where(node),
      className,
      isPrivate,
      text: this.textOf(node),
      returnsFunction,
    };
  }

  private parameterOf(node: SyntaxNode, body: SyntaxNode | null): Parameter {
    if (node.type === 'TSParameterProperty') return this.parameterOf(part(node, 'parameter') ?? node, body);
    if (node.type === 'AssignmentPattern')
      return {
        ...this.parameterOf(part(node, 'left') ?? node, body),
        isOptional: true,
        hasDefault: part(node, 'right')?.type === 'Identifier' && nameOf(part(node, 'right')) !== 'undefined',
      };
    if (node.type === 'RestElement') {
      const all = this.parameterOf(part(node, 'argument') ?? node, body);
      const type = this.textOf(part(part(node, 'typeAnnotation') ?? node, 'typeAnnotation')) || all.type;
      return { ...all, type, isOptional: true, isRest: true };
    }
    const annotation = part(part(node, 'typeAnnotation') ?? node, 'typeAnnotation');
    const name = node.type === 'ObjectPattern' ? '' : nameOf(node);
    const written = this.textOf(annotation);
    const named = this.named.get(written.replace(/<.*$/s, ''));
    const isFunction =
      (annotation?.type !== 'TSTypeLiteral' && /=>|\bFunction\b/.test(named ?? written)) ||
      (name !== '' && body !== null && calls(body, name));
    const ofType = this.fieldsOfType(annotation);
    const read =
      node.type === 'ObjectPattern'
        ? this.fieldsOfPattern(node, body, ofType)
        : ofType.length > 0
          ? ofType
          : fieldsRead(name, body);
    const fields = read.map((it) => ({
      ...it,
      opens: it.opens || opens(body, name, it.name),
      isTime: it.isTime || isTime(body, name, it.name),
    }));
    const isMade = fields.some((it) => it.name === 'map') && MAKES_CLIENTS.test(this.textOf(body));
    const type = named ?? (written || (isMade ? this.addressesIn(body) : ''));
    const isCallback = CALLBACK_TYPE.test(type) || (name !== '' && callsBack(body, name));
    const isForeign = this.foreign.has(written);
    const isOptional = node.optional === true;
    const uses = { opens: opens(body, name), isTime: isTime(body, name) };
    return { name, type, isOptional, isFunction, isCallback, isForeign, fields, ...uses };
  }

  /** With the unit that the comment before its function says. */
  private withUnit(parameter: Parameter, { start }: SyntaxNode): Parameter {
    const before = this.text.slice(0, start);
    const said = (it: Parameter): Parameter => ({ ...it, unitMs: it.unitMs ?? parameterSaid(before, it.name) });
    return { ...said(parameter), fields: parameter.fields.map(said) };
  }

  /** The type of a list of which each is made a client: of objects where their host is read. */
  private addressesIn(body: SyntaxNode | null): string {
    return /\{[^{}]*\bhost\b[^{}]*\}\s*\)?\s*=>|\w\.host\b/.test(this.textOf(body)) ? '{ host }[]' : 'string[]';
  }

  private fieldsOfPattern(node: SyntaxNode, body: SyntaxNode | null, ofType: readonly Parameter[]): Parameter[] {
    const own = parts(node, 'properties').flatMap((it): Parameter[] => {
      const value = part(it, 'value');
      if (it.type !== 'ObjectProperty' || value === null) return [];
      const inner = this.parameterOf(value, body);
      const name = nameOf(part(it, 'key'));
      const typed = ofType.find((field) => field.name === name);
      return [
        {
          ...inner,
          name,
          type: typed?.type ?? inner.type,
          isOptional: inner.isOptional || (typed?.isOptional ?? false),
          isFunction: inner.isFunction || (typed?.isFunction ?? false),
          unitMs: typed?.unitMs ?? null,
          fields: typed?.fields ?? inner.fields,
        },
      ];
    });
    return [...own, ...ofType.filter(({ name }) => !own.some((it) => it.name === name))];
  }

  /** The fields of an object of a type, or of each in a list of these. */
  private fieldsOfType(annotation: SyntaxNode | null, depth = 0): Parameter[] {
    if (annotation === null || depth > MOST_DEPTH) return [];
    const name = nameOf(part(annotation, 'typeName'));
    const [inner] = parts(
      part(annotation, 'typeParameters') ?? part(annotation, 'typeArguments') ?? annotation,
      'params',
    );
    if (name === 'Partial' && inner !== undefined)
      return this.fieldsOfType(inner, depth).map((it) => ({ ...it, isOptional: true }));
    const element = part(annotation, 'elementType') ?? (/^(?:Readonly)?Array$/.test(name) ? inner : undefined);
    if (element !== undefined) return this.fieldsOfType(element, depth);
    if (annotation.type === 'TSTypeOperator' || annotation.type === 'TSParenthesizedType')
      return this.fieldsOfType(part(annotation, 'typeAnnotation'), depth);
    const members = annotation.type === 'TSTypeLiteral' ? parts(annotation, 'members') : (this.objects.get(name) ?? []);
    return members.map((it) => this.fieldOfType(it, depth));
  }

  private fieldOfType(member: SyntaxNode, depth: number): Parameter {
    const annotation = part(part(member, 'typeAnnotation') ?? member, 'typeAnnotation');
    const written = this.textOf(annotation);
    const type = this.texts.get(written) ?? written;
    const isMethod = member.type === 'TSMethodSignature';
    const isFunction = isMethod || type.includes('=>');
    return {
      name: nameOf(part(member, 'key')),
      type,
      isOptional: member.optional === true,
      isFunction,
      isGuessed: isMethod,
      unitMs: propertySaid(this.text.slice(0, member.start), this.text.slice(member.end)),
      fields: isFunction ? [] : this.fieldsOfType(annotation, depth + 1),
    };
  }
}

/** Whether something is awaited outside of functions. */
function awaitsOutside(node: SyntaxNode): boolean {
  if (FUNCTIONS.includes(node.type) || node.type === 'ClassPrivateMethod') return false;
  if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await === true)) return true;
  return Object.values(node).some((it) =>
    Array.isArray(it) ? it.some((one) => isNode(one) && awaitsOutside(one)) : isNode(it) && awaitsOutside(it),
  );
}

/** A function that is told an error first. */
const CALLBACK_TYPE = /^\(\s*_?e(?:rr|rror)?\w*\??\s*:[^)]*\)\s*=>\s*(?:void|unknown|undefined)$/;

/** Where there is an answer to a request, what goes on with that is told of errors too. */
function withoutCallbacks(parameters: readonly Parameter[]): readonly Parameter[] {
  return parameters.some(isResponse) ? parameters.map((it) => ({ ...it, isCallback: false })) : parameters;
}

/** Types may be made of themselves. */
const MOST_DEPTH = 3;

/** What a constructor keeps and its methods call is a function: `this.handle = handle`, and `this.handle(event)`. */
function withCalled(parameter: Parameter, text: string): Parameter {
  const { name, type, fields } = parameter;
  const keeps = /^\w+$/.test(name) ? new RegExp(String.raw`\bthis\.(#?\w+)\s*=\s*${name}\s*[;\n]`) : null;
  const [, kept] = keeps?.exec(text) ?? [];
  const isCalled = type === '' && kept !== undefined && new RegExp(String.raw`\bthis\.${kept}\(`).test(text);
  return {
    ...parameter,
    isFunction: parameter.isFunction || isCalled,
    fields: fields.map((it) => withCalled(it, text)),
  };
}

function isFunctionReturned(body: SyntaxNode | null): boolean {
  if (body === null || body.type !== 'BlockStatement') return body !== null && FUNCTIONS.includes(body.type);
  return parts(body, 'body').some(
    (it) => it.type === 'ReturnStatement' && FUNCTIONS.includes(part(it, 'argument')?.type ?? ''),
  );
}

/** What a statement at the top of a file declares that can be called. */
function topNames(statement: SyntaxNode): string[] {
  const inner = statement.type.startsWith('Export') ? part(statement, 'declaration') : statement;
  if (inner === null) return [];
  if (inner.type === 'FunctionDeclaration' || inner.type === 'ClassDeclaration')
    return [nameOf(part(inner, 'id'))].filter((it) => it !== '');
  if (inner.type !== 'VariableDeclaration') return [];
  return parts(inner, 'declarations').flatMap((it) => {
    const made = part(it, 'init')?.type ?? '';
    const isCallable =
      FUNCTIONS.includes(made) ||
      made.startsWith('Class') ||
      made === 'NewExpression' ||
      made === 'ObjectExpression' ||
      nameOf(part(part(it, 'init') ?? it, 'callee')) === 'createClient';
    const name = part(it, 'id')?.type === 'Identifier' ? nameOf(part(it, 'id')) : '';
    return isCallable && name !== '' ? [name] : [];
  });
}

/** Marks what has to be another one than a parameter before it, or a field of the same. */
function withOthers(all: readonly Parameter[], body: SyntaxNode | null, path = ''): Parameter[] {
  const names = all.map(({ name }) => `${path}${name}`);
  return all.map((it, i) => ({
    ...it,
    isOther: refusesAsSame(body, names, names[i] ?? ''),
    fields: path === '' ? withOthers(it.fields, body, it.name === '' ? '' : `${it.name}.`) : it.fields,
  }));
}
