import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { AppendOnlyFile } from './append-only-file.js';
import { probe } from './clients.js';
import type { FakeClock } from './fake-clock.js';
import { freePort } from './free-port.js';
import { type ClockSetting, type Persistence, ProvisionError, type RestartOptions } from './types.js';

/** Generous: a machine that does much else may take half a minute for what else takes a tenth of a second. */
const START_MS = 120_000;
const PROBE_MS = 5_000;
const PORT_TRIES = 5;

/** One redis-server or valkey-server of our own, on a free port of the loopback. */
export class ServerProcess {
  readonly name: string;
  readonly #command: readonly string[];
  readonly #folder: string;
  readonly #persistence: Persistence;
  readonly #clock: FakeClock | null;
  readonly #file: AppendOnlyFile;
  #port = 0;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();

  /**
   * `command` is the program, with what comes before the options of redis-server. `folder` is the server's own, and goes when it
   * restarts empty; `clock` is `null` for the machine's.
   */
  constructor(
    name: string,
    command: readonly string[],
    { folder, persistence, clock }: { folder: string; persistence: Persistence; clock: FakeClock | null },
  ) {
    this.name = name;
    this.#command = command;
    this.#folder = folder;
    this.#persistence = persistence;
    this.#clock = clock;
    this.#file = new AppendOnlyFile(folder);
  }

  get url(): string {
    return `redis://127.0.0.1:${this.#port}`;
  }

  /** The first start, on a free port. Somebody else may take it in between, then on another. */
  async start(): Promise<void> {
    for (let tries = 1; ; tries++) {
      this.#port = await freePort();
      try {
        await this.#launch();
        return;
      } catch (error) {
        if (tries === PORT_TRIES) throw error;
      }
    }
  }

  async kill(): Promise<void> {
    // Waited for, unlike a server that merely runs.
    this.#child?.ref();
    this.#child?.kill('SIGKILL');
    await this.#exited;
  }

  /** For the end of our own process, where nothing can be waited for. */
  killNow(): void {
    this.#child?.kill('SIGKILL');
  }

  async pause(): Promise<void> {
    this.#running().kill('SIGSTOP');
  }

  async resume(): Promise<void> {
    this.#running().kill('SIGCONT');
  }

  async sync(): Promise<void> {
    if (!this.#appends) throw new ProvisionError(`${this.name} has no append-only file.`);
    this.#file.sync();
  }

  async cutPower(): Promise<void> {
    await this.kill();
    if (this.#appends && this.#persistence !== 'always') this.#file.loseTail();
  }

  async setClock(setting: ClockSetting): Promise<void> {
    if (this.#clock === null) {
      throw new ProvisionError(
        `The clock of ${this.name} cannot be set: nodes are provisioned with clocks of their own only where asked for, and where libfaketime is found (apt-get install faketime).`,
      );
    }
    this.#clock.set(setting);
  }

  async restart({ keepData }: RestartOptions): Promise<void> {
    if (keepData && this.#persistence === 'none') await this.#save();
    await this.kill();
    if (!keepData) rmSync(this.#folder, { recursive: true, force: true });
    await this.#launch();
  }

  get #appends(): boolean {
    return this.#persistence !== 'none' && this.#persistence !== 'rdb';
  }

  #running(): ChildProcess {
    if (this.#child === undefined) throw new ProvisionError(`${this.name} is not running.`);
    return this.#child;
  }

  async #save(): Promise<void> {
    if (this.#child === undefined) {
      throw new ProvisionError(`${this.name} was killed without persistence: it has no data to keep.`);
    }
    this.#child.kill('SIGCONT');
    const client = new Redis(this.url);
    try {
      await client.save();
    } finally {
      client.disconnect();
    }
  }

  async #launch(): Promise<void> {
    mkdirSync(this.#folder, { recursive: true });
    const log = join(this.#folder, 'server.log');
    const output = openSync(log, 'a');
    // In a process group of its own, so that Ctrl-C in a terminal reaches us alone and we end it in order.
    const env = { ...process.env, ...this.#clock?.environment() };
    const [program = '', ...first] = this.#command;
    const child = spawn(program, [...first, ...this.#arguments()], {
      stdio: ['ignore', output, output],
      detached: true,
      env,
    });
    closeSync(output);
    child.unref();
    this.#child = child;
    let ended: string | undefined;
    this.#exited = new Promise((resolve) => {
      const end = (how: string) => {
        ended = how;
        if (this.#child === child) this.#child = undefined;
        resolve();
      };
      child.once('exit', (code, signal) => end(`ended with ${signal ?? `code ${code}`}`));
      child.once('error', (error) => end(`did not start: ${error.message}`));
    });
    const until = Date.now() + START_MS;
    while (ended === undefined && Date.now() < until) {
      if (await isServing(this.url)) return;
      await sleep(5);
    }
    await this.kill();
    throw new ProvisionError(`${program} ${ended ?? 'was not ready in time'}: ${lastLine(log)}`);
  }

  #arguments(): string[] {
    const file = this.#appends ? ['yes', '--appendfsync', this.#persistence] : ['no'];
    return [
      ...['--bind', '127.0.0.1', '--port', String(this.#port), '--dir', this.#folder],
      ...(this.#persistence === 'rdb' ? [] : ['--save', '']),
      ...['--daemonize', 'no', '--appendonly', ...file],
    ];
  }
}

async function isServing(url: string): Promise<boolean> {
  try {
    await probe(url, PROBE_MS);
    return true;
  } catch {
    return false;
  }
}

function lastLine(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim().split('\n').at(-1) ?? '';
  } catch {
    return 'it wrote no log';
  }
}
