import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Ended, started } from '../campaign/testing/command.js';
import { emptyFolder, lockstep } from '../cli/testing/in-process.js';
import { type Provision, provision } from '../real/provisioner/index.js';
import { canRunOnRedis } from '../real/testing/can-run.js';
import { type Block, blocksOf, commandsIn, documents, type Told } from './blocks.js';
import { wholeSearches } from './commands.js';

const TOP = fileURLToPath(new URL('..', import.meta.url));
const SCRIPTS = (JSON.parse(readFileSync(join(TOP, 'package.json'), 'utf8')) as { scripts: Record<string, string> })
  .scripts;

/** A lock that is safe, as somebody may have it in a file. */
const LOCK_FILE = join(TOP, 'audit/testing/locks/with-node-redis.ts');

/** Tested elsewhere, line by line and with their verdicts, as the pages of findings are. */
const OWN_TESTS = ['README.md', 'docs/tour.md', 'docs/safety-map.md', 'docs/skill/SKILL.md'];
/** What `doc-searches` runs as it is, to a good end. */
const RUN_ELSEWHERE = wholeSearches();
/** What is printed, and not typed. */
const OUTPUT = ['', 'text', 'mermaid', 'yaml', 'json', 'ts'];

/** Runs of a search that is to pass; one that is to find something ends there. */
const MOST_RUNS: Readonly<Record<string, number>> = { check: 600, campaign: 160, risk: 400 };
/** Of a campaign of libraries: each run takes as long as a hundred of others. */
const MOST_OF_LIBRARIES = 40;

/** The same command with less to do. */
function quick({ argv, verdict }: Told): string[] {
  const [verb] = argv;
  const isOfLibraries = verb === 'campaign' && argv.includes('--libraries');
  const most = isOfLibraries ? MOST_OF_LIBRARIES : (verdict !== 'violated' && MOST_RUNS[verb ?? '']) || 2_000;
  const less = argv.map((word, i) => (argv[i - 1] === '--runs' ? String(Math.min(Number(word), most)) : word));
  const isSearch = verb === 'check' || (verb === 'campaign' && (argv[1] ?? '--').startsWith('--'));
  if (isSearch && !argv.includes('--runs')) less.push('--runs', String(most));
  if (verb === 'campaign' && isSearch) {
    const at = less.indexOf('--range-runs');
    if (at >= 0) less[at + 1] = '20';
    else less.push('--range-runs', '20');
  }
  if (verb === 'audit' && !argv.includes('--replay')) less.push('--runs', '2');
  // A hook puts the files behind it that are to be committed.
  if (verb === 'audit' && argv.includes('--skip')) less.push('src/lock.ts');
  if (verb === 'libraries' && !argv.includes('--replay')) {
    const at = less.indexOf('--runs');
    if (at >= 0) less[at + 1] = '1';
    else less.push('--runs', '1');
    if (!less.includes('--no-shrink')) less.push('--no-shrink');
  }
  if (verb === 'libraries' && !less.includes('--file') && !less.includes('--only')) less.push('--only', 'redlock5');
  if (verb === 'libraries' && less.includes('--pair')) less.push('--nodes', '1');
  return less;
}

const SERVED_MS = 2_000;
const SHARDS = 8;
const PLACE = /\$\{\{.*?\}\}/g;

/** What a matrix of CI makes of a command, and the shell of a pattern. */
function expanded(told: Told): Told[] {
  const shards = Array.from({ length: SHARDS }, (_, i) => `${i + 1}`);
  const { argv } = told;
  const times = argv.some((word) => word.includes('matrix.shard')) ? shards : ['17'];
  return times.map((time) => ({
    ...told,
    argv: argv.flatMap((word) =>
      word.includes('*.json') ? shards.map((shard) => word.replace('*', shard)) : [word.replaceAll(PLACE, time)],
    ),
  }));
}

/**
 * Whether a command has workers, which are processes of the build, goes on until it is told to stop, or loads clients, which
 * have to be loaded after what stands for the clock.
 */
function needsProcess([verb = '', ...rest]: readonly string[]): boolean {
  return ['campaign', 'libraries', 'risk'].includes(verb) || rest.includes('--workers');
}

/** A process of the build, when it has ended: a page is served until it is told to stop. */
function ended(argv: readonly string[], env: Readonly<Record<string, string>>, cwd: string): Promise<Ended> {
  const { child, end } = started(argv, env, cwd);
  if (argv[1] === 'serve') setTimeout(() => child.kill('SIGINT'), SERVED_MS);
  return end;
}

/** The exit codes that a line promises; for those without a word on it, of whatever comes to an end. */
function expected({ argv: [verb], verdict }: Told): readonly number[] {
  if (verdict === 'violated') return verb === 'replay' ? [0] : [1];
  if (verdict !== null) return [0];
  return verb === 'campaign' || verb === 'libraries' ? [0, 1] : [0];
}

