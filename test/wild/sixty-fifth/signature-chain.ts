import { createHash } from 'node:crypto';
import type { Redis } from 'ioredis';
import Redlock, { type Lock } from 'redlock5';
import type { Database, Transaction } from './db';
import type { Hsm } from './hsm';
import { logger } from './logger';

const LOCK_MS = 45_000;
const HSM_TIMEOUT_MS = 10_000;
const STATEMENT_TIMEOUT_MS = 4_000;

export interface SignedEntry {
  seq: number;
  hash: string;
  signature: string;
}

interface ChainRow {
  seq: number;
  hash: string;
}

/**
 * Appends signatures to a dossier's chain. Each entry carries the hash of the
 * one before it, so a dossier is appended to by one request at a time.
 */
export class SignatureChain {
  private readonly redlock: Redlock;
  private readonly db: Database;
  private readonly hsm: Hsm;

  constructor(redis: Redis, db: Database, hsm: Hsm) {
    this.db = db;
    this.hsm = hsm;
    this.redlock = new Redlock([redis], { retryCount: 20, retryDelay: 250, retryJitter: 100 });
    this.redlock.on('error', (err) => logger.debug({ err }, 'redlock'));
  }

  /** Signs the document as the next entry of the dossier. */
  async append(dossierId: string, document: Uint8Array, signer: string): Promise<SignedEntry> {
    return this.db.transaction({ isolation: 'read committed' }, async (tx) => {
      await tx.query(`SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);
      return this.exclusively(dossierId, (lock) => this.appendLocked(tx, lock, dossierId, document, signer));
    });
  }

  private async appendLocked(
    tx: Transaction,
    lock: Lock,
    dossierId: string,
    document: Uint8Array,
    signer: string,
  ): Promise<SignedEntry> {
    const last = await tx.query<ChainRow>(
      'SELECT seq, hash FROM signature_chain WHERE dossier_id = $1 ORDER BY seq DESC LIMIT 1',
      [dossierId],
    );
    const seq = (last.rows[0]?.seq ?? 0) + 1;
    const hash = createHash('sha256')
      .update(last.rows[0]?.hash ?? '')
      .update(document)
      .update(signer)
      .digest('hex');

    const signature = await this.hsm.sign(hash, { signer, timeoutMs: HSM_TIMEOUT_MS });

    if (lock.expiration - Date.now() < 2 * STATEMENT_TIMEOUT_MS) {
      throw new Error(`dossier ${dossierId}: signing took too long`);
    }
    await tx.query(
      `INSERT INTO signature_chain (dossier_id, seq, hash, signer, signature)
       VALUES ($1, $2, $3, $4, $5)`,
      [dossierId, seq, hash, signer, signature],
    );
    await tx.query('UPDATE dossiers SET head_seq = $2, head_hash = $3 WHERE id = $1', [dossierId, seq, hash]);
    return { seq, hash, signature };
  }

  private async exclusively<T>(dossierId: string, work: (lock: Lock) => Promise<T>): Promise<T> {
    const lock = await this.redlock.acquire([`dossier:${dossierId}:chain`], LOCK_MS);
    try {
      return await work(lock);
    } finally {
      await lock.release().catch((err) => logger.warn({ err, dossierId }, 'chain lock not released'));
    }
  }
}
