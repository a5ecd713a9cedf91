import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { Node, Project, ts } from 'ts-morph';

const TOP = new URL('..', import.meta.url);

/** One entry of a package, as its users name it, and the reference to what it exports. */
interface EntryReference {
  /** As in `lockstep/testing`. */
  readonly entry: string;
  /** Of its page. */
  readonly file: string;
  readonly text: string;
  readonly names: readonly string[];
}

/** The declarations of all entries of both packages, but for the lock's under its former name. */
function declarationsOfEntries(): { readonly entry: string; readonly path: string }[] {
  const { exports } = createRequire(import.meta.url)('../package.json') as { exports: Record<string, string> };
  const ofTool = Object.entries(exports).filter(([name, path]) => name !== '.' && path.endsWith('.js'));
  return [
    { entry: 'lockstep-redlock', path: 'real/lock/dist/types/real/lock/index.d.ts' },
    { entry: 'lockstep-redlock/compat', path: 'real/lock/dist/types/real/lock/compat.d.ts' },
    ...ofTool.map(([name, path]) => ({ entry: `lockstep${name.slice(1)}`, path: path.replace(/\.js$/, '.d.ts') })),
  ];
}

/** Writes the reference of every entry from the declarations of the build. */
export function apiReference(): EntryReference[] {
  const project = new Project({
    compilerOptions: {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      noLib: true,
    },
    skipAddingFilesFromTsConfig: true,
  });
  return declarationsOfEntries().map(({ entry, path }) => {
    const declarations = fileURLToPath(new URL(path, TOP));
    const source = project.addSourceFileAtPath(declarations);
    project.resolveSourceFileDependencies();
    const exported = [...source.getExportedDeclarations()].sort(([a], [b]) => (a < b ? -1 : 1));
    const about = source.getFullText().match(/^\/\*\*(.*?)\*\//s)?.[1];
    return {
      entry,
      file: `docs/api/${entry.replace('lockstep/', '').replace('/', '-')}.md`,
      names: exported.map(([it]) => it),
      text: [
        `# ${entry}\n`,
        'Made from the code by `npm run docs:api`.\n',
        ...(about === undefined ? [] : [`${plain(about)}\n`]),
        ...exported.flatMap(([it, nodes]) => section(it, nodes)),
      ].join('\n'),
    };
  });
}

function section(name: string, nodes: readonly Node[]): string[] {
  const texts = nodes.map((node) => {
    const whole = Node.isVariableDeclaration(node) ? (node.getVariableStatement() ?? node) : node;
    return { about: docsOf(whole), code: seen(whole.getText()) };
  });
  return [
    `## ${name}\n`,
    ...texts.flatMap(({ about, code }) => [...(about === '' ? [] : [`${about}\n`]), `\`\`\`ts\n${code}\n\`\`\`\n`]),
  ];
}

/** A declaration without what its users cannot reach. */
function seen(declaration: string): string {
  return declaration.replace(/^export (declare )?/, '').replace(/^\s+(?:#private|private\b.*);\n/gm, '');
}

function docsOf(node: Node): string {
  if (!Node.isJSDocable(node)) return '';
  return node
    .getJsDocs()
    .map((doc) => plain(doc.getInnerText()))
    .join('\n\n');
}

/** A docstring as Markdown. */
function plain(docstring: string): string {
  return docstring
    .replace(/^[ \t]*\* ?/gm, '')
    .trim()
    .replace(/\{@link ([^}]+)\}/g, '`$1`')
    .replace(/^@param (\S+) - /gm, '* `$1`: ')
    .replace(/^@returns /gm, '* returns ')
    .replace(/^@throws /gm, '* throws ')
    .replace(/^@example\s*/gm, 'For example:\n');
}
