import { readFileSync } from 'node:fs';
import { builtinModules, createRequire } from 'node:module';
import { basename, dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compileFunction } from 'node:vm';
import { createJiti, type Jiti } from 'jiti';
import { InputError } from '../scenarios/input-error.js';
import { withConditions } from './conditions.js';
import {
  ARGUMENTS,
  type Evaluate,
  Evaluation,
  EXPORTS,
  type Exports,
  INSIDE,
  type OwnFile,
  PARAMETERS,
  ProcessExit,
  type Target,
  withKept,
} from './evaluation.js';
import { keptBy } from './handed-functions.js';
import { isInjected, withInjected } from './injected.js';
import { withLatches } from './latches.js';
import { clientFile, settingsFile, tokensFile } from './neighbours.js';
import { provideNewer, withoutEffects } from './outside.js';
import { isFile, missingImport, packageOf, standFor, standForMissing } from './packages.js';
import { argumentsIn } from './required.js';
import { SCHEMAS, withPassing } from './schemas.js';
import { readSource, type Shape, type SourceFile } from './shapes.js';
import { signatureFor, withOneSignature } from './signatures.js';
import { part, parts, syntaxOf, visit } from './syntax.js';
import { takeTexts } from './texts.js';
import { takingLists } from './utilities.js';

/** Decorators as the language has them now, whose second parameter is a context; they are compiled as older ones. */
const STANDARD = /\bClass(?:Method|Field|Getter|Setter|Accessor)?DecoratorContext\b/;
const LEGACY = /return n\(i, e, r\) \|\| r;/;
const AS_STANDARD =
  "const it = n(r.value, { kind: 'method', name: e, static: false, private: false, metadata: {}, addInitializer() {} }); return typeof it === 'function' ? { ...r, value: it } : r;";

/** What it is compiled to where that fails. */
const FAILED = /^exports\.__JITI_ERROR__ = .*"message":"([^"\\]*)/;

