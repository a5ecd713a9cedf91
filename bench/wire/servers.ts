import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFaketime } from '../../real/provisioner/fake-clock.js';
import { freePort } from '../../real/provisioner/free-port.js';
import { loadLua, Server } from '../../wire/index.js';
import { type Answer, AnswerReader, encodeRequest } from './answers.js';

/** A connection to one of the two servers that are compared. */
export interface Side {
  /** Sends commands in one piece; their answers, one for each. */
  ask(commands: readonly (readonly string[])[]): Promise<Answer[]>;
}

/** A server whose clock stops but for {@link setClock}. */
export interface ClockedServer extends AsyncDisposable {
  open(): Promise<Side>;
  /** µs since 1970. */
  setClock(us: number): void;
}

/** What both clocks show at first, µs since 1970. */
export const START_US = 1_735_689_600_000_000;

/** The simulated server, in this process. */
export async function simulated(): Promise<ClockedServer> {
  await loadLua();
  let now = START_US;
  const server = new Server({ now: () => now, random: () => 0.5 });
  return {
    setClock: (us) => {
      now = us;
    },
    open: async () => {
      const reader = new AnswerReader();
      const connection = server.connect((bytes) => reader.feed(bytes));
      return {
        ask: async (commands) => {
          connection.receive(commands.map(encodeRequest).join(''));
          return commands.map(() => reader.next() ?? ['?', 'no answer']);
        },
      };
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

function faketime(): string {
  const found = findFaketime();
  if (found === undefined) throw new Error('libfaketime is not found: apt-get install faketime');
  return found;
}

/** A redis-server of this machine, under libfaketime. */
export async function real(): Promise<ClockedServer> {
  // Memory, where there is such a folder: the clock is written often.
  const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'wire-'));
  const clock = join(folder, 'clock');
  const setClock = (us: number): void => {
    const text = new Date(us / 1000)
      .toISOString()
      .replace('T', ' ')
      .replace(/\.\d+Z$/, '');
    writeFileSync(`${clock}.new`, `${text}.${String(us % 1_000_000).padStart(6, '0')}\n`);
    renameSync(`${clock}.new`, clock);
  };
  setClock(START_US);
  const port = await freePort();
  const argv = [
    '--port',
    String(port),
    '--save',
    '',
    '--dir',
    folder,
    '--bind',
    '127.0.0.1',
    '--enable-debug-command',
    'yes',
  ];
  const child: ChildProcess = spawn('redis-server', argv, {
    stdio: 'ignore',
    env: {
      ...process.env,
      TZ: 'UTC',
      LD_PRELOAD: `${faketime()} libc.so.6`,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      FAKETIME_TIMESTAMP_FILE: clock,
    },
  });
  await listening(port);
  // When it would look for expired keys by itself is its own affair.
  const socket = await connected(port);
  await socketSide(socket).ask([['DEBUG', 'SET-ACTIVE-EXPIRE', '0']]);
  socket.destroy();
  return {
    setClock,
    open: async () => socketSide(await connected(port)),
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Waits until somebody listens on a port of the loopback. */
export async function listening(port: number): Promise<void> {
  for (let tries = 100; ; tries--) {
    try {
      (await connected(port)).destroy();
      return;
    } catch (error) {
      if (tries === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function connected(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    socket.setEncoding('latin1');
    socket.once('connect', () => resolve(socket));
    socket.once('error', reject);
  });
}

function socketSide(socket: Socket): Side {
  const reader = new AnswerReader();
  let waiting: (() => void) | null = null;
  socket.on('data', (bytes: string) => {
    reader.feed(bytes);
    waiting?.();
  });
  return {
    ask: (commands) =>
      new Promise((resolve) => {
        const answers: Answer[] = [];
        waiting = () => {
          for (let it = reader.next(); it !== null; it = reader.next()) answers.push(it);
          if (answers.length < commands.length) return;
          waiting = null;
          resolve(answers);
        };
        socket.write(commands.map(encodeRequest).join(''), 'latin1');
      }),
  };
}
