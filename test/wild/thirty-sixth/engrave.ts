import { createClient, WatchError } from 'redis';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { copyFile, mkdtemp, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const LIBRARY = process.env.SCORE_DIR ?? '/srv/scores';

const ENGRAVE_CAP_MS = 60_000;
const CONCH_MS = 120_000;

export class ConchTaken extends Error {
  constructor(topic: string) {
    super(`${topic} is being engraved right now`);
  }
}

function openLine() {
  const line = createClient({
    url: process.env.REDIS_URL ?? 'redis://localhost:6379',
    socket: { connectTimeout: 3_000, reconnectStrategy: false },
  });
  line.on('error', (err: Error) => console.warn('conch line:', err.message));
  return line;
}

type Line = ReturnType<typeof openLine>;

async function putDown(line: Line, conch: string, grip: string): Promise<void> {
  try {
    await line.watch(conch);
    if ((await line.get(conch)) !== grip) {
      await line.unwatch();
      return;
    }
    await line.multi().del(conch).exec();
  } catch (err) {
    if (!(err instanceof WatchError)) console.warn(`${conch} left to expire`, err);
  }
}

// One connection per speaker: WATCH belongs to the connection, so it can't be shared.
export async function withConch<T>(topic: string, speak: () => Promise<T>): Promise<T> {
  const conch = `conch:${topic}`;
  const grip = randomUUID();
  const line = openLine();
  await line.connect();
  try {
    const raised = await line.set(conch, grip, {
      condition: 'NX',
      expiration: { type: 'PX', value: CONCH_MS },
    });
    if (raised !== 'OK') throw new ConchTaken(topic);
    try {
      return await speak();
    } finally {
      await putDown(line, conch, grip);
    }
  } finally {
    if (line.isOpen) line.destroy();
  }
}

/** Callers run from the queue and put the score back there on ConchTaken. */
export function engrave(scoreId: string): Promise<string> {
  return withConch(`score:${scoreId}`, async () => {
    const desk = await mkdtemp(join(LIBRARY, '.desk-'));
    try {
      await copyFile(join(LIBRARY, `${scoreId}.ly`), join(desk, 'score.ly'));
      await run('lilypond', ['-o', join(desk, 'out'), join(desk, 'score.ly')], {
        timeout: ENGRAVE_CAP_MS,
        killSignal: 'SIGKILL',
      });
      const pdf = join(LIBRARY, `${scoreId}.pdf`);
      await rename(join(desk, 'out.pdf'), pdf);
      return pdf;
    } finally {
      await rm(desk, { recursive: true, force: true });
    }
  });
}
