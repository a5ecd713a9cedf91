import { type ChildProcess, spawn } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ChaosClient, ClientConfig, ClientReport } from './types.js';

/** How long a client may take to finish what it is doing when it is told to stop, ms. */
const STOP_MS = 15_000;

/** The script of a client process, beside this one: built, or as source through tsx. */
const SOURCE = import.meta.url.endsWith('.ts');
const SCRIPT = new URL(`./client.${SOURCE ? 'ts' : 'js'}`, import.meta.url);

interface Member {
  readonly name: string;
  readonly library: ChaosClient;
  readonly historyPath: string;
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  report: ClientReport;
  /** Whether it was killed on purpose. */
  killed: boolean;
}

/** The client processes of a chaos run. Those that are killed are replaced by new ones with new names. */
export class ClientPool {
  readonly #folder: string;
  readonly #orders: (place: number) => Omit<ClientConfig, 'client' | 'historyPath'>;
  readonly #members: Member[] = [];
  /** Who works at each place now. */
  readonly #working: Member[] = [];

  constructor(folder: string, orders: (place: number) => Omit<ClientConfig, 'client' | 'historyPath'>) {
    this.#folder = folder;
    this.#orders = orders;
  }

  hire(place: number): void {
    const name = `c${this.#members.length + 1}`;
    const historyPath = join(this.#folder, `${name}.jsonl`);
    const orders: ClientConfig = { client: name, historyPath, ...this.#orders(place) };
    const args = [...(SOURCE ? ['--import', 'tsx'] : []), SCRIPT.pathname, JSON.stringify(orders)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    const ended = new Promise<number | null>((resolve) => {
      child.once('exit', (code) => resolve(code));
      child.once('error', () => resolve(1));
    });
    const report: ClientReport = { calls: 0, acquired: 0, longestCallMs: 0 };
    const member: Member = { name, library: orders.library, historyPath, child, ended, killed: false, report };
    child.on('message', (told) => {
      member.report = told as ClientReport;
    });
    this.#members.push(member);
    this.#working[place] = member;
  }

  /** Ends a client as a crash does, and starts another in its place. */
  replace(place: number): void {
    const member = this.#working[place];
    if (member === undefined) return;
    member.killed = true;
    member.child.kill('SIGKILL');
    this.hire(place);
  }

  pause(place: number): void {
    this.#working[place]?.child.kill('SIGSTOP');
  }

  resume(place: number): void {
    this.#working[place]?.child.kill('SIGCONT');
  }

  get reports(): readonly ClientReport[] {
    return this.#members.map(({ report }) => report);
  }

  /** Locks that were acquired by each library. */
  get acquiredBy(): Readonly<Partial<Record<ChaosClient, number>>> {
    const counts: Partial<Record<ChaosClient, number>> = {};
    for (const { library, report } of this.#members) counts[library] = (counts[library] ?? 0) + report.acquired;
    return counts;
  }

  /** Has everybody finish. Returns the names of those that did not, or not by themselves, or whose call took longer. */
  async dismiss(boundMs: number): Promise<string[]> {
    const wrong = await Promise.all(
      this.#members.map(async (member) => {
        const { child, killed, name, ended } = member;
        if (killed) return [];
        child.kill('SIGCONT');
        if (child.connected) child.send('stop');
        const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
        const code = await ended;
        clearTimeout(timer);
        return code === 0 && member.report.longestCallMs <= boundMs ? [] : [name];
      }),
    );
    await Promise.all(this.#members.map(({ ended }) => ended));
    return wrong.flat();
  }

  /** For the end of our own process, where nothing can be waited for. */
  killNow(): void {
    for (const { child } of this.#members) child.kill('SIGKILL');
  }

  /** Ends everybody, and waits until they are gone. */
  async kill(): Promise<void> {
    this.killNow();
    await Promise.all(this.#members.map(({ ended }) => ended));
  }

  /** Joins what all have recorded; of a client that was killed, without a line that it had not finished. */
  joinHistories(path: string): void {
    mkdirSync(dirname(path), { recursive: true });
    rmSync(path, { force: true });
    for (const { historyPath } of this.#members) {
      const text = textOf(historyPath);
      appendFileSync(path, text.slice(0, text.lastIndexOf('\n') + 1));
    }
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // It was killed before it had opened its file.
    return '';
  }
}
