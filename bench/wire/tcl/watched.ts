import { COMMANDS, loadLua, REDIS_7_0, type Reply, Server, type Session, Status } from '../../../wire/index.js';

/** How the suite says on a server which test comes next: `debug log "### Starting test GET in tests/unit/type/string.tcl"`. */
const STARTING = /^### Starting test (.*) in tests\/\S+$/s;

/** Subcommands of `DEBUG` on how Redis keeps its memory, on the expiry of keys that nobody looks at, and on itself. */
const WITHOUT_MEANING: ReadonlySet<string> = new Set([
  'quicklist-packed-threshold',
  'set-active-expire',
  'set-disable-deny-scripts',
]);

/** A simulated server that keeps what each test of the suite asked for: what it does not know, and what it may not do. */
export class WatchedServer extends Server {
  private current: Set<string> = new Set();
  /** By test: commands that it does not know, options of `CONFIG`, sections of `INFO`, in lower case. */
  readonly asked: Map<string, Set<string>> = new Map();

  static async make(): Promise<WatchedServer> {
    await loadLua();
    return new WatchedServer({ now: () => Date.now() * 1000, random: Math.random, edition: REDIS_7_0 });
  }

  override execute(argv: readonly string[], session: Session): Reply {
    const starting = argv[0] === 'debug' && argv[1] === 'log' ? STARTING.exec(argv[2] ?? '') : null;
    if (starting === null) return this.debug(argv) ?? super.execute(argv, session);
    const name = starting[1] ?? '';
    this.current = this.asked.get(name) ?? new Set();
    this.asked.set(name, this.current);
    return new Status('OK');
  }

  /** What changes nothing that commands answer, or holds the process up. */
  private debug(argv: readonly string[]): Reply {
    const [name, sub = '', value] = argv.map((it) => it.toLowerCase());
    if (name !== 'debug') return null;
    if (sub === 'sleep') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(value) * 1000);
    return sub === 'sleep' || WITHOUT_MEANING.has(sub) ? new Status('OK') : null;
  }

  override find(argv: readonly string[]): ReturnType<Server['find']> {
    const found = super.find(argv);
    const words = argv.map((it) => it.toLowerCase());
    const [name = '', sub = ''] = words;
    if (found === undefined) this.current.add(super.find([name]) === undefined ? name : `${name} ${sub}`);
    else for (const it of this.detailsOf(words)) this.current.add(it);
    return found;
  }

  /** What a command asks for besides. */
  private detailsOf([name = '', sub = '', ...words]: readonly string[]): string[] {
    if (name === 'info') return [sub, ...words].filter((it) => STATISTICS.has(it)).map((it) => `info ${it}`);
    if (name === 'command' && sub === 'info') return words.filter((it) => COMMANDS.get(it) === undefined);
    if (name === 'command' && sub === 'getkeys')
      return words.slice(0, 1).filter((it) => COMMANDS.get(it) === undefined);
    if (name === 'command' && sub === 'list') return words.slice(1, 2).map((it) => `command list ${it}`);
    if (sub === 'kill' && (name === 'script' || name === 'function')) return [`${name} kill`];
    if (name !== 'config' || (sub !== 'set' && sub !== 'get')) return [];
    const options = sub === 'get' ? words : words.filter((_, i) => i % 2 === 0);
    return options.map((it) => `config ${it}`);
  }
}

/** Sections of `INFO` that count what a process has done. */
const STATISTICS: ReadonlySet<string> = new Set(['commandstats', 'errorstats', 'latencystats', 'everything', 'all']);