const REQUIRES: ReadonlySet<unknown> = new Set(['jitiImport', 'require']);
const MODULE_SYNTAX = /^\s*(?:import\b(?!\s*\()|export\b)/m;

/** A file that is compiled, and what it requires and imports. */
interface Compiled extends Pick<OwnFile, 'evaluate'> {
  readonly requests: readonly string[];
}

/** What a compiled file requires, and not what its comments say of how others require it. */
function requestsIn(compiled: string): string[] {
  const requests = new Set<string>();
  visit(syntaxOf(compiled, 'code.js'), (node) => {
    const [request] = REQUIRES.has(part(node, 'callee')?.name) ? parts(node, 'arguments') : [];
    if (request?.type === 'StringLiteral') requests.add(String(request.value));
  });
  return [...requests];
}

/** A file with all that it imports. Packages are loaded once; its author's files, and what keeps random bytes, once for each simulated process. */
export class Program {
  readonly path: string;
  private readonly jiti: Jiti = createJiti(import.meta.url, {
    moduleCache: false,
    fsCache: false,
    tsconfigPaths: true,
  });
  private readonly files = new Map<string, OwnFile>();
  /** Packages that are not installed, and files that are not there, and that something stands for. */
  readonly missing: Set<string> = new Set();

  private constructor(path: string) {
    this.path = path;
  }

  /** @throws InputError in one sentence for a file that cannot be read, or that imports what is not there. */
  static async load(path: string): Promise<Program> {
    provideNewer();
    const program = new Program(path);
    await program.add(path);
    program.awaitImports();
    return program;
  }

  /** The name of the file in sentences. */
  get name(): string {
    return basename(this.path);
  }

  /** All that its author has written. */
  get sources(): readonly SourceFile[] {
    const own = [...this.files.values()].filter(({ path }) => path === this.path || !KEEPS_DRAWN.test(path));
    return own.map(({ source }) => source);
  }

  get texts(): readonly string[] {
    return this.sources.map(({ text }) => text);
  }

  get shapes(): readonly Shape[] {
    return this.sources.flatMap(({ shapes }) => shapes);
  }

  /** @param standIn - The text of one that is not there. */
  private async add(path: string, standIn?: string): Promise<void> {
    if (this.files.has(path)) return;
    const name = relative(dirname(this.path), path) || basename(path);
    const text = withInjected(standIn ?? readFileSync(path, 'utf8'));
    const source = readSource(text, name);
    const isModule = MODULE_SYNTAX.test(text);
    const targets = new Map<string, Target>();
    // Before what it imports: files may import each other.
    const given = argumentsIn(text) ?? ARGUMENTS;
    const { requests, ...compiled } = this.compiled(path, source);
    this.files.set(path, { path, source, isModule, targets, given, ...compiled });
    for (const request of requests) targets.set(request, await this.targetOf(request, path, name));
  }

  private compiled(path: string, source: SourceFile): Compiled & Pick<OwnFile, 'awaits'> {
    if (source.awaits) return { ...this.compiledAs(true, path, source), awaits: true };
    try {
      return { ...this.compiledAs(false, path, source), awaits: false };
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      return { ...this.compiledAs(true, path, source), awaits: true };
    }
  }

  private compiledAs(awaits: boolean, path: string, { names, text }: SourceFile): Compiled {
    const inside = names.map((it) => `get ${it}() { return ${it}; }`).join(', ');
    const source = this.jiti.transform({
      source: withConditions(withLatches(text, basename(path)), basename(path)),
      filename: path,
      ts: !/\.[cm]?js$/.test(path),
      retainLines: true,
      interopDefault: false,
      async: awaits,
    });
    const [, failed] = FAILED.exec(source) ?? [];
    if (failed !== undefined) throw new InputError(`${basename(path)} cannot be compiled: ${failed}`);
    const decorated = STANDARD.test(text) ? source.replace(LEGACY, AS_STANDARD) : source;
    const body = `return (${awaits ? 'async ' : ''}() => {${decorated}\n;exports.${INSIDE} = { ${inside} };})();`;
    const evaluate = compileFunction(body, PARAMETERS, { filename: path }) as Evaluate;
    return { evaluate, requests: requestsIn(source) };
  }

  /** A file that imports one that awaits as it is loaded has to await that. */
  private awaitImports(): void {
    const isOfAwaiting = ({ isModule, awaits, targets }: OwnFile): boolean =>
      isModule && !awaits && [...targets.values()].some((to) => 'own' in to && this.files.get(to.own)?.awaits);
    for (;;) {
      const file = [...this.files.values()].find(isOfAwaiting);
      if (file === undefined) return;
      const { path, source } = file;
      this.files.set(path, { ...file, awaits: true, evaluate: this.compiledAs(true, path, source).evaluate });
    }
  }

  private async targetOf(request: string, from: string, name: string): Promise<Target> {
    const stand = standFor(request, !EXPORTS.test(this.files.get(from)?.source.text ?? ''));
    if (stand !== null) return { namespace: stand, exports: stand.default };
    const isBuiltin = request.startsWith('node:') || builtinModules.includes(request);
    const resolved = isBuiltin ? request : this.jiti.esmResolve(request, { parentURL: from, try: true });
    if (resolved === undefined) return this.targetOfMissing(request, from, name);
    const path = resolved.startsWith('file:') ? fileURLToPath(resolved) : resolved;
    // What is not beside the file is looked for beside this one.
    const isElsewhere = request.startsWith('.') && !path.startsWith(resolve(dirname(from), withoutEnd(request)));
    if (isElsewhere) return this.targetOfMissing(request, from, name);
    const isShared = path.includes('/node_modules/') && !KEEPS_DRAWN.test(path);
    if (!isBuiltin && !isShared && /\.[cm]?[jt]sx?$/.test(path)) {
      await this.add(path);
      return { own: path };
    }
    if (path.endsWith('.json')) {
      const exports: unknown = JSON.parse(readFileSync(path, 'utf8'));
      return { namespace: { default: exports }, exports };
    }
    try {
      const namespace = withNames(await import(resolved));
      if (CLIENTS.test(request)) takeTexts(namespace);
      const signs = /^(?:node:)?crypto$/.test(request) && signatureFor(this.texts) !== null;
      const shown = SCHEMAS.test(request)
        ? (withPassing(namespace) as Exports)
        : signs
          ? withOneSignature(namespace)
          : withoutEffects(request, namespace);
      const exports = shown === namespace ? requireOr(request, from, namespace) : shown;
      return { namespace: takingLists(request, shown), exports: takingLists(request, exports) };
    } catch (error) {
      throw new InputError(`${name} imports ${request}, which cannot be loaded: ${firstLineOf(error)}`, {
        cause: error,
      });
    }
  }

  private async targetOfMissing(request: string, from: string, name: string): Promise<Target> {
    const text = this.files.get(from)?.source.text ?? '';
    const client = clientFile(request, text) ?? tokensFile(request, text) ?? settingsFile(request, text);
    const missing = client === null ? standForMissing(request, text) : null;
    if (client === null && missing === null) throw new InputError(missingImport(name, request));
    if (!isInjected(request)) this.missing.add(isFile(request) ? request : packageOf(request));
    if (missing !== null) return { namespace: missing, exports: missing.default };
    const path = `${resolve(dirname(from), request)}.ts`;
    await this.add(path, client ?? '');
    return { own: path };
  }

  /** Evaluates the file, and its author's other files, as a process does that begins. */
  async evaluate(): Promise<Exports> {
    try {
      const { result, kept } = await keptBy(async () => {
        const exports = await new Evaluation(this.files).of(this.path);
        if (this.texts.some((it) => BEGINS.test(it))) await new Promise((resolve) => setTimeout(resolve, BEGUN_MS));
        return exports;
      });
      return withKept(result, kept);
    } catch (error) {
      // A script that ends its process has done what it does.
      if (error instanceof ProcessExit && !EXPORTS.test(this.files.get(this.path)?.source.text ?? '')) return {};
      throw error;
    }
  }
}

/**
 * Packages that keep random bytes that they have drawn, or count: of one that all simulated processes share, each would get what another
 * has drawn, and no run could be repeated.
 */
const KEEPS_DRAWN = /\/node_modules\/(?:nanoid|uuid|short-uuid|hyperid|ulidx?|ksuid|cuid|@paralleldrive\/cuid2)\//;

/** Packages of clients, which files import by themselves. */
const CLIENTS = /^(?:ioredis|iovalkey|redis|@redis\/client)$/;

/** A file that calls a function of its own as it is loaded, and does not wait for it: `main();`. */
const BEGINS = /^(?:void )?\w+\(\)(?:\.catch\(|;?\s*$)/m;
/** What it has begun has connected by then, and has handed over its handlers, ms of simulated time. */
const BEGUN_MS = 100;

/** What is asked for as `./lock.js` may be `./lock.ts`. */
function withoutEnd(request: string): string {
  return request.replace(/\.[cm]?[jt]sx?$/, '');
}

/** With the names of what a CommonJS package exports, of which Node may see none: `import { chunk } from 'lodash'`. */
function withNames(namespace: Exports): Exports {
  const isBare = Object.keys(namespace).every((it) => it === 'default' || it === 'module.exports');
  return isBare ? { ...Object(namespace.default), ...namespace } : namespace;
}

function requireOr(request: string, from: string, namespace: Exports): unknown {
  try {
    return createRequire(from)(request);
  } catch {
    // It is not installed beside the file, and was imported from here. What a CommonJS package exports is its default export.
    const whole = Object(namespace.default) as object;
    return Object.keys(namespace).every((it) => /^(?:default|module\.exports|__esModule)$/.test(it) || it in whole)
      ? whole
      : namespace;
  }
}

/** The first line of what was thrown. */
export function firstLineOf(error: unknown): string {
  return (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).split('\n', 1)[0] ?? '';
}

/** Whether it speaks to servers without any client. */
export function hasOwnConnections({ sources }: Program): boolean {
  const imports = sources.flatMap((it) => it.imports);
  return (
    !imports.some((it) => /redis|valkey|kv/.test(it)) &&
    sources.some(({ text }) => /['"](?:node:)?(?:net|tls)['"]|\bfetch\(/.test(text))
  );
}