describe('every fenced block of the documents', () => {
  const blocks = documents().flatMap(blocksOf);

  it('is of a kind that is tried, or is something that is printed', () => {
    expect(blocks.length).toBeGreaterThan(40);
    const unknown = blocks.filter(({ language }) => language !== 'sh' && !OUTPUT.includes(language));
    expect(unknown).toEqual([]);
  });

  it('has in its lines for the shell nothing but what is tried', () => {
    const lines = blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ document, text }) =>
        text
          .trim()
          .split('\n')
          .map((line) => ({ document, line })),
      );
    const known =
      /^(lockstep|npx lockstep|npm run -s lockstep --|export LOCKSTEP_QUEUE=|npx vitest run --project \w+ examples|npm test|npm install --save-dev lockstep)/;
    const other = lines.filter(({ line }) => !known.test(line));
    for (const { document, line } of other) {
      const [, script = ''] = /^npm run (?:-s )?([\w:]+)/.exec(line) ?? [];
      expect(SCRIPTS, `${document}: ${line}`).toHaveProperty([script]);
    }
  });
});

const title = 'commands of the documents, with a Redis server for campaigns';

describe.skipIf(!canRunOnRedis(title))(title, () => {
  let server: Provision;
  beforeAll(async () => {
    server = await provision({ nodes: 1 });
  });
  afterAll(() => server?.stop());

  const told = documents()
    .filter((document) => !OWN_TESTS.includes(document) && !document.startsWith('docs/findings/'))
    .map((document) => ({
      document,
      commands: blocksOf(document)
        .filter(isTyped)
        .flatMap(commandsIn)
        .filter(({ argv }) => !RUN_ELSEWHERE.includes(argv.join(' ')))
        .flatMap(expanded),
    }))
    .filter(({ commands }) => commands.length > 0);

  it.each(told)('$document', { timeout: 240_000 }, async ({ commands }) => {
    // One after the other in one folder: what one leaves behind, another goes on with.
    const cwd = emptyFolder();
    const right = readFileSync(join(TOP, 'libraries/testing/clients/right-locks.ts'), 'utf8');
    writeFileSync(
      join(cwd, 'my-lock-class.ts'),
      right.replace('class HandleLock', 'class MyLock').replaceAll('HandleLock', 'MyLock'),
    );
    writeFileSync(
      join(cwd, 'my-lock.ts'),
      blocksOf('docs/libraries.md').find(({ text }) => text.includes('makeLock'))?.text ?? '',
    );
    cpSync(LOCK_FILE, join(cwd, 'src/lock.ts'));
    cpSync(join(TOP, 'examples/risk'), join(cwd, 'examples/risk'), { recursive: true });
    symlinkSync(join(TOP, 'node_modules'), join(cwd, 'node_modules'));
    const env = { LOCKSTEP_QUEUE: server.nodes[0]?.url ?? '' };
    for (const command of commands) {
      const argv = quick(command);
      const serves = argv[1] === 'serve';
      const { code, stderr } = needsProcess(argv) ? await ended(argv, env, cwd) : await lockstep(argv, { cwd, env });
      expect(serves ? [0, 130] : expected(command), `lockstep ${argv.join(' ')}: ${code} ${stderr}`).toContain(code);
    }
  });
});

/** Below the repository, so that `lockstep` is this package. */
function folderWithin(): string {
  return mkdtempSync(join(TOP, 'dist', 'documents-'));
}

