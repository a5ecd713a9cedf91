import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import pg from 'pg';

const redis = new Redis(process.env.REDIS_URL!);
const pool = new pg.Pool({ statement_timeout: 3_000, connectionTimeoutMillis: 2_000 });

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

type Player = { id: string; rating: number; score: number; met: string[] };
type Board = { board: number; white: string; black: string | null };

async function takeLock(key: string, ttl: number) {
  const token = randomUUID();
  for (let i = 0; i < 200; i++) {
    const ok = await redis.set(key, token, 'PX', ttl, 'NX');
    if (ok === 'OK') {
      return {
        async [Symbol.asyncDispose]() {
          await redis.eval(UNLOCK, 1, key, token).catch((e) => console.warn('unlock', key, e.message));
        },
      };
    }
    await new Promise((r) => setTimeout(r, 20));
  }
  throw new Error('another arbiter is pairing this round');
}

function swiss(players: Player[]): Board[] {
  const pool = [...players].sort((a, b) => b.score - a.score || b.rating - a.rating);
  const boards: Board[] = [];
  while (pool.length) {
    const white = pool.shift()!;
    let i = pool.findIndex((p) => !white.met.includes(p.id));
    if (i < 0) i = 0;
    const [black] = pool.splice(i, 1);
    boards.push({ board: boards.length + 1, white: white.id, black: black?.id ?? null });
  }
  return boards;
}

async function publish(tournament: string, round: number, boards: Board[]) {
  const db = await pool.connect();
  try {
    await db.query('begin');
    for (const b of boards) {
      await db.query(
        'insert into games (tournament, round, board, white, black) values ($1, $2, $3, $4, $5)',
        [tournament, round, b.board, b.white, b.black],
      );
    }
    await db.query('commit');
  } catch (err) {
    await db.query('rollback').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
  return boards;
}

// both the arbiter's button and the "all results are in" hook come here
export async function pairRound(tournament: string, round: number): Promise<Board[]> {
  await using _lock = await takeLock(`chess:pairing:${tournament}`, 60_000);

  const { rows: games } = await pool.query<Board>(
    'select board, white, black from games where tournament = $1 and round = $2 order by board',
    [tournament, round],
  );
  if (games.length) return games;

  const { rows: players } = await pool.query<Player>(
    'select id, rating, score, met from standings where tournament = $1 and not withdrawn',
    [tournament],
  );
  return publish(tournament, round, swiss(players));
}
