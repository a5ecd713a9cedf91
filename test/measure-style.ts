import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ts } from 'ts-morph';
import { cycles, isTest, readModules } from './modules.js';

const TOP = new URL('..', import.meta.url);

/** The figures by which the house is kept; lengths are lines, of source without tests. */
interface Style {
  readonly files: { readonly median: number; readonly p90: number; readonly max: number };
  readonly functions: { readonly p99: number; readonly max: number };
  /** Uses of the type, tests included. */
  readonly any: number;
  /** Assertions that a value is there (`!`), tests included. */
  readonly nonNull: number;
  /** Cycles of imports, types included. */
  readonly cycles: number;
  /** The share of exported declarations that have a docstring, 0 to 1. */
  readonly tsdoc: number;
  /** Lines of test per line of source. */
  readonly testToSource: number;
  /** Lines of source by folder at the top, the longest first; the lock has its own. */
  readonly rooms: Readonly<Record<string, number>>;
}

/** Where the longest are. */
export interface Longest {
  readonly path: string;
  readonly line: number;
  readonly name: string;
  readonly lines: number;
}

interface Measured {
  readonly style: Style;
  readonly longestFiles: readonly Longest[];
  readonly longestFunctions: readonly Longest[];
  readonly undocumented: readonly string[];
}

/** Measures the files that the repository has. */
export function measureStyle(): Measured {
  const argv = ['ls-files', '--cached', '--others', '--exclude-standard', '*.ts', '*.tsx', ':!test/wild'];
  const paths = execFileSync('git', argv, { cwd: fileURLToPath(TOP), encoding: 'utf8' })
    .trim()
    .split('\n');
  const tally = { any: 0, nonNull: 0, exported: 0, sourceLines: 0, testLines: 0 };
  const [files, functions, undocumented]: [Longest[], Longest[], string[]] = [[], [], []];
  const rooms = new Map<string, number>();
  for (const path of paths) {
    const text = readFileSync(new URL(path, TOP), 'utf8');
    const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
    const lines = source.getLineStarts().length - 1;
    const ofTest = isTest(path) || path.startsWith('test/');
    if (ofTest) tally.testLines += lines;
    else {
      tally.sourceLines += lines;
      const [room = ''] = path.startsWith('real/lock/') ? ['real/lock'] : path.split('/');
      rooms.set(room, (rooms.get(room) ?? 0) + lines);
      files.push({ path, line: 1, name: path, lines });
      for (const { name, documented } of exportsOf(source)) {
        tally.exported++;
        if (!documented) undocumented.push(`${path} ${name}`);
      }
    }
    const visit = (node: ts.Node): void => {
      if (node.kind === ts.SyntaxKind.AnyKeyword) tally.any++;
      else if (ts.isNonNullExpression(node)) tally.nonNull++;
      else if (!ofTest && ts.isFunctionLike(node) && 'body' in node && node.body !== undefined)
        functions.push(lengthOf(source, node, path));
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  const byLength = (a: Longest, b: Longest): number => b.lines - a.lines;
  const style: Style = {
    files: { median: at(files, 0.5), p90: at(files, 0.9), max: at(files, 1) },
    functions: { p99: at(functions, 0.99), max: at(functions, 1) },
    any: tally.any,
    nonNull: tally.nonNull,
    cycles: cycles(readModules(TOP)).length,
    tsdoc: 1 - undocumented.length / tally.exported,
    testToSource: tally.testLines / tally.sourceLines,
    rooms: Object.fromEntries([...rooms].sort(([, a], [, b]) => b - a)),
  };
  const most = 5;
  return {
    style,
    longestFiles: files.sort(byLength).slice(0, most),
    longestFunctions: functions.sort(byLength).slice(0, most),
    undocumented,
  };
}

function lengthOf(source: ts.SourceFile, node: ts.SignatureDeclaration, path: string): Longest {
  const from = source.getLineAndCharacterOfPosition(node.getStart(source)).line;
  const to = source.getLineAndCharacterOfPosition(node.end).line;
  return { path, line: from + 1, name: node.name?.getText(source) ?? '(without a name)', lines: to - from + 1 };
}

/** What a module declares and exports; re-exports are counted where they are declared. */
function exportsOf(source: ts.SourceFile): { readonly name: string; readonly documented: boolean }[] {
  return source.statements.flatMap((statement) => {
    const isExported =
      ts.canHaveModifiers(statement) &&
      ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword);
    if (!isExported) return [];
    const documented = ts.getJSDocCommentsAndTags(statement).length > 0;
    const names = ts.isVariableStatement(statement)
      ? statement.declarationList.declarations.map(({ name }) => name.getText(source))
      : [(statement as ts.Statement & { name?: ts.Identifier }).name?.text ?? '?'];
    return names.map((name) => ({ name, documented }));
  });
}

/** The length below which this share of them is, the longest for 1. */
function at(measured: readonly Longest[], share: number): number {
  const lengths = measured.map(({ lines }) => lines).sort((a, b) => a - b);
  return lengths[Math.min(lengths.length - 1, Math.floor(share * lengths.length))] ?? 0;
}
