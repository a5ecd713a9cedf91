import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'undici';

const PLACES = [
  process.env.LOCKSTEP_FIREFOX,
  '/usr/bin/firefox-esr',
  '/usr/bin/firefox',
  '/Applications/Firefox.app/Contents/MacOS/firefox',
];

/** Where Firefox is on this machine. */
export const FIREFOX: string | undefined = PLACES.find((it) => it !== undefined && existsSync(it));

/** What is said where it is not. */
export const NO_FIREFOX =
  'no Firefox is here; install it (Debian: apt-get install firefox-esr), or name one in LOCKSTEP_FIREFOX';

/** Nothing outside this machine is asked for anything. */
const SETTINGS = {
  'network.proxy.type': 1,
  'network.proxy.http': '127.0.0.1',
  'network.proxy.http_port': 9,
  'network.proxy.ssl': '127.0.0.1',
  'network.proxy.ssl_port': 9,
  'app.update.enabled': false,
  'app.normandy.enabled': false,
  'datareporting.policy.dataSubmissionEnabled': false,
  'browser.shell.checkDefaultBrowser': false,
};

const STARTS_WITHIN_MS = 60_000;

interface Answer {
  readonly id?: number;
  readonly type: 'success' | 'error' | 'event';
  readonly result?: unknown;
  readonly message?: string;
}

/** Firefox as it is shipped, driven over WebDriver BiDi: one page. */
export class Firefox {
  private readonly process: ChildProcess;
  private readonly socket: WebSocket;
  private readonly profile: string;
  private readonly waiting = new Map<number, (answer: Answer) => void>();
  private last = 0;
  private context = '';

  private constructor(process: ChildProcess, socket: WebSocket, profile: string) {
    this.process = process;
    this.socket = socket;
    this.profile = profile;
    socket.addEventListener('message', ({ data }) => {
      const answer = JSON.parse(String(data)) as Answer;
      this.waiting.get(answer.id ?? -1)?.(answer);
    });
  }

  /** Starts the one of this machine. */
  static async launch(): Promise<Firefox> {
    if (FIREFOX === undefined) throw new Error(NO_FIREFOX);
    const profile = mkdtempSync(join(tmpdir(), 'lockstep-firefox-'));
    const lines = Object.entries(SETTINGS).map(([name, value]) => `user_pref("${name}", ${JSON.stringify(value)});\n`);
    writeFileSync(join(profile, 'user.js'), lines.join(''));
    const argv = ['--headless', '--no-remote', '--profile', profile, '--remote-debugging-port', '0', 'about:blank'];
    const child = spawn(FIREFOX, argv, { stdio: ['ignore', 'ignore', 'pipe'] });
    const socket = new WebSocket(`${await addressSaidBy(child)}/session`);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    const firefox = new Firefox(child, socket, profile);
    await firefox.ask('session.new', { capabilities: {} });
    const { contexts } = await firefox.ask<{ contexts: { context: string }[] }>('browsingContext.getTree', {});
    firefox.context = contexts[0]?.context ?? '';
    return firefox;
  }

  /** Opens a page, and waits until it is loaded. */
  async goto(url: string): Promise<void> {
    await this.ask('browsingContext.navigate', { context: this.context, url, wait: 'complete' });
  }

  /** What an expression is in the page, as JSON has it. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.ask<{
      result?: { value?: string };
      exceptionDetails?: { text: string };
    }>('script.evaluate', {
      expression: `(async () => JSON.stringify(await (${expression})))()`,
      target: { context: this.context },
      awaitPromise: true,
    });
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.text);
    return JSON.parse(result?.value ?? 'null') as T;
  }

  /** Ends it. */
  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    this.socket.close();
    this.process.kill();
    await ended;
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  }

  private async ask<T>(method: string, params: object): Promise<T> {
    const id = ++this.last;
    const answer = await new Promise<Answer>((resolve) => {
      this.waiting.set(id, resolve);
      this.socket.send(JSON.stringify({ id, method, params }));
    });
    this.waiting.delete(id);
    if (answer.type === 'error') throw new Error(`${method}: ${answer.message}`);
    return answer.result as T;
  }
}

/** Where a browser says that it listens. */
function addressSaidBy({ stderr }: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('Firefox has not started')), STARTS_WITHIN_MS);
    let said = '';
    stderr?.on('data', (part) => {
      said += String(part);
      const [, address] = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(said) ?? [];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(address);
    });
  });
}