describe.skipIf(!canRunOnRedis('code of the documents'))('code of the documents', () => {
  const code = documents()
    .flatMap(blocksOf)
    .filter(({ language }) => language === 'ts');
  /** Each once, and a few of its runs where it says how many. */
  const tests = code
    .filter(({ text }, i) => code.findIndex((it) => it.text === text) === i)
    .map((it) => ({ ...it, text: it.text.replace(/\bruns: \d+/, 'runs: 3') }));

  it('is a use of the lock, a lock that is audited, a record of one, a test of one or of a file, or a lock to plug in', () => {
    const kinds = [
      /new Redlock\(/,
      /export async function withLock/,
      /new Recorder\(/,
      /expectSafe\(/,
      /expectSafeFile\(/,
      /export const makeLock/,
    ];
    for (const { document, text } of code) expect(kinds.filter((kind) => kind.test(text)).length, document).toBe(1);
    expect(code.length).toBeGreaterThan(3);
  });

  it.each(code.filter(({ text }) => text.includes('new Redlock(')))('$document: a lock', async ({ text }) => {
    const charged: string[] = [];
    const payments = createServer((request, response) => {
      charged.push(request.method ?? '');
      response.end();
    }).listen(0, '127.0.0.1');
    const nodes = await provision({ nodes: 3 });
    const folder = folderWithin();
    try {
      const urls = nodes.nodes.map(({ url }) => new URL(url).port).join(', ');
      const { port } = payments.address() as AddressInfo;
      const program = text
        .replace(/\[7001, 7002, 7003\]/, `[${urls}]`)
        .replace('https://example.org', `http://127.0.0.1:${port}`);
      writeFileSync(join(folder, 'program.ts'), `${program}\nsetTimeout(() => process.exit(), 500);\n`);
      await promisify(execFile)(process.execPath, ['--import', 'tsx', join(folder, 'program.ts')], { cwd: TOP });
      expect(charged).toEqual(['POST']);
    } finally {
      rmSync(folder, { recursive: true });
      payments.close();
      await nodes.stop();
    }
  });

  it.each(code.filter(({ text }) => text.includes('new Recorder(')))('$document: a record', async ({ text }) => {
    const nodes = await provision({ nodes: 3 });
    const folder = folderWithin();
    try {
      const lock = `
        import { Redlock } from 'lockstep-redlock';
        import { Redis } from 'ioredis';
        const redlock = new Redlock(${JSON.stringify(nodes.urls)}.map((url) => new Redis(url)));`;
      writeFileSync(join(folder, 'program.ts'), `${lock}\n${text}\nprocess.exit();\n`);
      const tsx = pathToFileURL(join(TOP, 'node_modules/tsx/dist/loader.mjs')).href;
      await promisify(execFile)(process.execPath, ['--import', tsx, 'program.ts'], { cwd: folder });
      expect(await started(['verify', 'client-1.jsonl'], {}, folder).end).toMatchObject({ code: 0 });
    } finally {
      rmSync(folder, { recursive: true });
      await nodes.stop();
    }
  });

  it.each(tests.filter(({ text }) => text.includes('expectSafe(')))('$document: a test', async ({ text }) => {
    const folder = folderWithin();
    try {
      for (const part of ['src', 'test']) mkdirSync(join(folder, part));
      const [name, file] = text.includes("'redis'")
        ? ['NodeRedisLock', 'bench/socket-locks']
        : ['HandleLock', 'libraries/testing/clients/right-locks'];
      const own = `export { ${name} as MyLock } from '../../../${file}.js';\n`;
      writeFileSync(join(folder, 'src/my-lock.ts'), own);
      writeFileSync(join(folder, 'test/my-lock.test.ts'), text.replace("from 'vitest'", "from 'node:test'"));
      const argv = ['--import', 'tsx', '--test', join(folder, 'test/my-lock.test.ts')];
      const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: TOP });
      expect(stdout).toContain('# pass 1');
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it.each(code.filter(({ text }) => text.includes('expectSafeFile(')))(
    '$document: a test of a file',
    async ({ text }) => {
      const folder = folderWithin();
      try {
        cpSync(LOCK_FILE, join(folder, 'lock.ts'));
        writeFileSync(join(folder, 'lock.test.ts'), text.replace("from 'vitest'", "from 'node:test'"));
        const argv = ['--import', 'tsx', '--test', join(folder, 'lock.test.ts')];
        const { stdout } = await promisify(execFile)(process.execPath, argv, { cwd: TOP });
        expect(stdout).toContain('# pass 1');
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  it('says the same of a lock to plug in wherever it does', () => {
    const locks = code.filter(({ text }) => text.includes('makeLock')).map(({ text }) => text);
    expect(new Set(locks).size).toBe(1);
  });
});

it('the rows of libraries in the README are what the command prints', async () => {
  const argv = ['libraries', '--runs', '20', '--no-shrink', '--faults', 'spikes-fifo,drift,long-delays,even'];
  const { stdout } = await started(argv).end;
  const rows = stdout
    .split('\n')
    .filter((line) => /^(fault|on one node|spikes-fifo|drift|long-delays|even) /.test(line))
    .filter((line) => /\d\/20|redlock4|redis-lock/.test(line));
  // Those that are made for one node are not tried on four.
  expect(rows).toHaveLength(5 + 4);
  const said = readFileSync(join(TOP, 'README.md'), 'utf8').replaceAll(/ +/g, ' ');
  for (const row of rows) expect(said).toContain(row.replaceAll(/ +/g, ' '));
});

it('the command of the indexed job makes one part of a campaign', async () => {
  const job = blocksOf('docs/campaigns.md').find(({ text }) => text.includes('completionMode: Indexed'))?.text ?? '';
  const [, command = ''] = /command: \[sh, -c, '(.*)'\]/.exec(job) ?? [];
  expect(command).toContain('--shard $((JOB_COMPLETION_INDEX + 1))/8');
  const cwd = emptyFolder();
  const less = command.replace('--runs 8000000', '--runs 800 --range-runs 50');
  const script = `lockstep() { '${process.execPath}' '${join(TOP, 'dist/cli/main.js')}' "$@"; }\n${less}`;
  const env = { ...process.env, JOB_COMPLETION_INDEX: '2' };
  const { stdout } = await promisify(execFile)('sh', ['-c', script], { cwd, env });
  expect(stdout).toContain('(shard 3 of 8)');
  expect(JSON.parse(readFileSync(join(cwd, 'part-2.json'), 'utf8'))).toMatchObject({
    done: [expect.anything(), expect.anything()],
  });
});

function isTyped({ language, text }: Block): boolean {
  return language === 'sh' || (language === 'yaml' && text.includes('npx lockstep '));
}
