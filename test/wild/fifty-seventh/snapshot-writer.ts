import { ulid } from 'ulid';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import type { Logger } from 'pino';
import { applyOps, type BoardBody, type BoardOp } from './ops';

/*
 * Compacts the op log of a whiteboard into its snapshot.
 *
 * The lock in Redis keeps two compactors from doing the same work; what makes the result correct
 * is the fence: a number that grows with every acquisition and that Postgres checks.
 *
 *   board_snapshots(board_id pk, body jsonb, last_op_id bigint not null, fence bigint not null)
 *   board_ops(id bigint, …)  ids are handed out under the board's row lock, so they appear in order
 */

const TTL_MS = 60_000;

// Lock and fence in one step. {…} keeps both keys in one cluster slot.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class StaleFenceError extends Error {
  constructor(readonly boardId: string, readonly fence: number) {
    super(`fence ${fence} for board ${boardId} has been overtaken`);
  }
}

export class SnapshotWriter {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly log: Logger,
  ) {}

  async compact(boardId: string): Promise<boolean> {
    const lockKey = `board:{${boardId}}:compact`;
    const token = ulid();
    const fence = (await this.redis.eval(ACQUIRE, 2, lockKey, `board:{${boardId}}:fence`, token, TTL_MS)) as number | null;
    if (fence === null) return false;

    try {
      const { body, lastOpId } = await this.claim(boardId, fence);
      const { rows: ops } = await this.pool.query<BoardOp & { id: string }>(
        'select id, kind, payload from board_ops where board_id = $1 and id > $2 order by id limit 20000',
        [boardId, lastOpId],
      );
      if (ops.length === 0) return true;
      await this.write(boardId, fence, applyOps(body, ops), ops[ops.length - 1].id);
      this.log.info({ boardId, fence, ops: ops.length }, 'board compacted');
      return true;
    } finally {
      await this.redis
        .eval(RELEASE, 1, lockKey, token)
        .catch((err) => this.log.warn({ err, boardId }, 'release failed, lock will expire'));
    }
  }

  /**
   * Puts our fence on the row while reading it. From here on an earlier holder cannot write
   * any more, so what we read is what we will replace.
   */
  private async claim(boardId: string, fence: number): Promise<{ body: BoardBody; lastOpId: string }> {
    const { rows } = await this.pool.query(
      `insert into board_snapshots as s (board_id, body, last_op_id, fence)
       values ($1, '{"shapes":[]}', 0, $2)
       on conflict (board_id) do update set fence = excluded.fence
         where s.fence < excluded.fence
       returning s.body, s.last_op_id`,
      [boardId, fence],
    );
    // Also taken when Redis came back without its counter; `pnpm fence:reseed` lifts it over max(fence).
    if (rows.length === 0) throw new StaleFenceError(boardId, fence);
    return { body: rows[0].body, lastOpId: rows[0].last_op_id };
  }

  private async write(boardId: string, fence: number, body: BoardBody, lastOpId: string): Promise<void> {
    const res = await this.pool.query(
      `update board_snapshots set body = $3, last_op_id = $4, updated_at = now()
        where board_id = $1 and fence = $2`,
      [boardId, fence, JSON.stringify(body), lastOpId],
    );
    if (res.rowCount !== 1) throw new StaleFenceError(boardId, fence);
  }
}
