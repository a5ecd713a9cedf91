import type { PGlite } from '@electric-sql/pglite';
import type { FencingToken } from 'lockstep-redlock';

/** Somebody with a newer lock has written since: this writer had lost its own without knowing. */
export class StaleWriter extends Error {
  override readonly name: string = 'StaleWriter';
}

/** Balances in PostgreSQL, each row with the fencing token of its last writer. */
export class Accounts {
  readonly #db: PGlite;

  constructor(db: PGlite) {
    this.#db = db;
  }

  async create(): Promise<void> {
    // Attempts are compared byte by byte, as `compareFencingTokens` does it.
    await this.#db.exec(`
      create table account (
        id text primary key,
        balance integer not null,
        fence_counter bigint not null default 0,
        fence_attempt text collate "C" not null default ''
      )`);
  }

  async open(id: string, balance: number): Promise<void> {
    await this.#db.query('insert into account (id, balance) values ($1, $2)', [id, balance]);
  }

  async balance(id: string): Promise<number> {
    const { rows } = await this.#db.query<{ balance: number }>('select balance from account where id = $1', [id]);
    const [row] = rows;
    if (row === undefined) throw new Error(`there is no account ${id}`);
    return row.balance;
  }

  /**
   * Writes a balance, unless somebody with a greater token has written to the account. The comparison and the write are
   * one statement: nothing can come between them, however long this process is paused.
   *
   * @throws StaleWriter if somebody has.
   */
  async write(id: string, balance: number, token: FencingToken): Promise<void> {
    const { rows } = await this.#db.query(
      `update account set balance = $2, fence_counter = $3, fence_attempt = $4
       where id = $1 and (fence_counter, fence_attempt) <= ($3, $4) returning id`,
      [id, balance, token.counter, token.attempt],
    );
    if (rows.length === 0) throw new StaleWriter(`account ${id} has been written to under a newer lock`);
  }
}
