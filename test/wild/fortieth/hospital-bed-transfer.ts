import { Injectable, ConflictException, Logger } from '@nestjs/common';
import Redis from 'ioredis';
import Redlock, { ExecutionError, type RedlockAbortSignal } from 'redlock5';
import { Pool, type PoolClient } from 'pg';

const nodes = (process.env.LOCK_REDIS ?? '').split(',').map((url) => new Redis(url));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 3_000,
});

interface Bed {
  id: string;
  ward_id: string;
  patient_id: string | null;
  version: number;
}

@Injectable()
export class BedTransferService {
  private readonly log = new Logger(BedTransferService.name);

  constructor(private readonly pool: Pool) {
    redlock.on('error', (err) => this.log.debug(String(err)));
  }

  async transfer(patientId: string, fromBed: string, toBed: string): Promise<void> {
    if (fromBed === toBed) return;
    const resources = [`bed:${fromBed}`, `bed:${toBed}`];
    let moved = false;
    try {
      await redlock.using(resources, 10_000, async (signal) => {
        await this.move(patientId, fromBed, toBed, signal);
        moved = true;
      });
    } catch (err) {
      if (moved) return this.log.warn(`moved, but the bed locks were not given back: ${err}`);
      if (err instanceof ExecutionError) throw new ConflictException('bed is being assigned, try again');
      throw err;
    }
  }

  private async move(patientId: string, fromBed: string, toBed: string, signal: RedlockAbortSignal) {
    const { rows } = await this.pool.query<Bed>('SELECT * FROM beds WHERE id = ANY($1)', [[fromBed, toBed]]);
    const from = rows.find((b) => b.id === fromBed);
    const to = rows.find((b) => b.id === toBed);
    if (!from || from.patient_id !== patientId) throw new ConflictException('patient is not in that bed');
    if (!to || to.patient_id !== null) throw new ConflictException('bed is taken');

    // isolation rules live in the hygiene system, usually 2-3s, sometimes 20
    const allowed = await this.hygieneAllows(patientId, to.ward_id);
    if (!allowed) throw new ConflictException('ward does not admit the patient');
    if (signal.aborted) throw signal.error ?? new Error('bed lock lost');

    const db = await this.pool.connect();
    try {
      await db.query('BEGIN');
      await this.setPatient(db, from, null);
      await this.setPatient(db, to, patientId);
      await db.query('INSERT INTO bed_moves (patient_id, from_bed, to_bed) VALUES ($1, $2, $3)', [
        patientId,
        fromBed,
        toBed,
      ]);
      if (signal.aborted) throw signal.error ?? new Error('bed lock lost');
      await db.query('COMMIT');
    } catch (err) {
      await db.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      db.release();
    }
  }

  private async setPatient(db: PoolClient, bed: Bed, patientId: string | null) {
    const res = await db.query(
      'UPDATE beds SET patient_id = $3, version = version + 1 WHERE id = $1 AND version = $2',
      [bed.id, bed.version, patientId],
    );
    if (res.rowCount !== 1) throw new ConflictException(`bed ${bed.id} changed meanwhile`);
  }

  private async hygieneAllows(patientId: string, wardId: string): Promise<boolean> {
    const res = await fetch(`${process.env.HYGIENE_URL}/admission?patient=${patientId}&ward=${wardId}`, {
      signal: AbortSignal.timeout(30_000),
    });
    if (!res.ok) throw new Error(`hygiene system: ${res.status}`);
    return ((await res.json()) as { allowed: boolean }).allowed;
  }
}
